"""delete: an entity goes, with all that it holds and, of a topic, its subscriptions (R7.1)."""

from bendybus.broker.catalog import Catalog


async def delete(catalog: Catalog, path: str) -> None:
    """Serve an entity no longer; durable on return. Its name is free at once.

    Its links end with `EntityNotFound`. What it holds is deleted from the stores afterwards, in
    bounded turns (`removal`). Raises `EntityNotFound`, `StoreUnavailable`. Then nothing has
    changed.
    """
    await catalog.records.in_turn(lambda: catalog.retire(catalog.queue(path)))
