"""How locks of sessions and of the messages within them hang together.

Who holds a session receives its messages in order, so of those in hand only the last is noted, by
the nonce of the session's lock (`delivered`): receiving writes no message, however scattered they
lie. What comes back, and what is given out again, is written in its row; queries/sessions.sql says
how.
"""

import json
from collections.abc import Sequence
from typing import Final

from bendybus.model.errors import SessionLockLost
from bendybus.model.ids import Instant
from bendybus.store.port import Acquire, AcquireDeferred
from bendybus.store.sql.database import SqlDatabase

# In place of a time, so that nothing that looks for ended locks finds them.
IN_SESSION: Final = 1 << 62


def mark_of(nonce: int) -> int:
    """Return what messages locked within a session have in place of the end of their lock."""
    return nonce & IN_SESSION - 1 | IN_SESSION


def delivered_until(database: SqlDatabase, request: Acquire | AcquireDeferred, now: Instant) -> int:
    """Return the row up to which the messages of a session were given out.

    Raises `SessionLockLost` unless it is held.
    """
    database.offset(request.queue)
    key = (request.queue, request.session_id, request.nonce, now)
    found = database.row("find_held_session", key)
    if found is None:
        raise SessionLockLost.ended()
    until: int = found[0]
    return until


def give_out(
    database: SqlDatabase, ids: Sequence[int], until: int, nonce: int, *, is_in_order: bool = True
) -> None:
    """Note that messages are in hand; `until` as it was before, ids in their order.

    In order: no free message of the session lies between those that were not given out before.
    """
    again = [row for row in ids if row <= until] if is_in_order else ids
    if again:
        database.run("lock_messages", (database.array(again), mark_of(nonce), nonce))
    if len(again) < len(ids):
        database.run("note_delivered", (nonce, ids[-1]))


def take_back(database: SqlDatabase, ids: Sequence[int], nonce: int, *, is_counted: bool) -> None:
    """Make messages free that were in hand."""
    database.run("note_returned", (database.array(ids), int(is_counted), nonce))


def note_arrivals(database: SqlDatabase, queue: int, first: int, count: int, now: Instant) -> None:
    """Note of which sessions messages came: so many rows from the first on, those active now."""
    if queue in database.session_queues:
        database.run("note_arrivals", (first, first + count, now))


def note_late_arrivals(database: SqlDatabase, queue: int, first: int, count: int) -> None:
    """Note that messages which came before others are not in hand."""
    if queue in database.session_queues:
        database.run("note_late_arrivals", (first, first + count))


def lock_in_hand(database: SqlDatabase, held: Sequence[tuple[int, int]]) -> None:
    """Lock messages in hand by their rows, each under the nonce of its session."""
    database.run("lock_in_hand", (json.dumps(held),))
