"""removal: entities that nobody uses (auto-delete on idle), and deleting what retired ones hold."""

import asyncio
import logging
import math
from functools import partial
from itertools import chain
from typing import Final

from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.namespaces import Namespaces
from bendybus.broker.served_queue import ServedQueue
from bendybus.model.errors import BusError
from bendybus.model.ids import EntityNumber, Instant, QueueNumber, SubQueue
from bendybus.store.port import EntityRecord, FragmentPlace

LOOK_SECONDS: Final = 5.0
# What one store deletes in one turn.
DELETE_COUNT_MAX: Final = 500
# How many entities are looked at before clients have their turn.
LOOKED_AT_TOGETHER: Final = 200
# Where stores are shared, a use is noted for other front ends, at most so often. Entities that go
# when they are idle do so after five minutes at the earliest.
NOTE_USE_MS: Final = 30_000
_log = logging.getLogger(__name__)


class Removal:
    """Retires entities that were idle for as long as they allow, and deletes what they held.

    What is a use, `ServedQueue.note_use` and `is_used` say; and an entity in which messages wait
    for their time is not idle. Idle time is not remembered over a restart: it begins anew. Of
    several front ends the one that looks after the first store retires and deletes; each notes
    there what is used through it.
    """

    def __init__(self, namespaces: Namespaces, clock: Clock) -> None:
        self._namespaces = namespaces
        self._records = namespaces.records
        self._clock = clock
        # How often an entity had been used, and since when that is so.
        self._unchanged: dict[EntityNumber, tuple[int, Instant]] = {}
        # When it was last noted in the first store that an entity is used.
        self._noted: dict[EntityNumber, Instant] = {}
        self._first = namespaces.records.stores[0]

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Retire what is idle, and delete what is retired, if all stores are there."""
        idle = await self._idle()
        if self._first.is_shared:
            try:
                await self._note_uses()
                idle = await self._unused_elsewhere(idle)
            except BusError as error:
                _log.warning("which entities are used elsewhere is not known: %s", error)
                return
        if not self._first.is_caretaker or not all(each.is_online for each in self._records.stores):
            return
        for catalog, queue in await self._without_scheduled(idle):
            try:
                await self._records.in_turn(partial(self._retire, catalog, queue))
            except BusError as error:
                _log.warning("'%s' is idle but could not be deleted: %s", queue.name, error)
        for record in self._records.retired():
            try:
                await self._delete(record)
            except BusError as error:
                _log.warning("deleting '%s' was cut short: %s", record.name, error)

    async def _note_uses(self) -> None:
        """Tell other front ends what was used through this one, of what would go otherwise."""
        now = self._clock.now()
        before, self._noted = self._noted, {}
        used: dict[Instant, list[EntityNumber]] = {}
        for catalog in self._namespaces.catalogs:
            for queue in catalog.queues():
                used_at = queue.accessed_at
                if queue.properties.auto_delete_on_idle is None or used_at is None:
                    continue
                noted_at = self._noted[queue.number] = before.get(queue.number, Instant(0))
                if used_at > noted_at and now - noted_at >= NOTE_USE_MS:
                    used.setdefault(used_at, []).append(queue.number)
        for used_at, numbers in used.items():
            await self._first.note_uses(numbers, now=used_at)
            self._noted.update(dict.fromkeys(numbers, used_at))

    async def _unused_elsewhere(
        self, idle: list[tuple[Catalog, ServedQueue]]
    ) -> list[tuple[Catalog, ServedQueue]]:
        """Return those that were not used through another front end, either."""
        if not idle:
            return idle
        now, uses = self._clock.now(), await self._first.uses()
        return [
            (catalog, queue)
            for catalog, queue in idle
            if now - uses.get(queue.number, 0) >= _allowed_ms(queue)
        ]

    async def _without_scheduled(
        self, idle: list[tuple[Catalog, ServedQueue]]
    ) -> list[tuple[Catalog, ServedQueue]]:
        """Return those in which no message waits for its time.

        The others are as if they were used now. They are used when that message comes, or is
        cancelled, so they need not be looked at again before they could be idle once more.
        """
        if not idle:
            return idle
        places = {queue.number: self._records.by_number[queue.number].places for _, queue in idle}
        wanted: dict[int, list[QueueNumber]] = {}
        for place in chain.from_iterable(places.values()):
            wanted.setdefault(place.store, []).append(place.queue(SubQueue.MAIN))
        tallies = await self._namespaces.holdings.tallying.tallies(wanted)

        def has_scheduled(place: FragmentPlace) -> bool:
            tally = (tallies[place.store] or {}).get(place.queue(SubQueue.MAIN))
            return tally is not None and tally.scheduled > 0

        left: list[tuple[Catalog, ServedQueue]] = []
        for catalog, queue in idle:
            if any(map(has_scheduled, places[queue.number])):
                self._unchanged[queue.number] = queue.uses, self._clock.now()
            else:
                left.append((catalog, queue))
        return left

    async def _retire(self, catalog: Catalog, queue: ServedQueue) -> None:
        """Retire an entity, unless it was used or deleted while others changed something."""
        uses, _ = self._unchanged[queue.number]
        if not queue.is_gone and not queue.is_used and queue.uses == uses:
            await catalog.retire(queue)
            _log.info("'%s' was idle for too long, deleted", queue.name)

    async def _idle(self) -> list[tuple[Catalog, ServedQueue]]:
        """Note who is used, and return those that have not been for as long as they allow."""
        now = self._clock.now()
        before, self._unchanged = self._unchanged, {}
        idle: list[tuple[Catalog, ServedQueue]] = []
        for catalog in self._namespaces.catalogs:
            for at, queue in enumerate(list(catalog.queues()), 1):
                since = self._unused_since(queue, before, now)
                if now - since >= _allowed_ms(queue):
                    idle.append((catalog, queue))
                if not at % LOOKED_AT_TOGETHER:
                    await asyncio.sleep(0)
        return idle

    def _unused_since(
        self,
        queue: ServedQueue,
        before: dict[EntityNumber, tuple[int, Instant]],
        now: Instant,
    ) -> Instant:
        uses, since = before.get(queue.number, (0, now))
        if uses != queue.uses or queue.is_used:
            uses, since = queue.uses, now
            queue.accessed_at = now
        self._unchanged[queue.number] = uses, since
        return since

    async def _delete(self, record: EntityRecord) -> None:
        """Delete an entity from every store.

        Not before each of them knows that it is removed: one that did not, and came back when the
        others had forgotten it, would bring it to life again.
        """
        if self._records.is_whole:
            await self._delete_everywhere(record)
            # Once more, while no store can be told of it again.
            await self._records.in_turn(partial(self._forget, record))

    async def _delete_everywhere(self, record: EntityRecord) -> None:
        for store in self._records.stores:
            while not await store.remove_entity(record.number, count_max=DELETE_COUNT_MAX):
                continue

    async def _forget(self, record: EntityRecord) -> None:
        await self._delete_everywhere(record)
        self._records.forget(record.number)


def _allowed_ms(queue: ServedQueue) -> float:
    """Return how long an entity may be idle."""
    allowed = queue.properties.auto_delete_on_idle
    return math.inf if allowed is None else allowed.total_seconds() * 1000
