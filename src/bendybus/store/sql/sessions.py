"""Sessions: locks on them, their states, which there are.

Whether a session has a free message is kept as a hint in its row (`is_ready`). It is set when
messages arrive and when a lock ends, and looked up again before a session is given out as the next:
messages expire and are purged without a look at their session.
"""

import json
from typing import Final

from zlib_ng.zlib_ng import crc32

from bendybus.model.errors import MessageDamaged, SessionLockLost
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.operations import (
    EndLapsedSessions,
    ReleaseSession,
    RenewSession,
    SetSessionState,
)
from bendybus.store.checksum import CHECKSUM_SIZE, is_intact, sealed
from bendybus.store.port import AcceptSession, SessionCursor, SessionPage, SessionRefusal
from bendybus.store.sql.database import SqlDatabase
from bendybus.store.sql.session_locks import mark_of

# Of sessions that seem to wait so many are looked at in one call: mostly the first one does.
LOOKED_AT_FIRST: Final = 1
LOOKED_AT_MAX: Final = 200


def accept(database: SqlDatabase, request: AcceptSession, now: Instant) -> str | SessionRefusal:
    """Lock a session."""
    database.offset(request.queue)
    if request.session_id is None:
        return _accept_next(database, request, now)
    key = (request.queue, request.session_id)
    if database.row("accept_named_session", (*key, request.locked_until, request.nonce, now)):
        return request.session_id
    found = database.row("session_locked_until", key)
    assert found is not None, "it would have been made"
    return SessionRefusal.IS_LOCKED if found[0] > now else SessionRefusal.HAS_LAPSED


def _accept_next(
    database: SqlDatabase, request: AcceptSession, now: Instant
) -> str | SessionRefusal:
    queue = request.queue
    for count_max in (LOOKED_AT_FIRST, LOOKED_AT_MAX):
        found = database.row("find_waiting_sessions", (queue, now, count_max))
        assert found is not None, "an aggregate always has one row"
        idle: list[str] = []
        for session_id, has_message in json.loads(found[0]):
            if has_message:
                _forget_idle(database, queue, idle)
                key = (queue, session_id)
                database.run("lock_session", (*key, request.locked_until, request.nonce))
                return str(session_id)
            idle.append(session_id)
        _forget_idle(database, queue, idle)
        if len(idle) < count_max:
            return SessionRefusal.NONE_WAITS
    return SessionRefusal.ASK_AGAIN


def _forget_idle(database: SqlDatabase, queue: QueueNumber, session_ids: list[str]) -> None:
    if session_ids:
        bindings = (queue, json.dumps(session_ids))
        database.run("note_idle_sessions", bindings)
        database.run("forget_idle_sessions", bindings)


def renew(database: SqlDatabase, operation: RenewSession, now: Instant) -> int:
    """Let a session's lock last longer."""
    database.offset(operation.queue)
    key = (operation.queue, operation.session_id, operation.nonce, now)
    return int(database.row("renew_session", (*key, operation.locked_until)) is not None)


def set_state(database: SqlDatabase, operation: SetSessionState, now: Instant) -> int:
    """Replace a session's state."""
    database.offset(operation.queue)
    key = (operation.queue, operation.session_id, operation.nonce, now)
    content = operation.state
    if content is not None:
        [content] = sealed([content], [_seed(operation.queue, operation.session_id)])
    return int(database.row("set_session_state", (*key, content)) is not None)


def release(database: SqlDatabase, operation: ReleaseSession, now: Instant) -> int:
    """End a session's lock. One that has ended by itself is left to the sweep, which counts."""
    queue, session_id, nonce = operation.queue, operation.session_id, operation.nonce
    database.offset(queue)
    mark = mark_of(nonce)
    held = database.row("count_held", (queue, session_id, nonce, mark, now))
    if held is None:
        return 0
    locked, in_hand = held
    if locked:
        database.run("free_messages_of_session", (mark, nonce))
    _end(database, json.dumps([(queue, session_id)]), now)
    return 1 + int(locked) + int(in_hand)


def end_lapsed(database: SqlDatabase, operation: EndLapsedSessions, now: Instant) -> int:
    """Free the sessions whose lock has ended and that hold no message."""
    found = database.row("find_lapsed_sessions", (now, operation.count_max))
    assert found is not None, "an aggregate always has one row"
    count = len(json.loads(found[0]))
    if count:
        _end(database, found[0], now)
    return count


def _end(database: SqlDatabase, keys: str, now: Instant) -> None:
    """Make sessions free: at the end of the row if they have messages, gone if they are empty."""
    database.run("forget_deliveries", (keys,))
    database.run("end_sessions", (keys, now))
    database.run("forget_ended_sessions", (keys,))


def state(
    database: SqlDatabase, queue: QueueNumber, session_id: str, nonce: int, now: Instant
) -> bytes | None:
    """Return a session's state. Raises `SessionLockLost`, and `MessageDamaged`."""
    database.offset(queue)
    found = database.row("session_state", (queue, session_id, nonce, now))
    if found is None:
        raise SessionLockLost.ended()
    content: bytes | None = found[0]
    if content is None:
        return None
    if not is_intact(content, _seed(queue, session_id)):
        raise MessageDamaged(f"The state of session '{session_id}' was damaged on disk.")
    return content[:-CHECKSUM_SIZE]


def page(
    database: SqlDatabase,
    queue: QueueNumber,
    changed_since: Instant | None,
    after: SessionCursor | None,
    count_max: int,
) -> SessionPage:
    """Return ids of sessions."""
    database.offset(queue)
    bindings: tuple[object, ...] = (queue, after.session_id if after else None, count_max)
    name = "list_sessions"
    if changed_since is not None:
        name = "list_changed_sessions"
        bindings = (*bindings, after.state_set_at if after else changed_since + 1)
    found = database.row(name, bindings)
    assert found is not None, "an aggregate always has one row"
    rows = json.loads(found[0])
    following = None
    if len(rows) == count_max:
        state_set_at, session_id, _ = rows[-1]
        following = SessionCursor(session_id, state_set_at)
    return SessionPage([session_id for _, session_id, is_meant in rows if is_meant], following)


def _seed(queue: QueueNumber, session_id: str) -> int:
    """Return the seed of a state's checksum: one that stands in another's row fails as well."""
    return crc32(session_id.encode("utf-8", "surrogatepass"), queue)
