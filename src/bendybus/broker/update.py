"""update: an entity behaves otherwise from now on, for links that are open too (R7.1)."""

from collections.abc import Callable
from dataclasses import replace

from bendybus.broker.access_keys import with_whole_access
from bendybus.broker.catalog import Catalog
from bendybus.broker.create import check_targets
from bendybus.model.entity import (
    Queue,
    Subscription,
    Topic,
    check_fixed_unchanged,
    subscription_path,
)
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import Instant
from bendybus.store.port import EntityRecord

Changed = Callable[[EntityRecord], Queue | Topic | Subscription]


async def update(
    catalog: Catalog,
    entity: Queue | Topic | Subscription,
    *,
    topic: str | None = None,
    now: Instant,
) -> EntityRecord:
    """Change an entity to what is given, in every store and for everybody who uses it.

    Its name keeps its first spelling; the subscriptions of a topic and the rules of a subscription
    stay as they are. Raises `EntityNotFound`, `InvalidOperation` (what is chosen at creation),
    `ArgumentInvalid`, `StoreUnavailable`. Then nothing has changed.
    """
    path = entity.name
    if isinstance(entity, Subscription):
        path = subscription_path(topic or "", entity.name)
    return await update_by(catalog, path, lambda _: entity, now=now)


async def update_by(
    catalog: Catalog, path: str, changed_from: Changed, *, now: Instant
) -> EntityRecord:
    """Change an entity to what follows from how it stands, as `update` does.

    No other change comes between: two who each change a part of it both have their way.
    """

    async def change() -> EntityRecord:
        known = catalog.record(path)
        before = known.messaging_entity
        entity = changed_from(known)
        if type(before) is not type(entity):
            kind = type(before).__name__.lower()
            raise ArgumentInvalid(f"'{path}' is a {kind}, and stays one", argument="name")
        check_fixed_unchanged(before.properties, entity.properties)
        check_targets(catalog, entity)
        after = _as_it_stays(before, with_whole_access(before, entity, now))
        if not isinstance(before, Subscription) and not isinstance(after, Subscription):
            after = catalog.tier.changed(before, after)
        changed = replace(known, entity=after, version=known.version + 1, updated_at=now)
        await catalog.records.write([changed])
        catalog.queue(path).note_use()
        return changed

    return await catalog.records.in_turn(change)


def _as_it_stays(
    before: Queue | Topic | Subscription, entity: Queue | Topic | Subscription
) -> Queue | Topic | Subscription:
    """Return the entity with what an update leaves alone."""
    if isinstance(entity, Topic):
        entity = replace(entity, subscriptions=())
    if isinstance(entity, Subscription) and isinstance(before, Subscription):
        entity = replace(entity, rules=before.rules)
    return replace(entity, name=before.name)
