"""delete: an entity goes, with all that it holds and, of a topic, its subscriptions (R7.1)."""

from collections.abc import Callable

from bendybus.broker.catalog import Catalog
from bendybus.store.port import EntityRecord


async def delete(
    catalog: Catalog, path: str, check: Callable[[EntityRecord], None] = lambda _: None
) -> None:
    """Serve an entity no longer; durable on return. Its name is free at once.

    Its links end with `EntityNotFound`. What it holds is deleted from the stores afterwards, in
    bounded turns (`removal`). `check` sees the entity as it stands, and may raise to keep it; no
    change comes between. Raises `EntityNotFound`, `StoreUnavailable`. Then nothing has changed.
    """

    async def retire() -> None:
        check(catalog.record(path))
        await catalog.retire(catalog.queue(path))

    await catalog.records.in_turn(retire)
