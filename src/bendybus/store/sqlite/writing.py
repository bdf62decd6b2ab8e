"""Makes operations, inside the lane's transaction. No decisions: guards and constraints only."""

import json
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

import apsw

from bendybus.model.errors import EntityNotFound, QuotaExceeded
from bendybus.model.ids import Instant, sequence_number
from bendybus.model.message import Lock, Message
from bendybus.model.operations import (
    Answer,
    Append,
    Guard,
    Move,
    Operation,
    Remove,
    Renew,
    Rewrite,
    Unlock,
)
from bendybus.store.checksum import CHECKSUM_SIZE, sealed
from bendybus.store.marks import marks_to_text
from bendybus.store.sqlite.database import Database, message_id


def make(database: Database, operation: Operation, now: Instant) -> Answer:
    """Make one operation and return its answer."""
    match operation:
        case Append():
            return _append(database, operation, now)
        case Remove():
            return _remove(database, operation, now)
        case Unlock():
            return _unlock(database, operation, now)
        case Rewrite():
            return _rewrite(database, operation, now)
        case Move():
            return _move(database, operation, now)
        case Renew():
            return _renew(database, operation, now)
        case _:
            assert_never(operation)


def is_synced(operation: Operation) -> bool:
    """Say whether the operation must be on disk before it is answered. Locks need not be."""
    return not isinstance(operation, Renew)


def ids_array(ids: Iterable[int]) -> Any:
    """Bind many ids as one parameter."""
    return apsw.carray(array("q", ids))


def _append(database: Database, operation: Append, now: Instant) -> int:
    messages = operation.messages
    contents = sealed([message.content for message in messages])
    size = sum(map(len, contents))
    reserved = database.row(
        "reserve_counters", (operation.queue, len(messages), size, operation.bytes_max)
    )
    if reserved is None:
        raise _append_refusal(database, operation, size)
    counter: int = reserved[0]
    first = message_id(operation.queue, counter)
    bodies = apsw.carray(contents)
    database.run("append_bodies", (first, bodies))
    if any(map(_has_fields, messages)):
        fields = json.dumps([_fields(message) for message in messages])
        database.run("append_messages_with_fields", (first, operation.queue, now, fields))
    else:
        database.run("append_messages", (first, operation.queue, now, bodies))
    return sequence_number(database.fragments[operation.queue], counter)


def _append_refusal(database: Database, operation: Append, size: int) -> Exception:
    if operation.queue not in database.fragments:
        return EntityNotFound(f"The store holds no queue {operation.queue}.")
    counts = database.row("counts", (operation.queue,))
    assert counts is not None
    return QuotaExceeded(
        f"The fragment is full: it holds {counts[1]} bytes of {operation.bytes_max}, and the"
        f" {len(operation.messages)} message(s) sent have {size}."
    )


def _has_fields(message: Message) -> bool:
    return (
        message.head_size != 0
        or message.expires_at is not None
        or message.session_id is not None
        or message.partition_key is not None
    )


def _fields(message: Message) -> tuple[int, int, int | None, str | None, str | None]:
    return (
        len(message.content) + CHECKSUM_SIZE,
        message.head_size,
        message.expires_at,
        message.session_id,
        message.partition_key,
    )


def _remove(database: Database, operation: Remove, now: Instant) -> list[int]:
    lost: list[int] = []
    for nonce, sequences in _by_nonce(operation.locks):
        found = _guarded(database, operation.queue, sequences, nonce, operation.guard, now)
        lost += found.lost
        if not found.ids:
            continue
        ids = ids_array(found.ids)
        database.run("remove_bodies", (ids_array(found.bodies) if found.bodies else ids,))
        database.run("remove_messages", (ids,))
        database.run("count_down", (operation.queue, len(found.ids)))
        database.run("bytes_down", (database.mains[operation.queue], found.size))
    return lost


def _unlock(database: Database, operation: Unlock, now: Instant) -> list[int]:
    lost: list[int] = []
    for nonce, sequences in _by_nonce(operation.locks):
        found = _guarded(database, operation.queue, sequences, nonce, operation.guard, now)
        lost += found.lost
        database.run("unlock_messages", (ids_array(found.ids), int(operation.is_counted)))
    return lost


def _renew(database: Database, operation: Renew, now: Instant) -> list[int]:
    lost: list[int] = []
    for nonce, sequences in _by_nonce(operation.locks):
        found = _guarded(database, operation.queue, sequences, nonce, Guard.HELD, now)
        lost += found.lost
        database.run("renew_messages", (ids_array(found.ids), operation.locked_until))
    return lost


def _rewrite(database: Database, operation: Rewrite, now: Instant) -> list[int]:
    lock = operation.lock
    found = _guarded(
        database, operation.queue, [lock.sequence], lock.nonce, Guard.HELD, now
    )
    for row in found.ids:
        database.run("rewrite_marks", (row, marks_to_text(operation.marks)))
    return found.lost


def _move(database: Database, operation: Move, now: Instant) -> list[int]:
    lock = operation.lock
    found = _guarded(
        database, operation.queue, [lock.sequence], lock.nonce, operation.guard, now
    )
    for row in found.ids:
        reserved = database.row("reserve_one_counter", (operation.to_queue,))
        assert reserved is not None, "both queues are of one fragment, made together"
        database.run(
            "move_message",
            (
                row,
                message_id(operation.to_queue, reserved[0]),
                operation.to_queue,
                marks_to_text(operation.marks),
                int(operation.is_counted),
            ),
        )
        database.run("count_down", (operation.queue, 1))
    return found.lost


class _Found:
    """Which of the messages asked for passed their guard."""

    __slots__ = ("bodies", "ids", "lost", "size")

    def __init__(self, ids: Sequence[int], bodies: list[int], size: int, lost: list[int]) -> None:
        self.ids = ids
        # Ids of the bodies; empty when they are those of the messages, as in a main queue.
        self.bodies = bodies
        self.size = size
        self.lost = lost


def _guarded(
    database: Database, queue: int, sequences: Sequence[int], nonce: int, guard: Guard, now: Instant
) -> _Found:
    ids = [message_id(queue, sequence) for sequence in sequences]
    row = database.row("find_guarded", (ids_array(ids), guard.name, nonce, now))
    assert row is not None
    count, size, found_text, bodies_text = row
    bodies: list[int] = json.loads(bodies_text)
    if count == len(ids) and not bodies:
        return _Found(ids, [], int(size), [])
    found: list[int] = json.loads(found_text)
    passed = set(found)
    lost = [
        sequence for row_id, sequence in zip(ids, sequences, strict=True) if row_id not in passed
    ]
    if bodies and len(bodies) != len(found):
        # Some bodies have another id and some the same: name them all.
        moved = database.row("bodies_of", (ids_array(found),))
        assert moved is not None
        bodies = json.loads(moved[0])
    return _Found(found, bodies, int(size), lost)


def _by_nonce(locks: Sequence[Lock]) -> list[tuple[int, list[int]]]:
    """Group locks by the acquire that took them; mostly they all come from one."""
    groups: dict[int, list[int]] = {}
    for sequence, nonce, _ in locks:
        group = groups.get(nonce)
        if group is None:
            groups[nonce] = [sequence]
        else:
            group.append(sequence)
    return list(groups.items())
