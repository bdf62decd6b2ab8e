"""Reads messages, inside the lane's transaction; `acquire` also locks what it read."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from bendybus.model.ids import Instant, QueueNumber, sequence_number
from bendybus.model.message import Lock, StoredMessage
from bendybus.model.operations import Guard
from bendybus.store.checksum import CHECKSUM_SIZE, is_intact
from bendybus.store.marks import marks_from_text
from bendybus.store.port import Acquire, Due
from bendybus.store.sqlite.database import COUNTER_MASK_HERE, Database, message_id
from bendybus.store.sqlite.writing import ids_array

# What the find statements return for one message, in this order.
_ID, _ENQUEUED, _COUNT, _HEAD, _EXPIRES, _SESSION, _KEY, _MARKS, _BODY, _SIZE = range(10)
_STATE, _LOCKED_UNTIL, _NONCE = range(10, 13)

_log = logging.getLogger(__name__)


def acquire(
    database: Database, request: Acquire, now: Instant
) -> list[StoredMessage]:
    """Lock the oldest free messages and return them."""
    row = database.row("find_free", (request.queue, now, request.count_max))
    assert row is not None
    rows = _cut(json.loads(row[0]), request.bytes_max)
    if not rows:
        return []
    contents = _contents(database, rows)
    if not rows:
        # All were damaged and are set aside now; behind them there may be good ones.
        return acquire(database, request, now)
    ids = [row[_ID] for row in rows]
    database.run("lock_messages", (ids_array(ids), request.locked_until, request.nonce))
    base = sequence_number(database.fragments[request.queue], 0)
    locked_until, nonce = request.locked_until, request.nonce
    return [
        StoredMessage(
            base | row[0] & COUNTER_MASK_HERE,
            row[1],
            row[2],
            content,
            row[3],
            row[4],
            row[5],
            row[6],
            None if row[7] is None else marks_from_text(row[7]),
            0,
            locked_until,
            nonce,
        )
        for row, content in zip(rows, contents, strict=True)
    ]


def browse(
    database: Database,
    queue: QueueNumber,
    from_sequence: int,
    limits: tuple[int, int],
) -> list[StoredMessage]:
    """Read messages in order, up to a count and a number of bytes."""
    count_max, bytes_max = limits
    end = message_id(QueueNumber(queue + 1), 0)
    row = database.row("browse", (message_id(queue, from_sequence), end, count_max))
    assert row is not None
    return _stored(database, queue, _cut(json.loads(row[0]), bytes_max))


def find_locked(
    database: Database,
    queue: QueueNumber,
    locks: Sequence[Lock],
    now: Instant,
) -> list[StoredMessage]:
    """Return those of the messages whose lock is held."""
    ids = ids_array([message_id(queue, lock.sequence) for lock in locks])
    row = database.row("find_locked", (ids, now))
    assert row is not None
    nonces = {message_id(queue, lock.sequence): lock.nonce for lock in locks}
    rows = [each for each in json.loads(row[0]) if nonces[each[_ID]] == each[_NONCE]]
    return _stored(database, queue, rows)


def due(database: Database, now: Instant, count_max: int) -> list[Due]:
    """Return messages whose lock or time to live has ended."""
    found: list[Due] = []
    for name, guard in (("due_locks", Guard.LAPSED), ("due_expiries", Guard.FREE)):
        row = database.row(name, (now, count_max))
        assert row is not None
        for row_id, queue, nonce, count, marks in json.loads(row[0]):
            sequence = sequence_number(database.fragments[queue], row_id & COUNTER_MASK_HERE)
            lock = Lock(sequence, nonce, count)
            found.append(Due(QueueNumber(queue), lock, guard, marks_from_text(marks)))
    return found


def _cut(rows: list[list[Any]], bytes_max: int) -> list[list[Any]]:
    """Keep the rows that fit, and at least one."""
    total = 0
    for at, row in enumerate(rows):
        total += row[_SIZE]
        if total > bytes_max and at:
            return rows[:at]
    return rows


def _contents(
    database: Database, rows: list[list[Any]]
) -> list[bytes]:
    """Return the content of each row, and take the damaged rows out of the list."""
    found = database.row("read_bodies", (ids_array([row[_BODY] for row in rows]),))
    assert found is not None
    lengths: list[int] = json.loads(found[0])
    together: bytes = found[1] or b""
    contents: list[bytes] = []
    damaged: list[int] = []
    at = 0
    if len(lengths) != len(rows):
        return _contents_one_by_one(database, rows)
    for row, length in zip(rows, lengths, strict=True):
        content = together[at : at + length]
        at += length
        if is_intact(content):
            contents.append(content[:-CHECKSUM_SIZE])
        else:
            damaged.append(row[_ID])
    if damaged:
        _set_aside(database, rows, damaged)
    return contents


def _contents_one_by_one(
    database: Database, rows: list[list[Any]]
) -> list[bytes]:
    """As `_contents`, when a body is missing altogether and lengths do not line up."""
    missing: list[int] = []
    for row in rows:
        found = database.row("read_bodies", (ids_array([row[_BODY]]),))
        assert found is not None
        if not json.loads(found[0]):
            missing.append(row[_ID])
    _set_aside(database, rows, missing)
    return _contents(database, rows) if rows else []


def _set_aside(
    database: Database, rows: list[list[Any]], ids: list[int]
) -> None:
    """Mark rows as damaged, take them out of the list and say so."""
    database.run("set_aside_damaged", (ids_array(ids),))
    gone = set(ids)
    rows[:] = [row for row in rows if row[_ID] not in gone]
    for row_id in ids:
        queue, counter = divmod(row_id, COUNTER_MASK_HERE + 1)
        _log.error(
            "message damaged on disk, set aside: queue=%d fragment=%d counter=%d",
            queue,
            database.fragments[queue],
            counter,
        )


def _stored(
    database: Database,
    queue: QueueNumber,
    rows: list[list[Any]],
) -> list[StoredMessage]:
    if not rows:
        return []
    contents = _contents(database, rows)
    base = sequence_number(database.fragments[queue], 0)
    return [
        StoredMessage(
            base | row[_ID] & COUNTER_MASK_HERE,
            row[_ENQUEUED],
            row[_COUNT],
            content,
            row[_HEAD],
            row[_EXPIRES],
            row[_SESSION],
            row[_KEY],
            marks_from_text(row[_MARKS]),
            row[_STATE],
            row[_LOCKED_UNTIL],
            row[_NONCE],
        )
        for row, content in zip(rows, contents, strict=True)
    ]
