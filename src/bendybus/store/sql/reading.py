"""Reads messages, inside the lane's transaction; `acquire` also locks what it read."""

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from bendybus.model.ids import Instant, QueueNumber, SubQueue
from bendybus.model.message import Lock, MessageState, StoredMessage
from bendybus.model.operations import Guard
from bendybus.store.figures import Event
from bendybus.store.marks import MarksDamaged, marks_from_text
from bendybus.store.port import (
    UNTIL_REOPENED,
    Acquire,
    AcquireDeferred,
    Due,
    QueueCounts,
    QueueExtent,
)
from bendybus.store.sql.damage import (
    BODY,
    DELIVERY_COUNT,
    ENQUEUED_AT,
    EXPIRES_AT,
    ID,
    LOCKED_UNTIL,
    MARKS,
    NONCE,
    PARTITION_KEY,
    SESSION_ID,
    SIZE,
    STATE,
    Row,
    checked_contents,
    despite_damage,
    set_aside,
)
from bendybus.store.sql.database import COUNTER_BITS_HERE, SqlDatabase, rows_of_queue
from bendybus.store.sql.litter import collect
from bendybus.store.sql.packs import unfold_reserved
from bendybus.store.sql.plain_acquire import acquire_plain
from bendybus.store.sql.session_locks import delivered_until, give_out, lock_in_hand, mark_of
from bendybus.store.sql.unfolding import (
    unfold_around,
    unfold_expired,
    unfold_from,
    unfold_oldest,
)

_EVERY_ROW: Final = (0, (1 << 63) - 1)
# Of what kind what is due is, in the order of the statement's columns.
_DUE_GUARDS: Final = (Guard.LAPSED, Guard.LAPSED, Guard.LAPSED, Guard.FREE, Guard.DUE)


def acquire(database: SqlDatabase, request: Acquire, now: Instant) -> list[StoredMessage]:
    """Lock the oldest free messages and return them."""
    unfold_oldest(database, request.queue, request.count_max, now)
    messages = despite_damage(
        database, rows_of_queue(request.queue), lambda: _acquire(database, request, now)
    )
    database.traffic.note(request.queue, Event.DELIVERED, len(messages))
    return messages


def browse(
    database: SqlDatabase,
    queue: QueueNumber,
    from_sequence: int,
    limits: tuple[int, int],
    session_id: str | None = None,
) -> list[StoredMessage]:
    """Read messages in order, of all sessions or one, up to a count and a number of bytes."""
    first, end = rows_of_queue(queue)
    first = max(first, from_sequence + database.offset(queue))
    if first >= end:
        return []
    count_max, bytes_max = limits
    unfold_from(database, queue, first, count_max)
    bindings: tuple[object, ...] = (first, end, count_max)
    name = "browse"
    if session_id is not None:
        name = "browse_session"
        bindings = (*bindings, queue, session_id)

    def read() -> list[StoredMessage]:
        # Another round only if all that was found is damaged, and set aside by now.
        while rows := _cut(_rows(database, name, bindings), bytes_max):
            if messages := _stored(database, queue, rows):
                return messages
        return []

    return despite_damage(database, (first, end), read)


def find_locked(
    database: SqlDatabase, queue: QueueNumber, locks: Sequence[Lock], now: Instant
) -> list[StoredMessage]:
    """Return those of the messages whose lock is held."""
    if not locks:
        return []
    ids = database.message_ids(queue, [lock.sequence for lock in locks])
    nonces = dict(zip(ids, [lock.nonce for lock in locks], strict=True))
    name = "find_locked_in_sessions" if queue in database.session_queues else "find_locked"

    def read() -> list[StoredMessage]:
        found = _rows(database, name, (database.array(ids), now))
        return _stored(database, queue, [row for row in found if nonces[row[ID]] == row[NONCE]])

    return despite_damage(database, rows_of_queue(queue), read)


def acquire_deferred(
    database: SqlDatabase, request: AcquireDeferred, now: Instant
) -> list[StoredMessage]:
    """Lock deferred messages by their sequence numbers."""
    lock_end: int = request.locked_until
    if request.session_id is not None:
        delivered_until(database, request, now)
        lock_end = mark_of(request.nonce)
    if not request.sequences:
        return []
    ids = database.array(database.message_ids(request.queue, request.sequences))
    bindings = (ids, request.locked_until, request.nonce, request.session_id)

    def read() -> list[StoredMessage]:
        return _stored(database, request.queue, _rows(database, "find_deferred", bindings))

    messages = despite_damage(database, rows_of_queue(request.queue), read)
    if messages:
        found = database.message_ids(request.queue, [message.sequence for message in messages])
        database.run("lock_messages", (database.array(found), lock_end, request.nonce))
        database.traffic.note(request.queue, Event.DELIVERED, len(messages))
    return messages


def find(
    database: SqlDatabase, queue: QueueNumber, sequences: Sequence[int]
) -> list[StoredMessage]:
    """Return those of the messages that are there, in order."""
    if not sequences:
        return []
    rows = database.message_ids(queue, sequences)
    unfold_around(database, queue, rows)
    ids = database.array(rows)
    return despite_damage(
        database,
        rows_of_queue(queue),
        lambda: _stored(database, queue, _rows(database, "find", (ids,))),
    )


def read_reserved(
    database: SqlDatabase,
    queue: QueueNumber,
    number: int,
    from_sequence: int,
    limits: tuple[int, int],
) -> list[StoredMessage]:
    """Read messages of a reservation in order, up to a count and a number of bytes."""
    first = from_sequence + database.offset(queue)
    count_max, bytes_max = limits
    unfold_reserved(database, number)

    def read() -> list[StoredMessage]:
        # Another round only if all that was found is damaged, and set aside by now.
        while rows := _cut(_rows(database, "read_reserved", (number, first, count_max)), bytes_max):
            if messages := _stored(database, queue, rows):
                return messages
        return []

    return despite_damage(database, rows_of_queue(queue), read)


def due(database: SqlDatabase, now: Instant, count_max: int) -> list[Due]:
    """Return messages whose lock, time to live or delay has ended, the longest due first."""
    unfold_expired(database, now)
    collect(database)
    return despite_damage(database, _EVERY_ROW, lambda: _due(database, now, count_max))


def next_due(database: SqlDatabase) -> Instant | None:
    """Return when `due` will find something, if nothing changes until then."""
    row = database.row("next_due")
    assert row is not None, "a row of values, always"
    instants = [Instant(each) for each in row if each is not None and each < UNTIL_REOPENED]
    return min(instants, default=None)


def occupied(database: SqlDatabase, sub_queue: SubQueue) -> list[QueueNumber]:
    """Return the queues of one kind that hold messages."""
    row = database.row("occupied", (int(sub_queue),))
    assert row is not None, "an aggregate always has one row"
    return [QueueNumber(number) for number in json.loads(row[0])]


def counts(database: SqlDatabase, queue: QueueNumber) -> QueueCounts:
    """Count what a queue holds."""
    database.offset(queue)
    row = database.row("counts", (queue,))
    assert row is not None, "its offset is known, so the queue is here"
    return QueueCounts(messages=row[0], bytes=row[1])


def extent(database: SqlDatabase, queue: QueueNumber) -> QueueExtent:
    """Say how much a queue holds, and where it ends now."""
    offset = database.offset(queue)
    first, end = rows_of_queue(queue)
    row = database.row("extent", (queue, first, end))
    assert row is not None, "its offset is known, so the queue is here"
    messages, size, next_counter, oldest = row
    following = first + next_counter - offset
    first_sequence = following if oldest == end else oldest - offset
    return QueueExtent(messages, size, following - 1, first_sequence)


def _acquire(database: SqlDatabase, request: Acquire, now: Instant) -> list[StoredMessage]:
    session_id, until = request.session_id, 0
    if session_id is not None:
        until = delivered_until(database, request, now)
    plain = acquire_plain(database, request, until, now)
    if plain is not None:
        return plain
    find = "find_free"
    bindings: tuple[object, ...] = (request.queue, now, request.count_max)
    if session_id is not None:
        find = "find_free_in_session"
        bindings = (*bindings, session_id, request.nonce, until)
    offset = database.offset(request.queue)
    rows: list[Row] = []
    contents: list[bytes] = []
    # Another round only if all that was found is damaged, and set aside by now.
    while not rows:
        rows = _cut(_rows(database, find, bindings), request.bytes_max)
        if not rows:
            return []
        contents = checked_contents(database, rows)
    locked_until, nonce = request.locked_until, request.nonce
    ids = [row[ID] for row in rows]
    if session_id is None:
        database.run("lock_messages", (database.array(ids), locked_until, nonce))
    else:
        expired = database.row("expired_before", (request.queue, now, session_id, until, ids[-1]))
        assert expired is not None, "a row of one value, always"
        give_out(database, ids, until, nonce, is_in_order=not expired[0])
    return [
        StoredMessage(
            row[ID] - offset,
            row[ENQUEUED_AT],
            row[DELIVERY_COUNT],
            content,
            row[EXPIRES_AT],
            row[SESSION_ID],
            row[PARTITION_KEY],
            row[MARKS],
            MessageState.ACTIVE,
            locked_until,
            nonce,
            None if row[BODY] == row[ID] else database.sequence_of(row[BODY]),
        )
        for row, content in zip(rows, contents, strict=True)
    ]


def _due(database: SqlDatabase, now: Instant, count_max: int) -> list[Due]:
    columns = database.row("due", (now, count_max))
    assert columns is not None, "a row of values, always"
    rows = [
        (*row, guard)
        for column, guard in zip(columns, _DUE_GUARDS, strict=True)
        for row in json.loads(column)
    ]
    in_hand = [row for row in rows if row[-1] is Guard.FREE and row[2] is not None]
    if in_hand:
        # They are not due, and must not be found again and again.
        lock_in_hand(database, [(row[1], row[2]) for row in in_hand])
        rows = [row for row in rows if row[-1] is not Guard.FREE or row[2] is None]
    rows.sort(key=itemgetter(0))
    found: list[Due] = []
    damaged: list[int] = []
    for _, row_id, nonce, delivery_count, marks_text, guard in rows[:count_max]:
        queue = QueueNumber(row_id >> COUNTER_BITS_HERE)
        lock = Lock(row_id - database.offset(queue), nonce or 0, delivery_count)
        try:
            marks = None if marks_text is None else marks_from_text(marks_text)
            found.append(Due(queue, lock, guard, marks))
        except MarksDamaged:
            damaged.append(row_id)
    if damaged:
        set_aside(database, damaged)
    return found


def _rows(database: SqlDatabase, name: str, bindings: tuple[object, ...]) -> list[Row]:
    found = database.row(name, bindings)
    assert found is not None, "an aggregate always has one row"
    rows: list[Row] = json.loads(found[0])
    return rows


def _cut(rows: list[Row], bytes_max: int) -> list[Row]:
    """Keep the rows that fit, and at least one."""
    total = 0
    for at, row in enumerate(rows):
        total += row[SIZE]
        if total > bytes_max and at:
            return rows[:at]
    return rows


def _stored(database: SqlDatabase, queue: QueueNumber, rows: list[Row]) -> list[StoredMessage]:
    if not rows:
        return []
    contents = checked_contents(database, rows)
    offset = database.offset(queue)
    return [
        StoredMessage(
            row[ID] - offset,
            row[ENQUEUED_AT],
            row[DELIVERY_COUNT],
            content,
            row[EXPIRES_AT],
            row[SESSION_ID],
            row[PARTITION_KEY],
            row[MARKS],
            row[STATE],
            row[LOCKED_UNTIL],
            row[NONCE],
            None if row[BODY] == row[ID] else database.sequence_of(row[BODY]),
        )
        for row, content in zip(rows, contents, strict=True)
    ]
