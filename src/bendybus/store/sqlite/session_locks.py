"""How locks of sessions and of the messages within them hang together.

A message that is locked within a session has, as the end of its lock, a mark made of the session's
nonce: above every real time, so nothing that looks for ended locks finds it, and one for each
session, so that what a session holds is found by the index of locks.
"""

from typing import Final

from bendybus.model.errors import SessionLockLost
from bendybus.model.ids import Instant, QueueNumber
from bendybus.store.port import Acquire, AcquireDeferred
from bendybus.store.sqlite.database import Database

IN_SESSION: Final = 1 << 62


def mark_of(nonce: int) -> int:
    """Return what messages locked within a session have in place of the end of their lock."""
    return nonce & IN_SESSION - 1 | IN_SESSION


def end_of_lock(database: Database, request: Acquire | AcquireDeferred, now: Instant) -> int:
    """Return what to write as the end of a lock. Raises `SessionLockLost`."""
    if request.session_id is None:
        return request.locked_until
    check_held(database, request.queue, request.session_id, request.nonce, now)
    return mark_of(request.nonce)


def check_held(
    database: Database, queue: QueueNumber, session_id: str, nonce: int, now: Instant
) -> None:
    """Raise `SessionLockLost` unless the session is held under this nonce."""
    database.offset(queue)
    if database.row("find_held_session", (queue, session_id, nonce, now)) is None:
        raise SessionLockLost.ended()


def note_arrivals(database: Database, queue: int, first: int, count: int, now: Instant) -> None:
    """Note of which sessions messages came: so many rows from the first on, those active now."""
    if queue in database.session_queues:
        database.run("note_arrivals", (first, first + count, now))
