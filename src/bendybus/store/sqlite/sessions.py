"""Sessions: locks on them, their states, which there are."""

from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import StoredMessage
from bendybus.model.operations import (
    EndLapsedSessions,
    ReleaseSession,
    RenewSession,
    SetSessionState,
)
from bendybus.store.port import AcceptSession, SessionRefusal
from bendybus.store.sqlite.database import Database


def renew(database: Database, operation: RenewSession, now: Instant) -> int:
    """Let a session's lock last longer."""
    raise NotImplementedError


def set_state(database: Database, operation: SetSessionState, now: Instant) -> int:
    """Replace a session's state."""
    raise NotImplementedError


def release(database: Database, operation: ReleaseSession, now: Instant) -> int:
    """End a session's lock."""
    raise NotImplementedError


def end_lapsed(database: Database, operation: EndLapsedSessions, now: Instant) -> int:
    """Free the sessions whose lock has ended and that hold no message."""
    raise NotImplementedError


def accept(database: Database, request: AcceptSession, now: Instant) -> str | SessionRefusal:
    """Lock a session."""
    raise NotImplementedError


def state(
    database: Database, queue: QueueNumber, session_id: str, nonce: int, now: Instant
) -> bytes | None:
    """Return a session's state."""
    raise NotImplementedError


def ids(
    database: Database, queue: QueueNumber, changed_since: Instant | None, limits: tuple[int, int]
) -> list[str]:
    """Return ids of sessions."""
    raise NotImplementedError


def browse(
    database: Database,
    queue: QueueNumber,
    session_id: str,
    from_sequence: int,
    limits: tuple[int, int],
) -> list[StoredMessage]:
    """Read messages of a session in order."""
    raise NotImplementedError
