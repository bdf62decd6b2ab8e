"""Which messages have come from another queue, so that none comes twice (D7).

A transfer is remembered in the commit that adds its message, and forgotten when the message has
left where it came from. What is remembered is therefore what is on its way just now, and what a
crash cut off between its arrival here and its departure there.
"""

import json
from collections.abc import Sequence

from bendybus.model.errors import ServerBusy
from bendybus.model.ids import Instant
from bendybus.model.operations import Forget, Standing, Transfer
from bendybus.store.sql.database import SqlDatabase


def remember(
    database: SqlDatabase, transfers: Sequence[Transfer], as_of: Sequence[Standing], now: Instant
) -> list[int]:
    """Remember transfers; return which of them, by index, were not made before.

    Raises `ServerBusy` if an entity does not stand as it did, or is about to change: what arrived
    by the way that it had was, or is being, looked for (`broker/clear_arrived.py`).
    """
    if not transfers:
        return []
    row = database.row("known_transfers", (json.dumps(transfers), json.dumps(as_of)))
    assert row is not None, "an aggregate always has one row"
    if row[1] != len(as_of):
        raise ServerBusy("An entity on the way of the messages is being changed; try again.")
    known = set(json.loads(row[0]))
    new = [at for at in range(len(transfers)) if at not in known]
    if new:
        database.run("remember_transfers", (json.dumps([transfers[at] for at in new]), now))
    return new


def forget(database: SqlDatabase, operation: Forget, now: Instant) -> list[int]:
    """Remember transfers no longer."""
    del now
    if operation.transfers:
        database.run("forget_transfers", (json.dumps(operation.transfers),))
    return []


def remembered(
    database: SqlDatabase, after: Transfer, made_until: Instant, count_max: int
) -> list[Transfer]:
    """Return transfers that are remembered, in order."""
    row = database.row("transfers", (*after, made_until, count_max))
    assert row is not None, "an aggregate always has one row"
    return [Transfer(*pair) for pair in json.loads(row[0])]
