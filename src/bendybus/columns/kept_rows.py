"""Rows that stay columns: from a writer to a store, and from there to whoever reads in bulk.

They are kept as Arrow writes a record batch to a file, the bodies apart from the rest. Contents are
made of them only when somebody receives one, by the same code that would have made them at once
(`encoding`), so that nobody can tell the difference.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bendybus.columns.encoding import content_sizes, encoded_rows
from bendybus.columns.gathering import nulls, repeated
from bendybus.columns.rows import Rows
from bendybus.columns.target import Target
from bendybus.model.packed_messages import PackedMessages, PackedRows

_ID: Final = "message_id"
_KEY: Final = "partition_key"
_BODY: Final = "body"
_LIFE: Final = "time_to_live"
# What a queue need not know of each message.
_TEXTS: Final = (
    _ID,
    _KEY,
    "correlation_id",
    "subject",
    "content_type",
    "to",
    "reply_to",
    "reply_to_session_id",
)
_KEPT: Final = (*_TEXTS, _LIFE, _BODY)


class SizedRows(NamedTuple):
    """Rows to be kept, and how large each of them is as a content."""

    rows: pa.RecordBatch
    sizes: NDArray[np.int64]


def kept(rows: Rows, target: Target) -> pa.RecordBatch | None:
    """Return the columns to keep; None if a queue must know more of these messages.

    All of them have a partition key or none has, as `PackedMessages.is_alike` says.
    """
    if target.is_topic or target.has_duplicate_detection or target.requires_session:
        return None
    lives, keys = rows.get(_LIFE), rows.get(_KEY)
    is_alike = (lives is None or _is_one_value(lives)) and (keys is None or not keys.null_count)
    if not is_alike or not rows.has_only(_KEPT):
        return None
    columns = {name: column for name in _KEPT if (column := rows.get(name)) is not None}
    bodies = columns.get(_BODY)
    if bodies is None:
        columns[_BODY] = pa.repeat(pa.scalar(b"", pa.binary()), rows.count)
    elif bodies.null_count:
        columns[_BODY] = pc.fill_null(bodies, b"")
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        return None  # A text that is not UTF-8 is a matter of contents.
    return batch


def _is_one_value(column: pa.Array) -> bool:
    return (
        not column.null_count
        and column[0].equals(column[-1])
        and bool(pc.all(pc.equal(column, column[0])).as_py())
    )


class GatheredRows:
    """Gathers rows by fragment until they are enough to be kept together."""

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._parts: dict[int | None, list[SizedRows]] = {}

    def add(self, fragment: int | None, part: SizedRows) -> Iterator[PackedRows]:
        """Take rows for a fragment; yield those that are enough."""
        parts = self._parts.setdefault(fragment, [])
        if parts and not _go_together(parts[-1].rows, part.rows):
            yield from self.rest(fragment)
            parts = self._parts.setdefault(fragment, [])
        count, size = sum(each.rows.num_rows for each in parts), _size_of(parts)
        start = 0
        ends = np.cumsum(part.sizes)
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            fit = int(np.searchsorted(ends, before + self._bytes_max - size, side="right"))
            stop = min(fit, start + self._count_max - count, len(ends))
            if stop <= start and not count:
                stop = start + 1  # One alone may be more.
            if stop > start:
                parts.append(
                    SizedRows(part.rows.slice(start, stop - start), part.sizes[start:stop])
                )
                count += stop - start
                size += int(ends[stop - 1]) - before
            if stop < len(ends):
                yield _packed(parts)
                parts.clear()
                count = size = 0
            start = max(stop, start)

    def rest(self, fragment: int | None) -> Iterator[PackedRows]:
        """Yield what was gathered for a fragment and not yielded yet."""
        parts = self._parts.pop(fragment, [])
        if parts:
            yield _packed(parts)

    def everything(self) -> Iterator[tuple[int | None, PackedRows]]:
        """Yield all that was not yielded yet."""
        for fragment in list(self._parts):
            for packed in self.rest(fragment):
                yield fragment, packed


def _go_together(rows: pa.RecordBatch, others: pa.RecordBatch) -> bool:
    """Say whether rows have the same columns, and live equally long."""
    return bool(rows.schema.equals(others.schema)) and _life(rows) == _life(others)


def _life(rows: pa.RecordBatch) -> int | None:
    """Return how long the rows live, each of them."""
    if _LIFE not in rows.schema.names:
        return None
    life: int = rows.column(_LIFE)[0].as_py()
    return life


def _size_of(parts: Sequence[SizedRows]) -> int:
    return sum(int(part.sizes.sum()) for part in parts)


def _packed(parts: Sequence[SizedRows]) -> PackedRows:
    whole = pa.Table.from_batches([part.rows for part in parts]).combine_chunks()
    [rows] = whole.to_batches()
    names = [name for name in rows.schema.names if name != _BODY]
    return PackedRows(
        rows.num_rows,
        _size_of(parts),
        _life(rows),
        _written(rows.select(names)),
        _written(rows.select([_BODY])),
    )


def _written(rows: pa.RecordBatch) -> bytes:
    """Write columns; a text that all rows have alike is said once, beside the names of columns."""
    alike = {
        name: rows.column(name)[0].as_py()
        for name in _TEXTS
        # Ids differ, and how many rows there are must be told by a column.
        if name != _ID and name in rows.schema.names and _is_one_value(rows.column(name))
    }
    if alike:
        rows = rows.select([name for name in rows.schema.names if name not in alike])
        rows = rows.replace_schema_metadata(alike)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read_rows(written: bytes) -> pa.RecordBatch:
    """Return the columns that were written, without a copy."""
    with pa.ipc.open_stream(pa.py_buffer(written)) as stream:
        rows = stream.read_next_batch()
    for name, text in (rows.schema.metadata or {}).items():
        rows = rows.append_column(name.decode(), repeated(text.decode(), rows.num_rows))
    return rows


def unpacked(rows: PackedRows) -> PackedMessages:
    """Make the contents of rows that were kept as columns."""
    return encoded_rows(_whole(rows))


def sizes_of(rows: PackedRows) -> NDArray[np.int64]:
    """Return how large the contents would be, without making them."""
    return content_sizes(_whole(rows))


def _whole(rows: PackedRows) -> pa.RecordBatch:
    beside, bodies = read_rows(rows.beside), read_rows(rows.bodies)
    columns = [*beside.columns, *bodies.columns]
    return pa.RecordBatch.from_arrays(columns, [*beside.schema.names, *bodies.schema.names])


def places_of_keys(beside: bytes, keys: Sequence[str]) -> NDArray[np.int64]:
    """Return which rows have one of these partition keys."""
    rows = read_rows(beside)
    if _KEY not in rows.schema.names:
        return np.zeros(0, np.int64)
    found = pc.is_in(rows.column(_KEY), value_set=pa.array(keys, pa.string()))
    places: NDArray[np.int64] = np.flatnonzero(found.to_numpy(zero_copy_only=False))
    return places


def text_column(rows: pa.RecordBatch, name: str) -> pa.Array:
    """Return one of the columns that were written; empty if it was not."""
    if name in rows.schema.names:
        return rows.column(name)
    return nulls(rows.num_rows, pa.string())
