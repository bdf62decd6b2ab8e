"""delete a namespace: it goes with its entities and its keys, at once and for everybody (R7.1)."""

from dataclasses import replace

from bendybus.broker.namespaces import Namespaces
from bendybus.broker.update_namespace import made_in_use
from bendybus.model.errors import InvalidOperation


async def delete_namespace(namespaces: Namespaces, name: str, *, with_entities: bool) -> None:
    """Serve a namespace no longer; durable on return. Its name is free at once.

    One record says so, however many entities it has: their links end with `EntityNotFound`, and
    what they hold is deleted from the stores afterwards, in bounded turns (`removal`). Raises
    `EntityNotFound`, `InvalidOperation` (a configured one, or one that has entities, unless they
    may go), `StoreUnavailable`. Then nothing has changed.
    """

    async def retire() -> None:
        catalog = namespaces.named(name)
        record = made_in_use(namespaces, catalog, "remove it")
        count = len(list(catalog.queues()))
        if count and not with_entities:
            raise InvalidOperation(
                f"The namespace '{catalog.namespace}' has {count} queues, topics and subscriptions;"
                " delete them first, or say that they may go with it."
            )
        await namespaces.records.write(
            [replace(record, is_removed=True, version=record.version + 1)]
        )

    await namespaces.records.in_turn(retire)
