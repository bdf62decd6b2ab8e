"""create: a queue, a topic or a subscription that was not there before (R7.1)."""

from dataclasses import replace
from functools import partial

from bendybus.broker.access_keys import with_whole_access
from bendybus.broker.catalog import Catalog
from bendybus.broker.served_topic import ServedTopic
from bendybus.model.entity import Queue, Subscription, Topic, subscription_path
from bendybus.model.errors import ArgumentInvalid, EntityExists, EntityNotFound
from bendybus.model.ids import Instant
from bendybus.model.rule_check import check_rule
from bendybus.model.topic_queues import check_topic_quota
from bendybus.store.port import EntityRecord, ParentTopic


async def create(
    catalog: Catalog,
    entity: Queue | Topic | Subscription,
    *,
    topic: str | None = None,
    now: Instant,
) -> EntityRecord:
    """Create an entity in every store and serve it; of a subscription, `topic` names its topic.

    A topic comes without subscriptions: each is created on its own, with the rules it is to have.
    Raises `EntityExists`, `EntityNotFound` (no such topic), `ArgumentInvalid` (a target that is
    not there, a rule that means nothing), `QuotaExceeded`, `StoreUnavailable`. Then nothing was
    made.
    """
    if isinstance(entity, Subscription):
        work = partial(_create_subscription, catalog, entity, topic or "", now)
    else:
        work = partial(_create, catalog, entity, now)
    return await catalog.records.in_turn(work)


async def _create(catalog: Catalog, entity: Queue | Topic, now: Instant) -> EntityRecord:
    catalog.check_standing()
    if isinstance(entity, Topic):
        entity = replace(entity, subscriptions=())
    _check_free(catalog, entity.name, f"sb://{catalog.namespace}/{entity.name}")
    entity = catalog.tier.admitted(entity)
    check_targets(catalog, entity)
    catalog.check_room_for(entity)
    whole = with_whole_access(None, entity, now)
    record = (await catalog.records.numbering()).new_record(catalog.key, whole, now=now)
    await catalog.records.write([record])
    return record


def check_targets(catalog: Catalog, entity: Queue | Topic | Subscription) -> None:
    """Refuse to forward to what is not there, or cannot be sent to."""
    if isinstance(entity, Topic):
        return
    for argument in ("forward_to", "forward_dead_lettered_messages_to"):
        target: str | None = getattr(entity.properties, argument)
        if target is None:
            continue
        try:
            found = catalog.record(target).entity
        except EntityNotFound as error:
            raise ArgumentInvalid(str(error), argument=argument) from None
        if isinstance(found, Subscription):
            raise ArgumentInvalid(
                f"'{target}' is a subscription; forward to its topic instead", argument=argument
            )


async def _create_subscription(
    catalog: Catalog, subscription: Subscription, topic: str, now: Instant
) -> EntityRecord:
    parent = catalog.queue(topic)
    if not isinstance(parent, ServedTopic):
        raise EntityNotFound.named(f"{catalog.namespace}:Topic:{topic}")
    path = subscription_path(parent.name, subscription.name)
    _check_free(catalog, path, f"{catalog.namespace}:Topic:{parent.name}|{subscription.name}")
    check_targets(catalog, subscription)
    for rule in subscription.rules:
        check_rule(rule)
    check_topic_quota([*(each.subscription for each in parent.subscriptions), subscription])
    record = (await catalog.records.numbering()).new_record(
        catalog.key,
        subscription,
        topic=ParentTopic(parent.number, parent.name),
        beside=catalog.records.by_number[parent.number].places,
        now=now,
    )
    await catalog.records.write([record])
    parent.note_use()
    return record


def _check_free(catalog: Catalog, path: str, resource: str) -> None:
    if catalog.has(path):
        raise EntityExists(f"The messaging entity '{resource}' already exists.")
