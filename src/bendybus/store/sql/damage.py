"""Finds messages whose stored bytes changed, and sets them aside so that the others go on.

A message set aside gets the state DAMAGED, once, and is logged; nothing looks at it again. It is
still counted, because it still takes room. Which bytes are caught: those of the content, of what
the sender said beside it, of the marks, and whatever makes a row unreadable.
"""

import json
import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

from bendybus.store.checksum import CHECKSUM_SIZE, is_intact, seed_with_fields
from bendybus.store.marks import MarksDamaged, marks_from_text
from bendybus.store.sql.counting import count_out
from bendybus.store.sql.database import COUNTER_BITS_HERE, SqlDatabase

# What the find statements return for one message, in this order. Those of `acquire` end before
# the state: they find only what is active and free.
ID, ENQUEUED_AT, DELIVERY_COUNT, EXPIRES_AT, SESSION_ID, PARTITION_KEY = range(6)
MARKS, BODY, SIZE, STATE, LOCKED_UNTIL, NONCE = range(6, 12)
Row = list[Any]

_NUMBERS: Final = (ID, ENQUEUED_AT, DELIVERY_COUNT, BODY, SIZE, STATE)
_NUMBERS_OR_NONE: Final = (EXPIRES_AT, LOCKED_UNTIL, NONCE)
_TEXTS_OR_NONE: Final = (SESSION_ID, PARTITION_KEY, MARKS)

_INSPECTED_TOGETHER: Final = 1000

_log = logging.getLogger(__name__)
T = TypeVar("T")


def despite_damage(database: SqlDatabase, rows: tuple[int, int], read: Callable[[], T]) -> T:
    """Read; if a row in the range cannot be read at all, set it aside and read again.

    If that does not help, an index still leads to it, because the row no longer says that it is
    in that index: the indexes are made anew.
    """
    try:
        return read()
    except database.unreadable:
        _set_aside_unreadable(database, *rows)
    try:
        return read()
    except database.unreadable:
        _log.error("an index of messages is damaged on disk, made anew")
        database.run("make_indexes_anew")
    return read()


def checked_contents(database: SqlDatabase, rows: list[Row]) -> list[bytes]:
    """Return the content of each row and decode its marks.

    Damaged rows are set aside and taken out of the list.
    """
    contents = _intact_together(database, rows)
    if contents is None:
        contents = _intact_one_by_one(database, rows)
    return contents


def set_aside(database: SqlDatabase, ids: Sequence[int]) -> None:
    """Mark messages as damaged, and say so."""
    for queue, group in groupby(sorted(ids), key=lambda row_id: row_id >> COUNTER_BITS_HERE):
        count_out(database, queue, list(group))
    database.run("set_aside_damaged", (database.array(ids),))
    for row_id in ids:
        queue = row_id >> COUNTER_BITS_HERE
        sequence = row_id - database.offset(queue)
        _log.error("message damaged on disk, set aside: queue=%d sequence=%d", queue, sequence)


def _intact_together(database: SqlDatabase, rows: list[Row]) -> list[bytes] | None:
    """Return all contents, or None if there is anything wrong with any."""
    try:
        found = database.row("read_bodies", (database.array([row[BODY] for row in rows]),))
    except database.corrupt:
        return None
    assert found is not None, "an aggregate always has one row"
    lengths: list[int] = json.loads(found[0])
    together: bytes = found[1] or b""
    if len(lengths) != len(rows) or None in lengths:
        return None
    contents: list[bytes] = []
    at = 0
    for row, length in zip(rows, lengths, strict=True):
        content = together[at : at + length]
        at += length
        # The seed as `appending` made it; by hand, because calls would be a tenth of what it costs
        # to acquire a message.
        both = row[BODY] ^ row[ENQUEUED_AT]
        seed = both ^ both >> 32
        if row[SESSION_ID] is not None or row[PARTITION_KEY] is not None:
            seed = seed_with_fields(seed, row[SESSION_ID], row[PARTITION_KEY])
        if not is_intact(content, seed):
            return None
        contents.append(content[:-CHECKSUM_SIZE])
    return contents if _decode_marks(rows) else None


def _decode_marks(rows: list[Row]) -> bool:
    """Decode the marks of all rows, or of none if any are damaged."""
    try:
        decoded = [(row, marks_from_text(row[MARKS])) for row in rows if row[MARKS] is not None]
    except MarksDamaged:
        return False
    for row, marks in decoded:
        row[MARKS] = marks
    return True


def _intact_one_by_one(database: SqlDatabase, rows: list[Row]) -> list[bytes]:
    """As above, each alone, so that a damaged one cannot drag its neighbours along."""
    contents: list[bytes] = []
    good: list[Row] = []
    damaged: list[int] = []
    for row in rows:
        if content := _intact_together(database, [row]):
            contents += content
            good.append(row)
        else:
            damaged.append(row[ID])
    if damaged:
        set_aside(database, damaged)
    rows[:] = good
    return contents


def _set_aside_unreadable(database: SqlDatabase, first: int, end: int) -> None:
    """Look at every row of a range by itself, and set those aside that cannot be read."""
    bad: list[int] = []
    while first < end:
        found = database.row("ids_from", (first, end, _INSPECTED_TOGETHER))
        assert found is not None, "an aggregate always has one row"
        ids: list[int] = json.loads(found[0])
        bad += [row_id for row_id in ids if not _is_readable(database, row_id)]
        first = ids[-1] + 1 if ids else end
    if bad:
        set_aside(database, bad)


def _is_readable(database: SqlDatabase, row_id: int) -> bool:
    try:
        found = database.row("browse", (row_id, row_id + 1, 1))
        assert found is not None, "an aggregate always has one row"
        [row] = json.loads(found[0])
    except database.unreadable:
        return False
    return (
        all(isinstance(row[at], int) for at in _NUMBERS)
        and all(row[at] is None or isinstance(row[at], int) for at in _NUMBERS_OR_NONE)
        and all(row[at] is None or isinstance(row[at], str) for at in _TEXTS_OR_NONE)
    )
