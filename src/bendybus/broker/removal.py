"""removal: entities that nobody uses (auto-delete on idle), and deleting what retired ones hold."""

import asyncio
import logging
from typing import Final

from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.served_queue import ServedQueue
from bendybus.model.errors import BusError
from bendybus.model.ids import EntityNumber, Instant
from bendybus.store.port import EntityRecord

LOOK_SECONDS: Final = 5.0
# What one store deletes in one turn.
DELETE_COUNT_MAX: Final = 500
# The signs of use of an entity that nobody has used since it was served.
UNUSED: Final = (0, 0)

_log = logging.getLogger(__name__)


class Removal:
    """Retires entities that were idle for as long as they allow, and deletes what they held.

    An entity is used while a link to it is open, by a request, and by messages that come. Idle
    time is not remembered over a restart: it begins anew.
    """

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock
        # Since when an entity has shown the same signs of use.
        self._unchanged: dict[EntityNumber, tuple[object, Instant]] = {}

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Retire what is idle, and delete what is retired as far as the stores are there."""
        for queue in self._idle():
            try:
                async with self._catalog.changing:
                    await self._catalog.retire(queue)
                _log.info("'%s' was idle for too long, deleted", queue.name)
            except BusError as error:
                _log.warning("'%s' is idle but could not be deleted: %s", queue.name, error)
        for record in self._catalog.retired():
            try:
                await self._delete(record)
            except BusError as error:
                _log.warning("deleting '%s' was cut short: %s", record.name, error)

    def _idle(self) -> list[ServedQueue]:
        now = self._clock.now()
        before, self._unchanged = self._unchanged, {}
        idle: list[ServedQueue] = []
        for queue in self._catalog.queues():
            signs, since = before.get(queue.number, (UNUSED, now))
            if signs != queue.signs_of_use or queue.is_used:
                signs, since = queue.signs_of_use, now
                queue.accessed_at = now
            self._unchanged[queue.number] = signs, since
            allowed = queue.properties.auto_delete_on_idle
            if (
                allowed is not None
                and not queue.is_used
                and now - since >= allowed.total_seconds() * 1000
            ):
                idle.append(queue)
        return idle

    async def _delete(self, record: EntityRecord) -> None:
        """Delete an entity from every store; a store that is away keeps it until it is back."""
        stores = self._catalog.stores
        for store in stores:
            if store.is_online:
                while not await store.remove_entity(record.number, count_max=DELETE_COUNT_MAX):
                    continue
        if all(store.is_online for store in stores):
            self._catalog.forget(record.number)
