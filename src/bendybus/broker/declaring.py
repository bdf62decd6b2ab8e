"""Plans what a configuration changes in the catalog, before anything is written."""

import dataclasses
from collections.abc import Mapping, Sequence

from bendybus.broker.access_keys import with_declared_access
from bendybus.broker.numbering import Numbering
from bendybus.model.entity import (
    Queue,
    Subscription,
    Topic,
    check_fixed_unchanged,
    name_key,
    subscription_path,
)
from bendybus.model.errors import BusError, InvalidOperation, StartRefused
from bendybus.model.ids import EntityNumber, Instant
from bendybus.model.tier import Tier
from bendybus.model.topic_queues import check_topic_quota
from bendybus.store.port import EntityRecord, FragmentPlace, ParentTopic


class Plan:
    """The records of entities that are new or differ, in the order in which to write them."""

    def __init__(
        self,
        namespace: str,
        tier: Tier,
        records: Mapping[EntityNumber, EntityRecord],
        numbering: Numbering,
        now: Instant,
    ) -> None:
        self._namespace = namespace
        self._tier = tier
        self.changed: list[EntityRecord] = []
        self._by_name = {name_key(record.name): record for record in records.values()}
        # Of every topic those that it has, whoever made them.
        self._subscriptions: dict[EntityNumber, dict[str, Subscription]] = {}
        for record in records.values():
            if isinstance(record.entity, Subscription) and record.topic is not None:
                siblings = self._subscriptions.setdefault(record.topic.number, {})
                siblings[name_key(record.entity.name)] = record.entity
        self._numbering = numbering
        self._now = now

    def declare(self, entity: Queue | Topic) -> None:
        """Plan for an entity, and for the subscriptions that it names."""
        try:
            if isinstance(entity, Queue):
                self._declare(entity.name, entity)
            else:
                self._declare_topic(entity)
        except BusError as error:
            raise StartRefused(f"'{entity.name}': {error}") from error

    def _declare_topic(self, topic: Topic) -> None:
        known = self._declare(topic.name, dataclasses.replace(topic, subscriptions=()))
        parent = ParentTopic(known.number, known.name)
        subscriptions = self._subscriptions.setdefault(known.number, {})
        for subscription in topic.subscriptions:
            path = subscription_path(topic.name, subscription.name)
            subscriptions[name_key(subscription.name)] = subscription
            self._declare(path, subscription, parent, known.places)
        check_topic_quota(subscriptions.values())

    def _declare(
        self,
        name: str,
        entity: Queue | Topic | Subscription,
        topic: ParentTopic | None = None,
        beside: Sequence[FragmentPlace] = (),
    ) -> EntityRecord:
        """Plan for one record; return it as it will stand."""
        known = self._by_name.get(name_key(name))
        if known is None:
            if not isinstance(entity, Subscription):
                entity = self._tier.admitted(entity)
            entity = with_declared_access(None, entity, self._now)
            record = self._numbering.new_record(
                self._namespace,
                entity,
                topic=topic,
                beside=beside,
                now=self._now,
                is_declared=True,
            )
        else:
            record = _changed(known, entity, self._tier, self._now)
            if dataclasses.replace(record, version=known.version) == known:
                return known
            record = dataclasses.replace(record, updated_at=self._now)
        self.changed.append(record)
        self._by_name[name_key(name)] = record
        return record


def _changed(
    known: EntityRecord, entity: Queue | Topic | Subscription, tier: Tier, now: Instant
) -> EntityRecord:
    """Return the record with what the configuration says; the name keeps its first spelling."""
    before = known.entity
    if type(before) is not type(entity):
        kind = type(before).__name__.lower()
        raise InvalidOperation(f"There is a {kind} of that name already; choose another.")
    if not isinstance(before, Subscription) and not isinstance(entity, Subscription):
        entity = tier.declared(before, entity)
    check_fixed_unchanged(before.properties, entity.properties)
    entity = with_declared_access(before, entity, now)
    changed = dataclasses.replace(known, version=known.version + 1)
    if isinstance(before, Subscription) and isinstance(entity, Subscription):
        # Rules that were changed in another way stay, unless the configuration itself has changed.
        rules = before.rules if entity.rules == known.declared_rules else entity.rules
        changed = dataclasses.replace(changed, declared_rules=entity.rules)
        entity = dataclasses.replace(entity, rules=rules)
    return dataclasses.replace(changed, entity=dataclasses.replace(entity, name=before.name))
