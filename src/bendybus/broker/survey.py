"""survey: what every fragment holds and has done, and how the stores do, for operators."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bendybus.broker.holdings import Holdings
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import StoreFailed, StoreUnavailable
from bendybus.model.ids import QueueNumber
from bendybus.model.staging import StagedTally
from bendybus.model.store_status import StoreStatus
from bendybus.store.figures import Event, StoreFigures
from bendybus.store.port import Store, Tally
from bendybus.store.readers import ReaderRecord


class SurveyedFragment(NamedTuple):
    """One sub-queue of one fragment."""

    sub_queue: ServedSubQueue
    source: Source
    # None while its store is away: what is there is not known.
    tally: Tally | None
    locked: int
    readers: Sequence[ReaderRecord]
    # What happened to its messages since the broker started; of dead letters by reason.
    events: Mapping[tuple[Event, str], int]


@dataclass(frozen=True, slots=True)
class SurveyedStore:
    """A store, what it has done, and its fragments."""

    status: StoreStatus
    figures: StoreFigures
    tallies: Mapping[QueueNumber, Tally] | None
    locked: Mapping[QueueNumber, int]
    readers: Sequence[ReaderRecord]
    # None while it is away.
    staged: StagedTally | None
    places: Mapping[QueueNumber, tuple[ServedSubQueue, Source]]

    def fragments(self) -> Iterator[SurveyedFragment]:
        """Yield every sub-queue of every fragment here."""
        events: dict[int, dict[tuple[Event, str], int]] = {}
        for (queue, event, reason), count in self.figures.traffic.items():
            events.setdefault(queue, {})[event, reason] = count
        readers: dict[int, list[ReaderRecord]] = {}
        for record in self.readers:
            readers.setdefault(record.queue, []).append(record)
        for number, (sub_queue, source) in self.places.items():
            yield SurveyedFragment(
                sub_queue,
                source,
                None if self.tallies is None else self.tallies.get(number),
                self.locked.get(number, 0),
                readers.get(number, ()),
                events.get(number, {}),
            )


async def survey(holdings: Holdings) -> list[SurveyedStore]:
    """Ask every store that is there, a question of each kind, however many entities there are."""
    places = [dict(each) for each in holdings.places]
    wanted = {at: list(each) for at, each in enumerate(places)}
    tallies, locked, readers, staged = await asyncio.gather(
        holdings.tallying.tallies(wanted),
        asyncio.gather(*map(_locked, holdings.stores)),
        asyncio.gather(*map(_readers, holdings.stores)),
        asyncio.gather(*map(_staged, holdings.stores)),
    )
    return [
        SurveyedStore(
            store.status(),
            store.figures(),
            tallies[at],
            locked[at],
            readers[at],
            staged[at],
            places[at],
        )
        for at, store in enumerate(holdings.stores)
    ]


def survey_own(holdings: Holdings) -> list[SurveyedStore]:
    """Say what only this process knows: what it did itself. Asks no store."""
    return [
        SurveyedStore(store.status(), store.figures(), None, {}, (), None, dict(places))
        for store, places in zip(holdings.stores, holdings.places, strict=True)
    ]


async def _readers(store: Store) -> Sequence[ReaderRecord]:
    try:
        return await store.readers()
    except (StoreUnavailable, StoreFailed):
        return ()


async def _staged(store: Store) -> StagedTally | None:
    try:
        return await store.staged_tally()
    except (StoreUnavailable, StoreFailed):
        return None


async def _locked(store: Store) -> Mapping[QueueNumber, int]:
    try:
        return await store.locked()
    except (StoreUnavailable, StoreFailed):
        return {}
