"""readers: who reserves messages of which entities, how much, and since when."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bendybus.broker.clock import Clock
from bendybus.broker.holdings import Holdings
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import StoreFailed, StoreUnavailable
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.reader import IDLE_AFTER_MS
from bendybus.store.port import Store, Tally
from bendybus.store.readers import ReaderRecord


class ReaderOfFragment(NamedTuple):
    """What a reader has in one fragment: its positions, and how much is reserved between them."""

    position: int
    committed: int
    messages: int
    bytes: int
    oldest_at: Instant | None
    # How many messages nobody has reserved.
    lag: int


class Reader(NamedTuple):
    """A reader over all fragments that can be asked."""

    name: str
    is_active: bool
    active_at: Instant
    opened_at: Instant
    messages: int
    bytes: int
    # When the oldest of its reservations was made; None if it has none.
    oldest_at: Instant | None
    lag: int
    fragments: dict[int, ReaderOfFragment]


class Readers(NamedTuple):
    """All readers of an entity, by name, and the fragments whose store is away."""

    readers: list[Reader]
    skipped: list[int]


# Of one reader its records by fragment, each with what the fragment holds.
_Found = dict[int, tuple[ReaderRecord, Tally | None]]


async def readers(sub_queue: ServedSubQueue, clock: Clock) -> Readers:
    """Say who reserves messages of a queue, as far as stores are there."""
    sub_queue.queue.check_there()
    found = await asyncio.gather(
        *(_asked(source.store, [source.number]) for source in sub_queue.sources)
    )
    by_name: dict[str, _Found] = {}
    skipped: list[int] = []
    for source, answer in zip(sub_queue.sources, found, strict=True):
        if answer is None:
            skipped.append(source.fragment)
            continue
        records, tallies = answer
        for record in records:
            held = record, tallies.get(record.queue)
            by_name.setdefault(record.name, {})[source.fragment] = held
    now = clock.now()
    return Readers([_joined(name, by_name[name], now) for name in sorted(by_name)], skipped)


async def readers_of_namespace(
    holdings: Holdings, namespace: str, clock: Clock
) -> list[tuple[ServedSubQueue, Reader]]:
    """Say who reserves messages in a namespace, one question to each store that is there."""
    answers = await asyncio.gather(*(_asked(store, None) for store in holdings.stores))
    found: dict[tuple[ServedSubQueue, str], _Found] = {}
    for places, answer in zip(holdings.places, answers, strict=True):
        if answer is not None:
            for sub_queue, source, record, tally in _placed(places, *answer):
                if sub_queue.queue.namespace == namespace:
                    key = sub_queue, record.name
                    found.setdefault(key, {})[source.fragment] = record, tally
    now = clock.now()
    listed = [(key[0], _joined(key[1], held, now)) for key, held in found.items()]
    listed.sort(key=lambda each: (each[0].queue.name, each[0].sub_queue, each[1].name))
    return listed


def _placed(
    places: Mapping[QueueNumber, tuple[ServedSubQueue, Source]],
    records: Sequence[ReaderRecord],
    tallies: Mapping[QueueNumber, Tally],
) -> Iterable[tuple[ServedSubQueue, Source, ReaderRecord, Tally | None]]:
    """Yield what is of an entity that is served: what a retired one has goes with it."""
    for record in records:
        if record.queue in places:
            sub_queue, source = places[record.queue]
            yield sub_queue, source, record, tallies.get(record.queue)


async def _asked(
    store: Store, queues: Sequence[QueueNumber] | None
) -> tuple[Sequence[ReaderRecord], Mapping[QueueNumber, Tally]] | None:
    """Ask a store for readers, and for what their queues hold; None if it is away."""
    try:
        records = await store.readers(queues)
        tallies = await store.tallies(sorted({record.queue for record in records}))
    except (StoreUnavailable, StoreFailed):
        return None
    return records, tallies


def unreserved(tally: Tally | None) -> int:
    """Return how many messages of a queue nobody has reserved, as far as it was counted."""
    return 0 if tally is None else max(tally.active - tally.reserved, 0)


def _joined(name: str, found: _Found, now: Instant) -> Reader:
    records = [record for record, _ in found.values()]
    active_at = max(record.active_at for record in records)
    made = [record.oldest_at for record in records if record.oldest_at is not None]
    fragments = {
        fragment: ReaderOfFragment(
            record.position,
            record.committed,
            record.messages,
            record.bytes,
            record.oldest_at,
            unreserved(tally),
        )
        for fragment, (record, tally) in sorted(found.items())
    }
    return Reader(
        name=name,
        is_active=now - active_at < IDLE_AFTER_MS,
        active_at=active_at,
        opened_at=max(record.opened_at for record in records),
        messages=sum(record.messages for record in records),
        bytes=sum(record.bytes for record in records),
        oldest_at=min(made, default=None),
        lag=sum(each.lag for each in fragments.values()),
        fragments=fragments,
    )
