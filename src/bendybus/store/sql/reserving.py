"""Reserves messages for readers, deletes what they are done with, frees what they give back.

Each call makes or ends one reservation, which is bounded: what it writes, its end writes again. Of
reservations that are packs, one row each, a call makes or ends several.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Final, NamedTuple

from bendybus.model.errors import ReaderLost
from bendybus.model.ids import Instant
from bendybus.model.operations import CommitReserved, GiveBack, Reserve, ReserveChosen, Reserved
from bendybus.model.reader import RESERVATION_BYTES_MAX, RESERVATION_COUNT_MAX
from bendybus.store.figures import Event
from bendybus.store.readers import Reservation
from bendybus.store.sql import packs
from bendybus.store.sql.damage import despite_damage
from bendybus.store.sql.database import SqlDatabase, rows_of_queue
from bendybus.store.sql.readers import ReaderKey, check_within, find_reservations, held_place
from bendybus.store.sql.runs import unfold_oldest
from bendybus.store.sql.settling import Found, delete
from bendybus.store.sql.unfolding import unfold_around

# How often more sessions are looked at if those before had nothing; each time as many as messages
# are wanted.
_ROUNDS_MAX: Final = 5

# How many packs are reserved, or done with, in one turn.
PACKS_TOGETHER_MAX: Final = 8

# Rows and sizes of messages.
_Sized = tuple[list[int], list[int]]


class _Free(NamedTuple):
    """Messages to reserve, how large they are, and the sessions that were looked at for them."""

    ids: list[int]
    size: int
    sessions: list[str]


def reserve(database: SqlDatabase, operation: Reserve, now: Instant) -> Reserved:
    """Keep the oldest free messages for a reader, or return what it has already."""
    key = ReaderKey(operation.queue, operation.reader, operation.token)
    place = held_place(database, key, now)
    check_within(key, place, operation.after)
    for known in find_reservations(database, key, operation.after, place.position, 1):
        return Reserved(known.position, known.messages, known.bytes)
    count_max = min(operation.count_max, RESERVATION_COUNT_MAX)
    bytes_max = min(operation.bytes_max, RESERVATION_BYTES_MAX)
    one = replace(operation, count_max=count_max, bytes_max=bytes_max)
    unfold_oldest(database, key.queue, count_max, now)
    while True:
        pack = _next_pack(database, one, now)
        end = _end_of(database, one) if pack is None else pack.first
        found = despite_damage(
            database,
            rows_of_queue(key.queue),
            partial(_find_free, database, one, end, now),
        )
        if found.ids:
            made = _make(database, key, place.position, found.ids, found.size, now)
            if found.sessions:
                _note_emptied(database, key.queue, found.sessions, now)
            return made
        if pack is None:
            return Reserved(operation.after, 0, 0)
        # All that comes before has been looked at. One that is damaged is set aside, once.
        if operation.is_whole and not _fits(database, one, pack):
            return Reserved(operation.after, 0, pack.size)
        begin = _begin_of(database, one, pack)
        if begin is not None:
            made = _reserve_pack(database, key, Reserved(place.position, 0, 0), begin, now)
            return _with_packs_behind(database, operation, key, made, now)


def _reserve_pack(
    database: SqlDatabase, key: ReaderKey, before: Reserved, pack: packs.Pack, now: Instant
) -> Reserved:
    """Keep a pack for a reader; return what it has with that."""
    made = Reserved(before.position + 1, pack.length, pack.size)
    packs.reserve(database, pack, _write(database, key, made, now))
    return Reserved(made.position, before.messages + pack.length, before.bytes + pack.size)


def _with_packs_behind(
    database: SqlDatabase, operation: Reserve, key: ReaderKey, made: Reserved, now: Instant
) -> Reserved:
    """Reserve whole packs that come next, as far as they fit; return what it is altogether."""
    for _ in range(PACKS_TOGETHER_MAX - 1):
        pack = _next_pack(database, operation, now)
        left = replace(
            operation,
            count_max=operation.count_max - made.messages,
            bytes_max=operation.bytes_max - made.bytes,
        )
        if (
            pack is None
            or not _fits(database, left, pack)
            or packs.are_free_before(database, pack, 1)
        ):
            break
        made = _reserve_pack(database, key, made, pack, now)
    return made


def _fits(database: SqlDatabase, operation: Reserve, pack: packs.Pack) -> bool:
    """Say whether all of a pack is wanted."""
    return (
        pack.length <= operation.count_max
        and pack.size <= operation.bytes_max
        and pack.end <= _end_of(database, operation)
    )


def reserve_chosen(database: SqlDatabase, operation: ReserveChosen, now: Instant) -> Reserved:
    """Keep those of the named messages that are free."""
    key = ReaderKey(operation.queue, operation.reader, operation.token)
    position = held_place(database, key, now).position
    if not operation.sequences:
        return Reserved(position, 0, 0)
    rows = database.message_ids(key.queue, operation.sequences)
    unfold_around(database, key.queue, rows)

    def find() -> tuple[list[int], int]:
        return _cut(
            _sized(database, "find_chosen", (database.array(rows), now)), operation.bytes_max
        )

    ids, size = despite_damage(database, rows_of_queue(key.queue), find)
    if not ids:
        return Reserved(position, 0, 0)
    return _make(database, key, position, ids, size, now)


def commit(database: SqlDatabase, operation: CommitReserved, now: Instant) -> int:
    """Delete the messages of the next reservations; return the position that is done with."""
    key = ReaderKey(operation.queue, operation.reader, operation.token)
    place = held_place(database, key, now)
    until = operation.until
    if until <= place.committed:
        return place.committed
    check_within(key, place, until)
    # One more: with the last one gone there is nothing left to do.
    found = find_reservations(database, key, place.committed, until, PACKS_TOGETHER_MAX + 1)
    done = _remove_packs(database, key.queue, found[:PACKS_TOGETHER_MAX])
    if found and not done:
        done = found[:1]
        _remove_rows(database, key.queue, found[0].number)
    committed = until if len(done) == len(found) else done[-1].position
    database.run("note_committed", (key.queue, key.name, committed, now))
    return committed


def _remove_packs(
    database: SqlDatabase, queue: int, found: Sequence[Reservation]
) -> Sequence[Reservation]:
    """Delete the first of some reservations with their messages, while they are packs."""
    ended: list[packs.Pack] = []
    for each in found:
        pack = packs.reserved(database, each.number)
        if pack is None:
            break
        ended.append(pack)
        database.run("forget_reservation", (each.number,))
    if ended:
        packs.remove(database, ended)
        database.traffic.note(queue, Event.COMPLETED, sum(pack.length for pack in ended))
    return found[: len(ended)]


def _remove_rows(database: SqlDatabase, queue: int, number: int) -> None:
    """Delete a reservation with its messages, of which each has a row."""
    ids, bodies, size = _rows_of(database, number)
    if ids:
        bodies = [] if bodies == ids else bodies
        delete(database, queue, Found(ids, bodies, size, [], 0))
        database.traffic.note(queue, Event.COMPLETED, len(ids))
    database.run("forget_reservation", (number,))


def give_back(database: SqlDatabase, operation: GiveBack, now: Instant) -> Reserved:
    """Free the messages of the last reservation, or forget the reader if it has none."""
    queue, name = operation.queue, operation.reader
    database.offset(queue)
    reader = database.row("find_reader", (queue, name))
    if reader is None:
        raise ReaderLost.unknown(name)
    token, _, committed, opened_at, _ = reader
    if operation.token is not None and operation.token != token:
        raise ReaderLost.taken_over(name)
    found = database.row("last_reservation", (queue, name))
    if found is None:
        database.run("forget_reader", (queue, name))
        return Reserved(committed, 0, 0)
    # It is nobody's from now on, so it is not active either: whoever opens it gets the rest.
    database.run("open_reader", (queue, name, operation.next_token, opened_at, 0))
    number, position, messages, size = found
    pack = packs.reserved(database, number)
    if pack is not None:
        packs.reserve(database, pack, None)
        database.traffic.note(queue, Event.RETURNED, pack.length)
    ids, _, _ = _rows_of(database, number)
    if ids:
        _free(database, queue, ids, now)
        database.traffic.note(queue, Event.RETURNED, len(ids))
    database.run("forget_reservation", (number,))
    return Reserved(position, messages, size)


def _make(
    database: SqlDatabase, key: ReaderKey, last: int, ids: Sequence[int], size: int, now: Instant
) -> Reserved:
    """Reserve messages, at least one."""
    made = Reserved(last + 1, len(ids), size)
    database.run("reserve_messages", (database.array(ids), _write(database, key, made, now)))
    return made


def _write(database: SqlDatabase, key: ReaderKey, made: Reserved, now: Instant) -> int:
    """Write a reservation; return its number."""
    row = database.row("make_reservation", (key.queue, key.name, *made, now))
    assert row is not None, "its number"
    database.run("note_position", (key.queue, key.name, made.position, now))
    database.traffic.note(key.queue, Event.DELIVERED, made.messages)
    number: int = row[0]
    return number


def _next_pack(database: SqlDatabase, operation: Reserve, now: Instant) -> packs.Pack | None:
    """Return the oldest free pack, if it begins where messages are wanted."""
    pack = packs.oldest_free(database, operation.queue, now)
    return None if pack is None or pack.first >= _end_of(database, operation) else pack


def _begin_of(database: SqlDatabase, operation: Reserve, pack: packs.Pack) -> packs.Pack | None:
    """Return as much of the beginning of a pack as is wanted; None if it is damaged."""
    count_max = min(operation.count_max, _end_of(database, operation) - pack.first)
    return packs.begin_of(database, pack, count_max, operation.bytes_max)


def _end_of(database: SqlDatabase, operation: Reserve) -> int:
    """Return the first row that is not wanted."""
    first, end = rows_of_queue(operation.queue)
    if operation.before is None:
        return end
    return min(end, max(first, operation.before + database.offset(operation.queue)))


def _find_free(database: SqlDatabase, operation: Reserve, end: int, now: Instant) -> _Free:
    """Find free messages that have rows, up to one."""
    queue = operation.queue
    if queue in database.session_queues:
        return _find_in_sessions(database, operation, end, now)
    found = _sized(database, "find_reservable", (queue, now, operation.count_max, end))
    return _Free(*_cut(found, operation.bytes_max), [])


def _find_in_sessions(database: SqlDatabase, operation: Reserve, end: int, now: Instant) -> _Free:
    """Find free messages of sessions that nobody holds."""
    queue, count_max = operation.queue, operation.count_max
    passed = 0
    for _ in range(_ROUNDS_MAX):
        bindings = (queue, now, count_max, end, passed)
        row = database.row("find_reservable_of_sessions", bindings)
        assert row is not None, "an aggregate always has one row"
        sessions = list(dict.fromkeys(json.loads(row[2])))
        if ids := json.loads(row[0]):
            return _Free(*_cut((ids, json.loads(row[1])), operation.bytes_max), sessions)
        if not sessions:
            break
        passed += len(sessions) - _note_emptied(database, queue, sessions, now)
    return _Free([], 0, [])


def _note_emptied(database: SqlDatabase, queue: int, sessions: Sequence[str], now: Instant) -> int:
    """Note which of some sessions have nothing more to receive; return how many."""
    names = json.dumps(sessions)
    database.run("note_sessions_emptied", (queue, names, now))
    count = database.changed
    database.run("forget_idle_sessions", (queue, names))
    return count


def _sized(database: SqlDatabase, name: str, bindings: tuple[object, ...]) -> _Sized:
    row = database.row(name, bindings)
    assert row is not None, "an aggregate always has one row"
    return json.loads(row[0]), json.loads(row[1])


def _cut(found: _Sized, bytes_max: int) -> tuple[list[int], int]:
    """Keep the rows that fit, and at least one; return how large they are, too."""
    ids, sizes = found
    total = sum(sizes)
    if total <= bytes_max:
        return ids, total
    kept = max(1, sum(each <= bytes_max for each in accumulate(sizes)))
    return ids[:kept], sum(sizes[:kept])


def _rows_of(database: SqlDatabase, number: int) -> tuple[list[int], list[int], int]:
    """Return the rows of a reservation's messages, those of their contents, and their size."""
    row = database.row("find_reserved", (number,))
    assert row is not None, "an aggregate always has one row"
    return json.loads(row[0]), json.loads(row[1]), int(row[2])


def _free(database: SqlDatabase, queue: int, ids: Sequence[int], now: Instant) -> None:
    rows = database.array(ids)
    if queue in database.session_queues:
        database.run("free_reserved_of_sessions", (rows,))
        database.run("note_sessions_freed", (rows, now))
    else:
        database.run("free_reserved", (rows,))
