"""update a namespace: what is made in it from now on is as another tier allows (R7.1)."""

from collections.abc import Callable
from dataclasses import replace

from bendybus.broker.catalog import Catalog
from bendybus.broker.namespaces import Namespaces
from bendybus.model.errors import InvalidOperation
from bendybus.model.ids import Instant
from bendybus.model.namespace import Namespace
from bendybus.model.tier import Tier
from bendybus.store.port import EntityRecord


async def update_namespace(
    namespaces: Namespaces, name: str, changed_from: Callable[[Tier], Tier], *, now: Instant
) -> Catalog:
    """Give a namespace the tier that follows from the one it has; its entities stay as they are.

    Raises `EntityNotFound`, `InvalidOperation` (a configured one, or what is chosen at creation),
    `ArgumentInvalid`, `StoreUnavailable`. Then nothing has changed.
    """

    async def change() -> Catalog:
        catalog = namespaces.named(name)
        record = made_in_use(namespaces, catalog, "change it")
        tier = catalog.tier.changed_to(changed_from(catalog.tier))
        if tier != catalog.tier:
            changed = Namespace(catalog.namespace, tier=tier)
            version = record.version + 1
            await namespaces.records.write(
                [replace(record, entity=changed, version=version, updated_at=now)]
            )
        return catalog

    return await namespaces.records.in_turn(change)


def made_in_use(namespaces: Namespaces, catalog: Catalog, wish: str) -> EntityRecord:
    """Return the record of a namespace. Raises `InvalidOperation` for one that is configured."""
    record = namespaces.record_of(catalog)
    if record is None:
        default = "default " if catalog is namespaces.default else ""
        raise InvalidOperation(
            f"The {default}namespace '{catalog.namespace}' is what the broker was started with;"
            f" {wish} in its configuration file, under UserConfig.Namespaces, and start it again."
        )
    return record
