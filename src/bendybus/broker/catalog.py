"""catalog: which entities a namespace has, and what serves each of them."""

import dataclasses
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from bendybus.broker.declaring import Plan
from bendybus.broker.holdings import Holdings
from bendybus.broker.namespace_access import NamespaceAccess
from bendybus.broker.numbering import Numbering
from bendybus.broker.records import Records
from bendybus.broker.served_queue import ServedQueue, Source
from bendybus.broker.served_topic import ServedSubscription, ServedTopic
from bendybus.model.access import AccessRule
from bendybus.model.content_reader import ContentReader
from bendybus.model.entity import Queue, Subscription, Topic, name_key
from bendybus.model.errors import (
    EntityNotFound,
    QuotaExceeded,
    StartRefused,
    StoreUnavailable,
)
from bendybus.model.ids import EntityNumber, FragmentIndex, Instant, SubQueue
from bendybus.model.tier import Tier
from bendybus.store.port import EntityRecord

Kind = type[Queue] | type[Topic]


class Catalog:
    """The entities of one namespace. Those of others lie in the same stores, and are not seen."""

    def __init__(
        self,
        namespace: str,
        records: Records,
        holdings: Holdings,
        reader: ContentReader,
        access_rules: tuple[AccessRule, ...] = (),
        tier: Tier = Tier(),  # noqa: B008 - it is frozen
        key: str | None = None,
    ) -> None:
        self.namespace = namespace
        # Under which the stores keep what belongs to it: its name, unless it was made in use.
        self.key = key or namespace
        self.records = records
        self.holdings = holdings
        self.reader = reader
        self.tier = tier
        # The rules whose keys open every entity; those of single ones are with their properties.
        self.access = NamespaceAccess(self.key, records, access_rules)
        self._served: dict[EntityNumber, ServedQueue] = {}
        self._queues: dict[str, ServedQueue] = {}
        # The names of queues and of topics, in order, so that a page of them is found at once.
        self._names: dict[Kind, list[str]] = {Queue: [], Topic: []}
        self._partitioned = 0
        # How often anything here was served anew, or no longer.
        self.changes = 0
        # Whether the namespace was deleted; then it has nothing, and gets nothing.
        self.is_gone = False
        records.served_by[name_key(self.key)] = self

    # What there is

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
        return self.records.by_number[self.queue(path).number]

    def standing(self) -> dict[EntityNumber, EntityRecord]:
        """Return every entity of the namespace as it stands, subscriptions among them."""
        return {number: self.records.by_number[number] for number in self._served}

    def listed(self, kind: Kind, *, skip: int = 0, top: int | None = None) -> list[EntityRecord]:
        """Return queues or topics in the order of their names, some of them if so wanted."""
        names = self._names[kind]
        end = len(names) if top is None else skip + top
        return [self.records.by_number[self._queues[name].number] for name in names[skip:end]]

    def subscriptions_of(
        self, topic: str, *, skip: int = 0, top: int | None = None
    ) -> list[EntityRecord]:
        """Return subscriptions in the order of their names. Raises `EntityNotFound`."""
        served = self.queue(topic)
        if not isinstance(served, ServedTopic):
            raise EntityNotFound.named(f"{self.namespace}:Topic:{topic}")
        found = sorted(served.subscriptions, key=lambda each: name_key(each.name))
        end = len(found) if top is None else skip + top
        return [self.records.by_number[each.number] for each in found[skip:end]]

    def check_standing(self) -> None:
        """Refuse a change of a namespace that was deleted meanwhile."""
        if self.is_gone:
            raise EntityNotFound(f"The namespace '{self.namespace}' was deleted.")

    def check_room_for(self, entity: Queue | Topic) -> None:
        """Refuse one more queue or topic than the namespace may have (R1.5)."""
        self._check_quota(1, int(entity.properties.enable_partitioning))

    # What changes

    async def declare(self, entities: Sequence[Queue | Topic], *, now: Instant) -> None:
        """Make the entities of a configuration: create new ones, change those that differ.

        Subscriptions that it does not mention stay as they are.
        """
        numbering = await self.records.numbering()
        planned = self._plan(entities, numbering.copy(), now)
        if not planned.changed:
            return

        async def make() -> None:
            # Another front end may have made them meanwhile.
            plan = self._plan(entities, await self.records.numbering(), now)
            if plan.changed:
                await self.records.write(plan.changed)

        try:
            await self.records.in_turn(make)
        except StoreUnavailable as error:
            raise StartRefused(
                f"{error} So '{planned.changed[0].name}' cannot be created or changed; mend the"
                " store, or start with the entities as they were"
            ) from error

    def _plan(self, entities: Sequence[Queue | Topic], numbering: Numbering, now: Instant) -> Plan:
        plan = Plan(self.key, self.tier, self.standing(), numbering, now)
        for entity in entities:
            plan.declare(entity)
        self._check_room(plan)
        return plan

    def _check_room(self, plan: Plan) -> None:
        new = [
            each.entity
            for each in plan.changed
            if each.number not in self._served and isinstance(each.entity, Queue | Topic)
        ]
        partitioned = sum(entity.properties.enable_partitioning for entity in new)
        try:
            self._check_quota(len(new), partitioned)
        except QuotaExceeded as error:
            raise StartRefused(f"{error} Take some out of the file, or delete others") from error

    def _check_quota(self, more: int, partitioned: int) -> None:
        entities = sum(map(len, self._names.values())) + more
        self.tier.check_quota(entities, self._partitioned + partitioned)

    async def retire(self, served: ServedQueue) -> None:
        """Serve an entity no longer, nor its subscriptions; durable on return.

        What it holds is deleted afterwards, see `removal`.
        """
        numbers = [served.number]
        if isinstance(served, ServedTopic):
            numbers += sorted(each.number for each in served.subscriptions)
        records = [self.records.by_number[number] for number in numbers]
        await self.records.write(
            [
                dataclasses.replace(record, is_removed=True, version=record.version + 1)
                for record in records
            ]
        )

    def take_over(self, record: EntityRecord) -> None:
        """Serve an entity as it stands now; whoever uses it goes on with the same one."""
        self.changes += 1
        served = self._served.get(record.number)
        if record.is_removed:
            if served is not None:
                self._unserve(record, served)
        elif served is None:
            self._serve(record)
        else:
            self._change(record, served)

    def end(self) -> None:
        """Serve nothing any more, for the namespace is deleted: links end, keys open nothing."""
        self.is_gone = True
        for number, served in reversed(list(self._served.items())):
            self._unserve(self.records.by_number[number], served)
        self.access.rules = ()
        del self.records.served_by[name_key(self.key)]

    def _change(self, record: EntityRecord, served: ServedQueue) -> None:
        entity = record.entity
        served.version = record.version
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
                sub_queue.depart_by(self.holdings.departures)
            each.tell_links()

    def _serve(self, record: EntityRecord) -> None:
        holdings = self.holdings
        stores = holdings.stores
        missing = [place.store for place in record.places if place.store >= len(stores)]
        if missing:
            raise StartRefused(
                f"'{record.name}' has fragments in store {missing[0]}, but only"
                f" {len(stores)} stores are configured; start with at least"
                f" {max(missing) + 1}"
            )
        served = self._make(record)
        served.version = record.version
        served.traces = holdings.traces
        for fragment, place in enumerate(record.places):
            at = place.store
            for sub_queue in SubQueue:
                number = place.queue(sub_queue)
                timetable = holdings.timetables[at]
                source = Source(stores[at], timetable, number, FragmentIndex(fragment))
                served.place(sub_queue, source)
                if sub_queue is SubQueue.MAIN and served.duplicate_window_ms is not None:
                    timetable.note_history(number, Instant(0))
                holdings.places[at][number] = served.sub_queues[sub_queue], source
                if served.sub_queues[sub_queue].has_sessions:
                    holdings.session_places[at][number] = served.main, source
        for each in served.sub_queues.values():
            each.depart_by(holdings.departures)
        self._served[record.number] = served
        self._queues[name_key(record.name)] = served
        if isinstance(record.entity, Queue | Topic):
            insort(self._names[type(record.entity)], name_key(record.name))
            self._partitioned += served.is_partitioned

    def _unserve(self, record: EntityRecord, served: ServedQueue) -> None:
        del self._served[record.number]
        key = name_key(served.name)
        del self._queues[key]
        if isinstance(served, ServedSubscription):
            served.topic.unsubscribe(served)
        else:
            names = self._names[Topic if isinstance(served, ServedTopic) else Queue]
            del names[bisect_left(names, key)]
            self._partitioned -= served.is_partitioned
        for place in record.places:
            for sub_queue in SubQueue:
                del self.holdings.places[place.store][place.queue(sub_queue)]
            self.holdings.session_places[place.store].pop(place.queue(SubQueue.MAIN), None)
        served.is_gone = True
        served.tell_links()

    def _make(self, record: EntityRecord) -> ServedQueue:
        match record.messaging_entity:
            case Queue() as queue:
                return ServedQueue(record.number, self.namespace, queue.name, queue.properties)
            case Topic() as topic:
                return ServedTopic(record.number, self.namespace, topic, self.reader)
            case Subscription() as subscription:
                assert record.topic is not None, "a subscription belongs to a topic"
                parent = self.queue(record.topic.name)
                assert isinstance(parent, ServedTopic), "a topic is served before what it has"
                served = ServedSubscription(record.number, record.name, subscription, parent)
                parent.subscribe(served)
                return served
