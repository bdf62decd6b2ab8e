"""Which function makes which operation. No decisions: guards and constraints only."""

from collections.abc import Callable
from typing import Any, Final

from bendybus.model.ids import Instant
from bendybus.model.operations import (
    Activate,
    Answer,
    Append,
    EndLapsedSessions,
    Forget,
    ForgetSeen,
    Move,
    Operation,
    Publish,
    Purge,
    ReleaseSession,
    Remove,
    Renew,
    RenewSession,
    Requeue,
    Reserve,
    Rewrite,
    SetAside,
    SetSessionState,
    Unlock,
)
from bendybus.store.sqlite import (
    appending,
    publishing,
    purging,
    requeueing,
    reserving,
    scheduling,
    seen,
    sessions,
    settling,
    transfers,
)
from bendybus.store.sqlite.database import Database

_MAKERS: Final[dict[type[Operation], Callable[[Database, Any, Instant], Answer]]] = {
    Append: appending.append,
    Reserve: reserving.reserve,
    Publish: publishing.publish,
    Forget: transfers.forget,
    Remove: settling.remove,
    Unlock: settling.unlock,
    SetAside: settling.set_aside,
    Rewrite: settling.rewrite,
    Move: settling.move,
    Requeue: requeueing.requeue,
    Renew: settling.renew,
    Activate: scheduling.activate,
    Purge: purging.purge,
    ForgetSeen: seen.forget,
    RenewSession: sessions.renew,
    SetSessionState: sessions.set_state,
    ReleaseSession: sessions.release,
    EndLapsedSessions: sessions.end_lapsed,
}

# What may be forgotten in a crash: locks, which then end by themselves, and that a transfer is
# forgotten, because one that is remembered for too long does no harm.
_UNSYNCED: Final = (Renew, RenewSession, ReleaseSession, EndLapsedSessions, Forget)


def make(database: Database, operation: Operation, now: Instant) -> Answer:
    """Make one operation, inside the lane's transaction, and return its answer."""
    return _MAKERS[type(operation)](database, operation, now)


def is_synced(operation: Operation) -> bool:
    """Say whether the operation must be on disk before it is answered."""
    return not isinstance(operation, _UNSYNCED)
