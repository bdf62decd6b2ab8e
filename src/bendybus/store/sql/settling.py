"""Changes messages that are there, inside the lane's transaction. No decisions: guards only.

Each function returns the sequence numbers of the messages that their guard refused; `move` says it
of each.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from bendybus.model.ids import Instant
from bendybus.model.message import Lock
from bendybus.model.operations import (
    Guard,
    Move,
    Remove,
    Renew,
    Rewrite,
    SetAside,
    Unlock,
)
from bendybus.store.marks import marks_to_text
from bendybus.store.sql.counting import count_in, count_out
from bendybus.store.sql.database import SqlDatabase, rows_of_queue
from bendybus.store.sql.litter import throw_away
from bendybus.store.sql.session_locks import take_back
from bendybus.store.sql.shared_bodies import release
from bendybus.store.sql.unfolding import unfold_around

# How messages that are received by session are found to pass their guard.
_IN_SESSIONS: Final = {
    Guard.HELD: "find_in_hand",
    Guard.LAPSED: "find_in_hand",
    Guard.FREE: "find_free_of_sessions",
    Guard.UNTOUCHED: "find_free_of_sessions",
}


def remove(database: SqlDatabase, operation: Remove, now: Instant) -> list[int]:
    """Delete messages and their contents."""
    lost: list[int] = []
    for number, sequences in grouped(operation.locks, operation.guard):
        found = find_guarded(database, operation.queue, sequences, number, operation.guard, now)
        lost += found.lost
        if found.ids:
            delete(database, operation.queue, found)
    return lost


def delete(database: SqlDatabase, queue: int, found: "Found") -> None:
    """Delete messages that were found, at least one, and count them no more."""
    if found.aside:
        count_out(database, queue, found.ids)
    ids = database.array(found.ids)
    bodies, size = found.ids, found.size
    if found.bodies:
        bodies, size = release(database, found.ids, found.bodies)
    if bodies:
        if queue in database.session_queues:
            throw_away(database, bodies, size)
        else:
            database.run("remove_bodies", (ids if bodies is found.ids else database.array(bodies),))
        database.run("bytes_down", (database.main(queue), size))
    database.run("remove_messages", (ids,))
    database.run("count_down", (queue, len(found.ids)))


def unlock(database: SqlDatabase, operation: Unlock, now: Instant) -> list[int]:
    """Make messages free."""
    lost: list[int] = []
    for nonce, sequences in _by_nonce(operation.locks):
        found = find_guarded(database, operation.queue, sequences, nonce, operation.guard, now)
        lost += found.lost
        if not found.ids:
            continue
        if operation.queue in database.session_queues:
            take_back(database, found.ids, nonce, is_counted=operation.is_counted)
            _note_freed(database, operation.queue, nonce, operation.guard)
        else:
            database.run("unlock_messages", (database.array(found.ids), int(operation.is_counted)))
    return lost


def _note_freed(database: SqlDatabase, queue: int, nonce: int, guard: Guard) -> None:
    """Let the next turn that frees what a lapsed session held begin where this one ended."""
    if guard is Guard.LAPSED and queue in database.session_queues:
        database.run("note_freed", (nonce,))


def set_aside(database: SqlDatabase, operation: SetAside, now: Instant) -> list[int]:
    """Defer messages."""
    lost: list[int] = []
    for nonce, sequences in _by_nonce(operation.locks):
        found = find_guarded(database, operation.queue, sequences, nonce, Guard.HELD, now)
        lost += found.lost
        if found.ids:
            if found.aside:
                count_out(database, operation.queue, found.ids)
            database.run("defer_messages", (database.array(found.ids),))
            count_in(database, operation.queue, deferred=len(found.ids))
    return lost


def renew(database: SqlDatabase, operation: Renew, now: Instant) -> list[int]:
    """Let locks last longer, but those within a session."""
    lost: list[int] = []
    for nonce, sequences in _by_nonce(operation.locks):
        found = find_guarded(database, operation.queue, sequences, nonce, Guard.HELD, now)
        lost += found.lost
        if found.ids and operation.queue not in database.session_queues:
            database.run("renew_messages", (database.array(found.ids), operation.locked_until))
    return lost


def rewrite(database: SqlDatabase, operation: Rewrite, now: Instant) -> list[int]:
    """Replace the marks of a message."""
    lock = operation.lock
    found = find_guarded(database, operation.queue, [lock.sequence], lock.nonce, Guard.HELD, now)
    for row in found.ids:
        database.run("rewrite_marks", (row, marks_to_text(operation.marks)))
    return found.lost


def move(database: SqlDatabase, moves: Sequence[Move], now: Instant) -> list[list[int]]:
    """Move messages from one queue to another, all under the same guard.

    At least one. Of each its own answer: nothing, or its number if the guard refused it.
    """
    first = moves[0]
    rows = database.message_ids(first.queue, [each.lock.sequence for each in moves])
    passed: set[int] = set()
    size = 0
    for nonce, sequences in grouped([each.lock for each in moves], first.guard):
        found = find_guarded(database, first.queue, sequences, nonce, first.guard, now)
        if found.aside:
            count_out(database, first.queue, found.ids)
        passed.update(found.ids)
        size += found.size
    # A message that is named twice is gone when it is its turn again.
    moved: dict[int, Move] = {}
    for row, each in zip(rows, moves, strict=True):
        if row in passed:
            moved.setdefault(row, each)
    if moved:
        _renumber(database, moved, size)
        for nonce in {each.lock.nonce for each in moved.values()}:
            _note_freed(database, first.queue, nonce, first.guard)
    return [
        [] if moved.get(row) is each else [each.lock.sequence]
        for row, each in zip(rows, moves, strict=True)
    ]


def _renumber(database: SqlDatabase, moved: Mapping[int, Move], size: int) -> None:
    """Give messages their places in the other queue. Their bodies stay where they are."""
    operation = next(iter(moved.values()))
    here, there = operation.queue, operation.to_queue
    database.offset(there)
    reserved = database.row("reserve_places", (there, len(moved)))
    assert reserved is not None, "its offset is known, so the queue is here"
    first = rows_of_queue(there)[0] + reserved[0]
    rows = json.dumps([(row, marks_to_text(each.marks)) for row, each in moved.items()])
    database.run("move_messages", (rows, first, there, int(operation.is_counted)))
    database.run("count_down", (here, len(moved)))
    if database.main(here) != database.main(there):
        database.run("bytes_down", (database.main(here), size))
        database.run("bytes_down", (database.main(there), -size))


class Found:
    """Which of the messages asked for passed their guard."""

    __slots__ = ("aside", "bodies", "ids", "lost", "size")

    def __init__(
        self, ids: Sequence[int], bodies: list[int], size: int, lost: list[int], aside: int
    ) -> None:
        self.ids = ids
        # Ids of the bodies; empty when they are those of the messages, as in a main queue.
        self.bodies = bodies
        self.size = size
        self.lost = lost
        # How many of them are not plainly active.
        self.aside = aside


def find_guarded(
    database: SqlDatabase,
    queue: int,
    sequences: Sequence[int],
    number: int,
    guard: Guard,
    now: Instant,
) -> Found:
    """Find those of the messages that pass a guard. What the number is, `grouped` says."""
    ids = database.message_ids(queue, sequences)
    if guard is Guard.THERE:
        # All others are of messages that somebody has looked at.
        unfold_around(database, queue, ids)
    find = "find_guarded"
    if queue in database.session_queues:
        find = _IN_SESSIONS.get(guard, find)
    row = database.row(find, (database.array(ids), guard.name, number, now))
    assert row is not None
    count, size, found_text, bodies_text, aside = row
    bodies: list[int] = json.loads(bodies_text)
    if count == len(ids) and not bodies:
        return Found(ids, [], int(size), [], aside)
    passed = set(json.loads(found_text))
    found = [row_id for row_id in dict.fromkeys(ids) if row_id in passed]
    lost = [
        sequence for row_id, sequence in zip(ids, sequences, strict=True) if row_id not in passed
    ]
    if bodies and len(bodies) < len(found):
        # Some bodies have another id and some the same: name them all.
        moved = database.row("bodies_of", (database.array(found),))
        assert moved is not None
        bodies = json.loads(moved[0])
    return Found(found, bodies, int(size), lost, aside)


def grouped(locks: Sequence[Lock], guard: Guard) -> list[tuple[int, list[int]]]:
    """Group locks by the number that the guard compares: the nonce, or the delivery count."""
    if guard is not Guard.UNTOUCHED:
        return _by_nonce(locks)
    groups: dict[int, list[int]] = {}
    for lock in locks:
        groups.setdefault(lock.delivery_count, []).append(lock.sequence)
    return list(groups.items())


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
