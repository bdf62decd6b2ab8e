"""Makes operations, inside the lane's transaction. No decisions: guards and constraints only.

The seed of a message's checksum is made of what never changes about it: the row of its body and
the time it was enqueued, with their upper halves folded into the lower, and the head size, session
and partition key if it has any. `damage` makes it again from the stored row.
"""

import json
from array import array
from collections.abc import Iterable, Sequence
from typing import assert_never

import apsw

from bendybus.model.errors import QuotaExceeded
from bendybus.model.ids import Instant
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
    SetAside,
    Unlock,
)
from bendybus.store.checksum import CHECKSUM_SIZE, sealed, seed_with_fields
from bendybus.store.marks import marks_to_text
from bendybus.store.sqlite.database import Database, rows_of_queue


def make(database: Database, operation: Operation, now: Instant) -> Answer:
    """Make one operation and return its answer."""
    if isinstance(operation, Append):
        return _append(database, operation, now)
    return _make_guarded(database, operation, now)


def _make_guarded(
    database: Database,
    operation: Remove | Unlock | SetAside | Rewrite | Move | Renew,
    now: Instant,
) -> list[int]:
    """Make an operation on messages that are there; return those whose guard refused it."""
    match operation:
        case Remove():
            return _remove(database, operation, now)
        case Unlock():
            return _unlock(database, operation, now)
        case SetAside():
            return _set_aside(database, operation, now)
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


def ids_array(ids: Iterable[int]) -> object:
    """Bind many ids, at least one, as one parameter."""
    return apsw.carray(array("q", ids))


def _append(database: Database, operation: Append, now: Instant) -> int:
    queue, messages = operation.queue, operation.messages
    offset = database.offset(queue)
    size = sum([len(message.content) for message in messages]) + CHECKSUM_SIZE * len(messages)
    main = database.main(queue)
    if main != queue:
        # The bytes of a sub-queue are counted, and refused, on the main one.
        _reserve(database, main, (0, size, operation.bytes_max))
        size = 0
    counter = _reserve(database, queue, (len(messages), size, operation.bytes_max))
    first = rows_of_queue(queue)[0] + counter
    if messages:
        _insert(database, operation, first, now)
    return first - offset


def _insert(database: Database, operation: Append, first: int, now: Instant) -> None:
    messages = operation.messages
    has_fields = any(map(_has_fields, messages))
    seeds: Iterable[int] = [
        (both := body ^ now) ^ both >> 32 for body in range(first, first + len(messages))
    ]
    if has_fields:
        seeds = map(_seed_with_fields, seeds, messages)
    bodies = apsw.carray(sealed([message.content for message in messages], seeds))
    database.run("append_bodies", (first, bodies))
    if has_fields:
        fields = json.dumps([_fields(message) for message in messages])
        database.run("append_messages_with_fields", (first, operation.queue, now, fields))
    else:
        database.run("append_messages", (first, operation.queue, now, bodies))


def _reserve(database: Database, queue: int, wanted: tuple[int, int, int]) -> int:
    """Take so many counters and bytes, if there is room; return the first counter."""
    row = database.row("reserve_counters", (queue, *wanted))
    if row is None:
        _, size, bytes_max = wanted
        counts = database.row("counts", (queue,))
        assert counts is not None, "its offset is known, so the queue is here"
        raise QuotaExceeded(
            f"The fragment is full: it holds {counts[1]} bytes of {bytes_max}, and what was"
            f" sent has {size}."
        )
    counter: int = row[0]
    return counter


def _has_fields(message: Message) -> bool:
    return (
        message.expires_at is not None
        or message.session_id is not None
        or message.partition_key is not None
    )


def _seed_with_fields(seed: int, message: Message) -> int:
    session_id, key = message.session_id, message.partition_key
    if session_id is not None or key is not None:
        return seed_with_fields(seed, session_id, key)
    return seed


def _fields(message: Message) -> tuple[int, int | None, str | None, str | None]:
    return (
        len(message.content) + CHECKSUM_SIZE,
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
        database.run("bytes_down", (database.main(operation.queue), found.size))
    return lost


def _unlock(database: Database, operation: Unlock, now: Instant) -> list[int]:
    lost: list[int] = []
    for nonce, sequences in _by_nonce(operation.locks):
        found = _guarded(database, operation.queue, sequences, nonce, operation.guard, now)
        lost += found.lost
        if found.ids:
            database.run("unlock_messages", (ids_array(found.ids), int(operation.is_counted)))
    return lost


def _set_aside(database: Database, operation: SetAside, now: Instant) -> list[int]:
    lost: list[int] = []
    for nonce, sequences in _by_nonce(operation.locks):
        found = _guarded(database, operation.queue, sequences, nonce, Guard.HELD, now)
        lost += found.lost
        if found.ids:
            database.run("defer_messages", (ids_array(found.ids),))
    return lost


def _renew(database: Database, operation: Renew, now: Instant) -> list[int]:
    lost: list[int] = []
    for nonce, sequences in _by_nonce(operation.locks):
        found = _guarded(database, operation.queue, sequences, nonce, Guard.HELD, now)
        lost += found.lost
        if found.ids:
            database.run("renew_messages", (ids_array(found.ids), operation.locked_until))
    return lost


def _rewrite(database: Database, operation: Rewrite, now: Instant) -> list[int]:
    lock = operation.lock
    found = _guarded(database, operation.queue, [lock.sequence], lock.nonce, Guard.HELD, now)
    for row in found.ids:
        database.run("rewrite_marks", (row, marks_to_text(operation.marks)))
    return found.lost


def _move(database: Database, operation: Move, now: Instant) -> list[int]:
    lock = operation.lock
    found = _guarded(database, operation.queue, [lock.sequence], lock.nonce, operation.guard, now)
    for row in found.ids:
        _renumber(database, operation, row, found.size)
    return found.lost


def _renumber(database: Database, operation: Move, row: int, size: int) -> None:
    """Give a message its place in the other queue. Its body stays where it is."""
    here, there = operation.queue, operation.to_queue
    database.offset(there)
    reserved = database.row("reserve_one_counter", (there,))
    assert reserved is not None, "its offset is known, so the queue is here"
    new_row = rows_of_queue(there)[0] + reserved[0]
    marks = marks_to_text(operation.marks)
    database.run("move_message", (row, new_row, there, marks, int(operation.is_counted)))
    database.run("count_down", (here, 1))
    if database.main(here) != database.main(there):
        database.run("bytes_down", (database.main(here), size))
        database.run("bytes_down", (database.main(there), -size))


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
    ids = database.message_ids(queue, sequences)
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
    if bodies and len(bodies) < len(found):
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
