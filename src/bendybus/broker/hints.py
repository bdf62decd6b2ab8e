"""Hints of other front ends, and looks of one's own in case they are lost.

Whoever waits here for messages that come through another front end is woken by a hint of it, in
milliseconds. A hint can be lost: so queues that somebody waits at are looked at every second, those
of one store by one question. Nothing here runs where no store is shared.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from bendybus.broker.catalog import Catalog
from bendybus.broker.following import Following
from bendybus.broker.holdings import Holdings
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import BusError
from bendybus.model.ids import QueueNumber, SubQueue
from bendybus.store.port import Tally
from bendybus.store.sharing import CATALOG

LOOK_SECONDS: Final = 1.0
# How often at most all queues of a store are looked at because others did not say which.
ALL_APART_SECONDS: Final = 0.25
# How many queues of one store are looked at together; the others have their turn a second later.
LOOKED_AT_MAX: Final = 500
# How many entities are gone through before clients have their turn.
GONE_THROUGH_TOGETHER: Final = 200

_log = logging.getLogger(__name__)


class Hints:
    """Wakes who waits, by what others say and by what the stores hold."""

    def __init__(
        self, catalogs: Sequence[Catalog], holdings: Holdings, following: Following
    ) -> None:
        self._catalogs = catalogs
        self._holdings = holdings
        self._following = following
        # Of each store: up to which queue they were looked at.
        self._looked_until: dict[int, int] = {}
        # Stores of which all queues are to be looked at soon, and when they last were.
        self._all_soon: set[int] = set()
        self._all_at: dict[int, float] = {}
        for at, store in enumerate(holdings.stores):
            store.listen(partial(self._hear, at))

    def _hear(self, at: int, queues: Sequence[QueueNumber]) -> None:
        if not queues or CATALOG in queues:
            self._following.note_changed()
        if not queues:
            self._hear_of_all_soon(at)
        places = self._holdings.places[at]
        for queue in queues:
            place = places.get(queue)
            if place is not None:
                sub_queue, source = place
                sub_queue.note_heard(source)

    def _hear_of_all_soon(self, at: int) -> None:
        """Look at all queues of a store, at once if that was not done a moment ago."""
        if at not in self._all_soon:
            self._all_soon.add(at)
            loop = asyncio.get_running_loop()
            loop.call_at(self._all_at.get(at, 0.0) + ALL_APART_SECONDS, self._hear_of_all, at)

    def _hear_of_all(self, at: int) -> None:
        self._all_soon.discard(at)
        self._all_at[at] = asyncio.get_running_loop().time()
        for sub_queue, source in self._holdings.places[at].values():
            sub_queue.note_heard(source)

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if any(store.is_shared for store in self._holdings.stores):
                await self.look()

    async def look(self) -> None:
        """Wake who waits at queues that have something."""
        waited_at: dict[int, dict[QueueNumber, tuple[ServedSubQueue, Source]]] = {}
        for at, sub_queue, source in await self._waited_at():
            waited_at.setdefault(at, {})[source.number] = sub_queue, source
        await asyncio.gather(*(self._look_at(at, places) for at, places in waited_at.items()))

    async def _look_at(
        self, at: int, places: dict[QueueNumber, tuple[ServedSubQueue, Source]]
    ) -> None:
        queues = self._turn_of(at, sorted(places))
        try:
            tallies = await self._holdings.stores[at].tallies(queues)
        except BusError as error:
            _log.debug("looking at store %d was cut short: %s", at, error)
            return
        for queue, tally in tallies.items():
            sub_queue, source = places[queue]
            if _has_something(sub_queue, tally):
                sub_queue.note_heard(source)

    def _turn_of(self, at: int, queues: list[QueueNumber]) -> list[QueueNumber]:
        """Return those that are looked at now, if they are too many."""
        if len(queues) <= LOOKED_AT_MAX:
            return queues
        after = [queue for queue in queues if queue > self._looked_until.get(at, 0)]
        chosen = (after or queues)[:LOOKED_AT_MAX]
        self._looked_until[at] = chosen[-1]
        return chosen

    async def _waited_at(self) -> list[tuple[int, ServedSubQueue, Source]]:
        """Return where somebody waits that would not notice by himself."""
        numbers = {
            store: at
            for at, store in enumerate(self._holdings.stores)
            if store.is_shared and store.is_online
        }
        found: list[tuple[int, ServedSubQueue, Source]] = []
        for sub_queue in await self._sub_queues():
            is_waited_at = sub_queue.waiting.count > 0 or sub_queue.held_sessions.count > 0
            for source in sub_queue.sources:
                at = numbers.get(source.store)
                # Who looks after a store takes messages elsewhere.
                if at is not None and (
                    is_waited_at or (sub_queue.forwards_to and source.store.is_caretaker)
                ):
                    found.append((at, sub_queue, source))
        return found

    async def _sub_queues(self) -> Iterable[ServedSubQueue]:
        found: list[ServedSubQueue] = []
        for catalog in self._catalogs:
            for passed, queue in enumerate(list(catalog.queues()), 1):
                found += _of_interest(queue.sub_queues.values())
                if not passed % GONE_THROUGH_TOGETHER:
                    await asyncio.sleep(0)
        return found


def _of_interest(sub_queues: Iterable[ServedSubQueue]) -> Iterator[ServedSubQueue]:
    """Leave out those at which nobody waits here, which are nearly all."""
    for each in sub_queues:
        if each.sub_queue is not SubQueue.TRANSFER and (
            each.waiting.count or each.held_sessions.count or each.forwards_to is not None
        ):
            yield each


def _has_something(sub_queue: ServedSubQueue, tally: Tally) -> bool:
    """Say whether looking makes sense. Whose session a message belongs to is not told."""
    return tally.active > tally.reserved if sub_queue.has_sessions else tally.oldest_at is not None
