"""Deletes many messages at once."""

import json
from typing import Final

from bendybus.model.ids import Instant
from bendybus.model.message import MessageState
from bendybus.model.operations import Purge, Purged
from bendybus.store.sql.damage import despite_damage
from bendybus.store.sql.database import SqlDatabase, rows_of_queue
from bendybus.store.sql.settling import Found, delete
from bendybus.store.sql.unfolding import unfold_from

# What one turn looks at, and what it deletes, unless one message alone is more.
LOOKED_AT_MAX: Final = 1000
DELETED_BYTES_MAX: Final = 4 * 1024 * 1024


def purge(database: SqlDatabase, operation: Purge, now: Instant) -> Purged:
    """Delete the oldest; return how many, and where to go on."""
    del now  # Even what has expired is there until it is deleted.
    offset = database.offset(operation.queue)
    first, end = rows_of_queue(operation.queue)
    first = max(first, operation.from_sequence + offset)
    if first >= end or operation.count_max < 1:
        return Purged(0, None)
    unfold_from(database, operation.queue, first, LOOKED_AT_MAX)
    return despite_damage(
        database, (first, end), lambda: _purge(database, operation, (first, end), offset)
    )


def _purge(database: SqlDatabase, operation: Purge, within: tuple[int, int], offset: int) -> Purged:
    bindings: tuple[object, ...] = (
        *within,
        LOOKED_AT_MAX,
        int(operation.state),
        operation.enqueued_until,
    )
    if operation.session_id is None:
        row = database.row("find_purgeable", bindings)
    else:
        bindings += (operation.queue, operation.session_id)
        row = database.row("find_purgeable_of_session", bindings)
    assert row is not None, "an aggregate always has one row"
    last, count, found_text = row
    found: list[tuple[int, int, int]] = json.loads(found_text)
    taken = _cut(found, operation.count_max)
    if taken:
        ids, bodies, sizes = map(list, zip(*taken, strict=True))
        aside = 0 if operation.state is MessageState.ACTIVE else len(ids)
        delete(database, operation.queue, Found(ids, bodies, sum(sizes), [], aside))
    if len(taken) < len(found):
        return Purged(len(taken), found[len(taken)][0] - offset)
    return Purged(len(taken), last + 1 - offset if count == LOOKED_AT_MAX else None)


def _cut(found: list[tuple[int, int, int]], count_max: int) -> list[tuple[int, int, int]]:
    """Keep those that fit, and at least one."""
    total = 0
    for at, (_, _, size) in enumerate(found[:count_max]):
        total += size
        if total > DELETED_BYTES_MAX and at:
            return found[:at]
    return found[:count_max]
