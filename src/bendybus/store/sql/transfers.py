"""Which messages have come from another queue, so that none comes twice (D7).

A transfer is remembered in the commit that adds its message, and forgotten when the message has
left where it came from. What is remembered is therefore what is on its way just now, and what a
crash cut off between its arrival here and its departure there.
"""

import json
from collections.abc import Sequence

from bendybus.model.ids import Instant
from bendybus.model.operations import Forget, Transfer
from bendybus.store.sql.database import SqlDatabase


def remember(database: SqlDatabase, transfers: Sequence[Transfer], now: Instant) -> list[int]:
    """Remember transfers; return which of them, by index, were not made before."""
    if not transfers:
        return []
    row = database.row("known_transfers", (json.dumps(transfers),))
    assert row is not None, "an aggregate always has one row"
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
