"""Which function makes which operation. No decisions: guards and constraints only."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final

from bendybus.model.ids import Instant
from bendybus.model.operations import (
    Activate,
    Answer,
    Append,
    CloseReader,
    CommitReserved,
    EndLapsedSessions,
    Forget,
    ForgetSeen,
    GiveBack,
    Guard,
    Move,
    OpenReader,
    Operation,
    Publish,
    Purge,
    ReleaseSession,
    Remove,
    Renew,
    RenewSession,
    Requeue,
    Reserve,
    ReserveChosen,
    Rewrite,
    SetAside,
    SetSessionState,
    TakeNumbers,
    Unlock,
)
from bendybus.model.staging import (
    AbandonStages,
    CompleteStage,
    Conclude,
    Decide,
    DropChunk,
    DropStage,
    ExpireStages,
    ForgetStage,
    ForgetWriters,
    KeepChunk,
    OpenStage,
    PublishChunk,
)
from bendybus.store.sql import (
    appending,
    packs,
    publishing,
    purging,
    readers,
    requeueing,
    reserving,
    scheduling,
    seen,
    sessions,
    settling,
    staging,
    taking_numbers,
    transfers,
)
from bendybus.store.sql.database import SqlDatabase
from bendybus.store.sql.traffic import note_operation


def _move(database: SqlDatabase, operation: Move, now: Instant) -> Answer:
    return settling.move(database, [operation], now)[0]


_MAKERS: Final[dict[type[Operation], Callable[[SqlDatabase, Any, Instant], Answer]]] = {
    Append: appending.append,
    TakeNumbers: taking_numbers.take_numbers,
    Publish: publishing.publish,
    Forget: transfers.forget,
    Remove: settling.remove,
    Unlock: settling.unlock,
    SetAside: settling.set_aside,
    Rewrite: settling.rewrite,
    Move: _move,
    Requeue: requeueing.requeue,
    Renew: settling.renew,
    Activate: scheduling.activate,
    Purge: purging.purge,
    ForgetSeen: seen.forget,
    RenewSession: sessions.renew,
    SetSessionState: sessions.set_state,
    ReleaseSession: sessions.release,
    EndLapsedSessions: sessions.end_lapsed,
    OpenStage: staging.open_stage,
    KeepChunk: staging.keep_chunk,
    CompleteStage: staging.complete_stage,
    Decide: staging.decide,
    Conclude: staging.conclude,
    AbandonStages: staging.abandon_stages,
    ExpireStages: staging.expire_stages,
    DropChunk: staging.drop_chunk,
    PublishChunk: packs.publish,
    DropStage: staging.drop_stage,
    ForgetStage: staging.forget_stage,
    ForgetWriters: staging.forget_writers,
    OpenReader: readers.open_reader,
    CloseReader: readers.close_reader,
    Reserve: reserving.reserve,
    ReserveChosen: reserving.reserve_chosen,
    CommitReserved: reserving.commit,
    GiveBack: reserving.give_back,
}

# What may be forgotten in a crash: locks, which then end by themselves; that one has ended, which
# is found again; and that a transfer is forgotten, because one that is remembered for too long
# does no harm.
_UNSYNCED: Final = (Renew, RenewSession, ReleaseSession, EndLapsedSessions, Forget)


def make_all(database: SqlDatabase, operations: Sequence[Operation], now: Instant) -> list[Answer]:
    """Make operations in order, inside the lane's transaction, and return the answer of each."""
    if len(operations) == 1:
        return [make(database, operations[0], now)]
    answers: list[Answer] = []
    for how, alike in groupby(operations, _how_moved):
        if how is None:
            answers += [make(database, operation, now) for operation in alike]
        else:
            moves = [each for each in alike if type(each) is Move]
            lost = settling.move(database, moves, now)
            for move, each in zip(moves, lost, strict=True):
                note_operation(database.traffic, move, each)
            answers += lost
    return answers


def make(database: SqlDatabase, operation: Operation, now: Instant) -> Answer:
    """Make one operation and return its answer."""
    answer = _MAKERS[type(operation)](database, operation, now)
    note_operation(database.traffic, operation, answer)
    return answer


def _how_moved(operation: Operation) -> tuple[object, ...] | None:
    """Return what those have in common that can be moved together; None if it is no move."""
    if type(operation) is not Move:
        return None
    return operation.queue, operation.to_queue, operation.guard, operation.is_counted


def is_synced(operation: Operation) -> bool:
    """Say whether the operation must be on disk before it is answered."""
    if type(operation) is Unlock:
        return operation.guard is not Guard.LAPSED
    return not isinstance(operation, _UNSYNCED)
