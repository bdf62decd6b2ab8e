"""Makes record batches of what a store scanned.

Contents of common shapes are read all together (`regular_contents`); the others, one by one, and
put in their places.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from bendybus.columns.arrow_types import ARROW_TYPES, arrow_schema
from bendybus.columns.gathering import (
    Flags,
    Numbers,
    as_text,
    gather,
    mended,
    nulls,
    primitive,
    repeated,
)
from bendybus.columns.kept_rows import read_rows, text_column
from bendybus.columns.marked_properties import map_column, marked_rows, with_marks
from bendybus.columns.one_by_one import PROPERTY_FIELDS, PlainColumns, read_content
from bendybus.columns.property_columns import no_properties, property_column
from bendybus.columns.regular_contents import Parts, find_parts
from bendybus.columns.schema import BODY_TYPES, COLUMNS, ColumnType
from bendybus.columns.walking import NULL
from bendybus.model.ids import COUNTER_BITS
from bendybus.model.message import Marks, MessageState
from bendybus.model.scanned import NO_INSTANT, KeptColumns, Scanned, Slices

_TEXT: Final = pa.string()
_TIME: Final = ARROW_TYPES[ColumnType.TIMESTAMP]
_STATES: Final = pa.array(
    [{int(each): each.name.lower() for each in MessageState}.get(at) for at in range(16)], _TEXT
)
# Microseconds in a millisecond, and the last moment that can be told in them.
_MICROSECONDS: Final = 1000
_LAST_MOMENT: Final = ((1 << 63) - 1) // _MICROSECONDS

# Columns that are not beside the content.
CONTENT_COLUMNS: Final = frozenset(
    {
        *PROPERTY_FIELDS.values(),
        "time_to_live",
        "scheduled_enqueue_time",
        "application_properties",
        "body",
        "body_type",
    }
)


# Those that messages which still are columns have beside their bodies.
_TEXTS: Final = frozenset({*PROPERTY_FIELDS.values(), "partition_key"})


def needs_contents(names: Sequence[str]) -> bool:
    """Say whether contents must be scanned for these columns."""
    return not CONTENT_COLUMNS.isdisjoint(names)


def needs_texts(names: Sequence[str]) -> bool:
    """Say whether these columns have any that are kept as texts, beside bodies."""
    return not _TEXTS.isdisjoint(names)


def record_batch(
    scanned: Scanned, names: Sequence[str] = tuple(COLUMNS), *, is_partitioned: bool
) -> pa.RecordBatch:
    """Make a record batch of some columns, in the order in which they are named."""
    beside = _Beside(scanned, is_partitioned=is_partitioned)
    if scanned.kept is not None:
        columns = _kept_columns(scanned, scanned.kept, names, beside)
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(names))
    inside = None if scanned.contents is None else _Inside(scanned, scanned.contents, names)
    columns = [
        inside.column(name)
        if inside is not None and name in CONTENT_COLUMNS
        else beside.column(name)
        for name in names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(names))


def _kept_columns(
    scanned: Scanned, kept: Sequence[KeptColumns], names: Sequence[str], beside: "_Beside"
) -> list[pa.Array]:
    """Return the columns of messages that still are columns; what they lack is made."""
    texts = [_picked(each.beside, each) for each in kept if each.beside is not None]
    bodies = [_picked(each.bodies, each) for each in kept if each.bodies is not None]
    columns: list[pa.Array] = []
    for name in names:
        if name == "body" and bodies:
            columns.append(_joined([each.column(name) for each in bodies]))
        elif name in _TEXTS and texts:
            columns.append(_joined([text_column(each, name) for each in texts]))
        elif name == "body_type":
            columns.append(repeated(BODY_TYPES[0], scanned.count))
        elif name == "application_properties":
            columns.append(no_properties(scanned.count))
        elif name == "time_to_live":
            columns.append(_lives(scanned))
        else:
            columns.append(beside.column(name))
    return columns


def _picked(written: bytes, kept: KeptColumns) -> pa.RecordBatch:
    rows = read_rows(written)
    if kept.places is not None:
        return rows.take(pa.array(_numbers(kept.places)))
    return rows.slice(kept.first, kept.count)


def _joined(columns: list[pa.Array]) -> pa.Array:
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def _lives(scanned: Scanned) -> pa.Array:
    """Return how long messages live; one that says so of itself expires, too."""
    expires_at = _numbers(scanned.expires_at)
    return primitive(
        expires_at - _numbers(scanned.enqueued_at), pa.int64(), expires_at != NO_INSTANT
    )


class _Beside:
    """The columns that a store keeps beside the content."""

    def __init__(self, scanned: Scanned, *, is_partitioned: bool) -> None:
        self._scanned = scanned
        self._is_partitioned = is_partitioned

    def column(self, name: str) -> pa.Array:
        """Make one column; null if it is not known here."""
        make = getattr(self, f"_{name}", None)
        if make is None:
            return nulls(self._scanned.count, ARROW_TYPES[COLUMNS[name]])
        column: pa.Array = make()
        return column

    def _fragment(self) -> pa.Array:
        fragments = _numbers(self._scanned.sequences) >> COUNTER_BITS
        return primitive(fragments.astype(np.int32), pa.int32())

    def _sequence_number(self) -> pa.Array:
        return primitive(_numbers(self._scanned.sequences), pa.int64())

    def _enqueued_time(self) -> pa.Array:
        return _times(_numbers(self._scanned.enqueued_at))

    def _expires_at(self) -> pa.Array:
        return _times(_numbers(self._scanned.expires_at))

    def _delivery_count(self) -> pa.Array:
        return primitive(_numbers(self._scanned.delivery_counts).astype(np.int32), pa.int32())

    def _state(self) -> pa.Array:
        states = _numbers(self._scanned.states)
        if len(states) and (states == states[0]).all():
            return repeated(_STATES[int(states[0])].as_py(), len(states))
        return _STATES.take(pa.array(states))

    def _session_id(self) -> pa.Array:
        return _slice_texts(self._scanned.session_ids, self._scanned.count)

    def _partition_key(self) -> pa.Array:
        """Return the keys; of a session in a partitioned entity, its id is the key."""
        keys = _slice_texts(self._scanned.partition_keys, self._scanned.count)
        if not self._is_partitioned or self._scanned.session_ids is None:
            return keys
        return pa.compute.coalesce(keys, self._session_id())

    def _dead_letter_reason(self) -> pa.Array:
        return self._marked(lambda marks: marks.dead_letter_reason)

    def _dead_letter_error_description(self) -> pa.Array:
        return self._marked(lambda marks: marks.dead_letter_description)

    def _dead_letter_source(self) -> pa.Array:
        return self._marked(lambda marks: marks.dead_letter_source)

    def _marked(self, read: Callable[[Marks], str | None]) -> pa.Array:
        marks = self._scanned.marks
        if marks is None:
            return nulls(self._scanned.count, _TEXT)
        return pa.array([None if each is None else read(each) for each in marks], _TEXT)


class _Inside:
    """The columns that are made of contents."""

    def __init__(self, scanned: Scanned, contents: Slices, names: Sequence[str]) -> None:
        self._scanned = scanned
        self._contents = contents
        self._joined = pa.py_buffer(contents.joined)
        self._parts: Parts = find_parts(contents, names)
        self._maps: pa.Array | None = None
        if self._parts.properties is not None:
            self._maps, has_twins = property_column(
                self._parts.properties, self._parts.walk, self._joined
            )
            self._parts.is_regular &= ~has_twins
        self._odd = np.nonzero(~self._parts.is_regular)[0]
        self._plain = [self._read(row) for row in self._odd.tolist()]

    def column(self, name: str) -> pa.Array:
        """Make one column."""
        if name == "application_properties":
            return self._application_properties()
        if name == "time_to_live":
            return self._time_to_live()
        if name == "scheduled_enqueue_time":
            return self._scheduled()
        if name == "body":
            return self._body()
        if name == "body_type":
            return self._body_type()
        return self._property(name)

    def _property(self, name: str) -> pa.Array:
        found = self._parts.texts.get(name)
        if found is None:
            column = nulls(self._scanned.count, _TEXT)
        else:
            is_there = (found.codes != NULL) & self._parts.is_regular
            column = as_text(gather(self._joined, found.starts, found.ends, is_there))
        return self._mend(column, lambda plain: plain.texts.get(name))

    def _body(self) -> pa.Array:
        body = self._parts.body
        assert body is not None
        column = gather(self._joined, body.starts, body.ends, self._parts.is_regular)
        return self._mend(column, lambda plain: plain.body)

    def _body_type(self) -> pa.Array:
        types = self._parts.body_types
        if types is None:
            column = repeated(BODY_TYPES[0], self._scanned.count)
        else:
            column = pa.array(BODY_TYPES).take(pa.array(types))
        return self._mend(column, lambda plain: plain.body_type)

    def _time_to_live(self) -> pa.Array:
        """Return how long messages live: until they expire, or as their header says."""
        said = self._parts.time_to_live
        said = np.full(self._scanned.count, -1, np.int64) if said is None else said.copy()
        for row, plain in zip(self._odd.tolist(), self._plain, strict=True):
            said[row] = -1 if plain.time_to_live is None else plain.time_to_live
        expires_at = _numbers(self._scanned.expires_at)
        ends = expires_at != NO_INSTANT
        lives = np.where(ends, expires_at - _numbers(self._scanned.enqueued_at), said)
        return primitive(lives, pa.int64(), ends | (said >= 0))

    def _scheduled(self) -> pa.Array:
        found = self._parts.scheduled_at
        moments = (
            np.full(self._scanned.count, NO_INSTANT, np.int64) if found is None else found.copy()
        )
        for row, plain in zip(self._odd.tolist(), self._plain, strict=True):
            moments[row] = NO_INSTANT if plain.scheduled_at is None else plain.scheduled_at
        return _times(moments)

    def _application_properties(self) -> pa.Array:
        maps = no_properties(self._scanned.count) if self._maps is None else self._maps
        places = self._odd
        marks = self._scanned.marks
        if marks is not None:
            joined = with_marks(maps, marks)
            if joined is None:
                places = np.union1d(places, marked_rows(marks))
            else:
                maps = joined
        if not len(places):
            return maps
        odd = dict(zip(self._odd.tolist(), self._plain, strict=True))
        plain = [odd.get(row) or self._read(row) for row in places.tolist()]
        return mended(maps, places, map_column([each.properties for each in plain]))

    def _mend(
        self, column: pa.Array, read: Callable[[PlainColumns], str | bytes | None]
    ) -> pa.Array:
        if not len(self._odd):
            return column
        patches = pa.array([read(plain) for plain in self._plain], column.type)
        return mended(column, self._odd, patches)

    def _read(self, row: int) -> PlainColumns:
        start, end = self._contents.starts[row], self._contents.ends[row]
        marks = self._scanned.marks
        content = self._contents.joined[start:end]
        return read_content(content, None if marks is None else marks[row])


def _numbers(column: memoryview) -> Numbers:
    return np.asarray(column, np.int64)


def _times(moments: Numbers) -> pa.Array:
    """Return moments in microseconds; null where there is none, or none that can be told so."""
    is_told: Flags = np.abs(moments) <= _LAST_MOMENT
    return primitive(np.where(is_told, moments, 0) * _MICROSECONDS, _TIME, is_told)


def _slice_texts(slices: Slices | None, count: int) -> pa.Array:
    if slices is None:
        return nulls(count, _TEXT)
    starts, ends = _numbers(slices.starts), _numbers(slices.ends)
    is_there = starts >= 0
    # Those that are not there stand, without length, where the one before ends.
    ends = np.maximum.accumulate(np.maximum(ends, 0))
    starts = np.where(is_there, starts, ends)
    return as_text(gather(pa.py_buffer(slices.joined), starts, ends, is_there))
