"""catalog: which entities there are. Every store keeps a copy (R7.1)."""

import asyncio
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Final

from bendybus.broker.served_queue import ServedQueue, ServedSubQueue, Source, Timetable
from bendybus.model.entity import Queue, QueueProperties, check_partitioning_unchanged, name_key
from bendybus.model.errors import EntityNotFound, InvalidOperation, StartRefused
from bendybus.model.ids import EntityNumber, FragmentIndex, QueueNumber, StoreNumber, SubQueue
from bendybus.store.port import EntityRecord, FragmentPlace, Store

_QUEUES_PER_FRAGMENT: Final = len(SubQueue)


class Catalog:
    """The entities of the namespace, as last read from the stores."""

    def __init__(self, stores: Sequence[Store], namespace: str) -> None:
        self.stores = stores
        self.namespace = namespace
        # For each store: which sub-queue of which entity a queue number of it means.
        self.places: list[dict[QueueNumber, tuple[ServedSubQueue, Source]]] = [{} for _ in stores]
        self.timetables = [Timetable() for _ in stores]
        self._records: dict[EntityNumber, EntityRecord] = {}
        self._queues: dict[str, ServedQueue] = {}

    def queue(self, name: str) -> ServedQueue:
        """Return a queue by name, whatever its case."""
        found = self._queues.get(name_key(name))
        if found is None:
            raise EntityNotFound.named(f"sb://{self.namespace}/{name}")
        return found

    def queues(self) -> Iterable[ServedQueue]:
        """Return every queue."""
        return self._queues.values()

    async def load(self) -> None:
        """Read the catalog from every store that is online; the highest version counts."""
        for store in self.stores:
            if not store.is_online:
                continue
            for record in await store.entities():
                known = self._records.get(record.number)
                if known is None or known.version < record.version:
                    self._records[record.number] = record
        for record in self._records.values():
            self._serve(record)

    async def declare(self, queues: Sequence[Queue]) -> None:
        """Make the queues of a configuration file: create new ones, change those that differ."""
        for queue in queues:
            known = self._queues.get(name_key(queue.name))
            if known is None:
                await self._create(queue)
            elif known.properties != queue.properties:
                await self._change(known, queue.properties)

    async def _create(self, queue: Queue) -> None:
        number = EntityNumber(max(self._records, default=0) + 1)
        places = self._choose_places(number, queue.properties.fragment_count)
        await self._write(EntityRecord(number, queue, 1, places))

    async def _change(self, served: ServedQueue, properties: QueueProperties) -> None:
        try:
            check_partitioning_unchanged(served.properties, properties)
        except InvalidOperation as error:
            raise StartRefused(f"queue '{served.name}': {error}") from error
        known = self._records[served.number]
        queue = Queue(known.queue.name, properties)
        await self._write(dataclasses.replace(known, queue=queue, version=known.version + 1))

    async def _write(self, record: EntityRecord) -> None:
        """Write an entity to every store; refused before the first if one of them is away."""
        for store in self.stores:
            if not store.is_online:
                status = store.status()
                raise StartRefused(
                    f"store {status.number} is {status.state.value} ({status.reason}), so queue"
                    f" '{record.queue.name}' cannot be created or changed; mend {status.path}, or"
                    " start with the queues as they were"
                )
        await asyncio.gather(*(store.put_entity(record) for store in self.stores))
        self._records[record.number] = record
        self._serve(record)

    def _choose_places(self, number: EntityNumber, count: int) -> tuple[FragmentPlace, ...]:
        """Put each fragment into a store of its own while there are enough of them.

        The first one's store goes on with the entity's number, so that conventional entities
        spread over all stores too.
        """
        places: list[FragmentPlace] = []
        taken = [max(numbers, default=0) for numbers in self.places]
        for fragment in range(count):
            store = (number - 1 + fragment) % len(self.stores)
            places.append(FragmentPlace(StoreNumber(store), QueueNumber(taken[store] + 1)))
            taken[store] += _QUEUES_PER_FRAGMENT
        return tuple(places)

    def _serve(self, record: EntityRecord) -> None:
        missing = [place.store for place in record.places if place.store >= len(self.stores)]
        if missing:
            raise StartRefused(
                f"queue '{record.queue.name}' has fragments in store {missing[0]}, but only"
                f" {len(self.stores)} stores are configured; start with at least"
                f" {max(missing) + 1}"
            )
        served = ServedQueue(record)
        for fragment, place in enumerate(record.places):
            for sub_queue in SubQueue:
                number = place.queue(sub_queue)
                source = Source(
                    self.stores[place.store],
                    self.timetables[place.store],
                    number,
                    FragmentIndex(fragment),
                )
                served.place(sub_queue, source)
                self.places[place.store][number] = served.sub_queues[sub_queue], source
        self._queues[name_key(record.queue.name)] = served
