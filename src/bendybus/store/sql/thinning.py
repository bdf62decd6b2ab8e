"""Leaves out messages that came before, as a transfer or by their id."""

from collections.abc import Sequence

from bendybus.model.ids import Instant
from bendybus.model.operations import Append, Publish
from bendybus.store.sql import transfers
from bendybus.store.sql.database import SqlDatabase
from bendybus.store.sql.seen import new_messages


def new_indexes(
    database: SqlDatabase, queue: int, operation: Append | Publish, now: Instant
) -> Sequence[int] | None:
    """Return which messages are new, by their index; None if nobody looks, so all are."""
    since, new = operation.duplicates_since, None
    if operation.transfers is not None:
        # First: a duplicate that is left out has arrived, too, and must not come again later.
        new = transfers.remember(database, operation.transfers, operation.as_of, now)
    if since is None:
        return new
    if new is None:
        return new_messages(database, queue, operation.messages, since, now)
    messages = [operation.messages[at] for at in new]
    return [new[at] for at in new_messages(database, queue, messages, since, now)]
