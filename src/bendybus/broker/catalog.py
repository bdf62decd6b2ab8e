"""catalog: which entities there are. Every store keeps a copy (R7.1)."""

import asyncio
import dataclasses
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence

from bendybus.broker.declaring import Plan
from bendybus.broker.departures import Departures
from bendybus.broker.numbering import Numbering
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue, Source, Timetable
from bendybus.broker.served_topic import ServedSubscription, ServedTopic
from bendybus.model.access import AccessRule
from bendybus.model.content_reader import ContentReader
from bendybus.model.entity import Queue, Subscription, Topic, name_key
from bendybus.model.errors import EntityNotFound, StartRefused, StoreUnavailable
from bendybus.model.ids import EntityNumber, FragmentIndex, Instant, QueueNumber, SubQueue
from bendybus.model.namespace import check_namespace_quota
from bendybus.store.port import EntityRecord, NumbersGiven, Store

Kind = type[Queue] | type[Topic]


class Catalog:
    """The entities of the namespace, as last read from the stores."""

    def __init__(
        self,
        stores: Sequence[Store],
        namespace: str,
        reader: ContentReader,
        access_rules: tuple[AccessRule, ...] = (),
    ) -> None:
        self.stores = stores
        self.reader = reader
        self.namespace = namespace
        # The rules whose keys open every entity; those of single ones are with their properties.
        self.access_rules = access_rules
        # For each store: which sub-queue of which entity a queue number of it means.
        self.places: list[dict[QueueNumber, tuple[ServedSubQueue, Source]]] = [{} for _ in stores]
        # Of these, those whose messages are received by session.
        self.session_places: list[dict[QueueNumber, tuple[ServedSubQueue, Source]]] = [
            {} for _ in stores
        ]
        self.timetables = [Timetable() for _ in stores]
        self.departures = Departures()
        self._records: dict[EntityNumber, EntityRecord] = {}
        self._queues: dict[str, ServedQueue] = {}
        # The names of queues and of topics, in order, so that a page of them is found at once.
        self._names: dict[Kind, list[str]] = {Queue: [], Topic: []}
        self._partitioned = 0
        # Held while something is changed that depends on what was there before.
        self.changing = asyncio.Lock()

    @property
    def records(self) -> Mapping[EntityNumber, EntityRecord]:
        """Every entity as it stands in the stores."""
        return self._records

    def queue(self, name: str) -> ServedQueue:
        """Return a queue, a topic, or a subscription by its path, whatever the case."""
        found = self._queues.get(name_key(name))
        if found is None:
            raise EntityNotFound.named(f"sb://{self.namespace}/{name}")
        return found

    def subscription(self, topic: str, name: str) -> ServedSubscription:
        """Return a subscription of a topic, whatever the case."""
        parent = self.queue(topic)
        found = parent.subscription(name) if isinstance(parent, ServedTopic) else None
        if found is None:
            raise EntityNotFound.named(f"{self.namespace}:Topic:{topic}|{name}")
        return found

    def queues(self) -> Iterable[ServedQueue]:
        """Return every queue, topic and subscription."""
        return self._queues.values()

    def has(self, path: str) -> bool:
        """Whether there is an entity of that name, or a subscription with that path."""
        return name_key(path) in self._queues

    def record(self, path: str) -> EntityRecord:
        """Return an entity as it stands, by its name or path. Raises `EntityNotFound`."""
        return self._records[self.queue(path).number]

    def listed(self, kind: Kind, *, skip: int = 0, top: int | None = None) -> list[EntityRecord]:
        """Return queues or topics in the order of their names, some of them if so wanted."""
        names = self._names[kind]
        end = len(names) if top is None else skip + top
        return [self._records[self._queues[name].number] for name in names[skip:end]]

    def subscriptions_of(
        self, topic: str, *, skip: int = 0, top: int | None = None
    ) -> list[EntityRecord]:
        """Return subscriptions in the order of their names. Raises `EntityNotFound`."""
        served = self.queue(topic)
        if not isinstance(served, ServedTopic):
            raise EntityNotFound.named(f"{self.namespace}:Topic:{topic}")
        found = sorted(served.subscriptions, key=lambda each: name_key(each.name))
        end = len(found) if top is None else skip + top
        return [self._records[each.number] for each in found[skip:end]]

    def accessed_at(self, number: EntityNumber) -> Instant | None:
        """Say when an entity was last used, to within seconds; None if not since the start."""
        return self._queues[name_key(self._records[number].name)].accessed_at

    def subscription_count(self, number: EntityNumber) -> int:
        """Say how many subscriptions an entity has; only topics have any."""
        served = self._queues[name_key(self._records[number].name)]
        return served.subscription_count if isinstance(served, ServedTopic) else 0

    def check_room_for(self, entity: Queue | Topic) -> None:
        """Refuse one more queue or topic than the namespace may have (R1.5)."""
        entities = sum(map(len, self._names.values())) + 1
        check_namespace_quota(entities, self._partitioned + entity.properties.enable_partitioning)

    async def load(self) -> None:
        """Read the catalog from every store that is online; the highest version counts."""
        versions: dict[Store, dict[EntityNumber, int]] = {}
        for store in self.stores:
            if not store.is_online:
                continue
            found = await store.entities()
            versions[store] = {record.number: record.version for record in found}
            for record in found:
                known = self._records.get(record.number)
                if known is None or known.version < record.version:
                    self._records[record.number] = record
        # A topic has a lower number than its subscriptions: it was there before them.
        records = [record for _, record in sorted(self._records.items())]
        for record in records:
            if not record.is_removed:
                self.serve(record)
        # A crash may have come between the writes to two stores.
        await asyncio.gather(
            *(
                store.put_entity(record)
                for store, held in versions.items()
                for record in records
                if held.get(record.number) != record.version
            )
        )

    async def declare(self, entities: Sequence[Queue | Topic], *, now: Instant) -> None:
        """Make the entities of a configuration: create new ones, change those that differ.

        Subscriptions that it does not mention stay as they are.
        """
        standing = {
            number: record for number, record in self._records.items() if not record.is_removed
        }
        plan = Plan(standing, await self.numbering(), now)
        for entity in entities:
            plan.declare(entity)
        if not plan.changed:
            return
        try:
            await self.write(plan.changed)
        except StoreUnavailable as error:
            raise StartRefused(
                f"{error} So '{plan.changed[0].name}' cannot be created or changed; mend the store,"
                " or start with the entities as they were"
            ) from error
        for record in plan.changed:
            if name_key(record.name) in self._queues:
                self.change(record)
            else:
                self.serve(record)

    async def numbering(self) -> Numbering:
        """Return who gives new entities their numbers, as far as stores are there to ask."""
        return Numbering(
            [
                await store.numbers_given() if store.is_online else NumbersGiven(0, 0)
                for store in self.stores
            ]
        )

    async def write(self, records: Sequence[EntityRecord]) -> None:
        """Write entities to every store; refused before the first if one of them is away (R7.1)."""
        for store in self.stores:
            if not store.is_online:
                status = store.status()
                raise StoreUnavailable(
                    status.number,
                    f"it is {status.state.value} ({status.reason}), see {status.path}",
                )
        # All at once: each store joins those that wait for it into few commits.
        await asyncio.gather(
            *(store.put_entity(record) for store in self.stores for record in records)
        )
        for record in records:
            self._records[record.number] = record

    async def retire(self, served: ServedQueue) -> None:
        """Serve an entity no longer, nor its subscriptions; durable on return.

        What it holds is deleted afterwards, see `removal`. Refused, and nothing changed, while a
        store is away (R7.1).
        """
        records = self._with_subscriptions([self._records[served.number]])
        await self.write(
            [
                dataclasses.replace(record, is_removed=True, version=record.version + 1)
                for record in records
            ]
        )
        for record in reversed(records):
            self._unserve(record)

    def retired(self) -> list[EntityRecord]:
        """Return the entities that were retired and not deleted yet, subscriptions first."""
        return [
            record for _, record in sorted(self._records.items(), reverse=True) if record.is_removed
        ]

    def forget(self, number: EntityNumber) -> None:
        """Forget an entity that is gone from every store."""
        del self._records[number]

    def _with_subscriptions(self, records: Sequence[EntityRecord]) -> list[EntityRecord]:
        """Add the subscriptions of topics that changed, in the order in which to serve them."""
        changed = {record.number for record in records}
        return [
            record
            for number, record in sorted(self._records.items())
            if not record.is_removed
            and (number in changed or (record.topic and record.topic.number in changed))
        ]

    def change(self, record: EntityRecord) -> None:
        """Serve an entity as it stands now; whoever uses it goes on with the same one."""
        served, entity = self._queues[name_key(record.name)], record.entity
        changed: list[ServedQueue] = [served]
        if isinstance(served, ServedTopic):
            assert isinstance(entity, Topic), "an entity stays of its kind"
            served.change(entity)
            changed += served.subscriptions
        elif isinstance(served, ServedSubscription):
            assert isinstance(entity, Subscription), "an entity stays of its kind"
            served.change(entity)
        else:
            assert isinstance(entity, Queue), "an entity stays of its kind"
            served.set_properties(entity.properties)
        for each in changed:
            for sub_queue in each.sub_queues.values():
                sub_queue.depart_by(self.departures)

    def serve(self, record: EntityRecord) -> None:
        """Serve an entity that was not served before."""
        missing = [place.store for place in record.places if place.store >= len(self.stores)]
        if missing:
            raise StartRefused(
                f"'{record.name}' has fragments in store {missing[0]}, but only"
                f" {len(self.stores)} stores are configured; start with at least"
                f" {max(missing) + 1}"
            )
        served = self._served(record)
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
                if sub_queue is SubQueue.MAIN and served.duplicate_window_ms is not None:
                    source.timetable.note_history(number, Instant(0))
                self.places[place.store][number] = served.sub_queues[sub_queue], source
                if served.sub_queues[sub_queue].has_sessions:
                    self.session_places[place.store][number] = served.main, source
        for each in served.sub_queues.values():
            each.depart_by(self.departures)
        self._queues[name_key(record.name)] = served
        if not isinstance(record.entity, Subscription):
            insort(self._names[type(record.entity)], name_key(record.name))
            self._partitioned += served.is_partitioned

    def _unserve(self, record: EntityRecord) -> None:
        served = self._queues.pop(name_key(record.name))
        if isinstance(served, ServedSubscription):
            served.topic.unsubscribe(served)
        else:
            names = self._names[Topic if isinstance(served, ServedTopic) else Queue]
            del names[bisect_left(names, name_key(record.name))]
            self._partitioned -= served.is_partitioned
        for place in record.places:
            for sub_queue in SubQueue:
                del self.places[place.store][place.queue(sub_queue)]
            self.session_places[place.store].pop(place.queue(SubQueue.MAIN), None)

    def _served(self, record: EntityRecord) -> ServedQueue:
        match record.entity:
            case Queue() as queue:
                return ServedQueue(record.number, queue.name, queue.properties)
            case Topic() as topic:
                return ServedTopic(record.number, topic, self.reader)
            case Subscription() as subscription:
                assert record.topic is not None, "a subscription belongs to a topic"
                parent = self.queue(record.topic.name)
                assert isinstance(parent, ServedTopic), "a topic is served before what it has"
                served = ServedSubscription(record.number, record.name, subscription, parent)
                parent.subscribe(served)
                return served
