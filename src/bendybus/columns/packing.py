"""From encoded rows to packed messages, sorted by the fragment that each is for."""

from array import array
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bendybus.columns.pieces import lengths
from bendybus.columns.rows import Rows
from bendybus.columns.target import Target
from bendybus.model.packed_messages import PackedMessages
from bendybus.model.partitioning import fragment_for

_MILLISECOND: Final = 1000
# Keys come again, in this batch of rows or the next.
_fragment_of: Final = lru_cache(maxsize=20_000)(fragment_for)

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


def packed_by_fragment(
    rows: Rows, contents: pa.Array, target: Target, good: Mask | None
) -> dict[int | None, PackedMessages]:
    """Sort messages by fragment, None being any; those without a fault if some have one."""
    return {
        fragment: _pack(rows, contents, target, at) for fragment, at in _places(rows, target, good)
    }


def _places(
    rows: Rows, target: Target, good: Mask | None
) -> Iterator[tuple[int | None, pa.Array | None]]:
    """Yield fragments, and which rows are for each, in their order; None: all rows."""
    keys = _keys(rows, target)
    if not target.is_partitioned or keys is None:
        at = None if good is None else pa.array(np.flatnonzero(good))
        if rows.count if at is None else len(at):
            yield None if target.is_partitioned else 0, at
        return
    coded = keys.dictionary_encode()
    fragments = [_fragment_of(key, target.fragment_count) for key in coded.dictionary.to_pylist()]
    # Behind the last: the keyless, whose code is null.
    table = np.array([*fragments, target.fragment_count], np.int32)
    codes = pc.fill_null(coded.indices, len(fragments)).to_numpy(zero_copy_only=False)
    places = table[codes]
    if good is not None:
        places = np.where(good, places, target.fragment_count + 1)
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(target.fragment_count + 2))
    for place in range(target.fragment_count + 1):
        if ends[place] < ends[place + 1]:
            at = pa.array(order[ends[place] : ends[place + 1]])
            yield None if place == target.fragment_count else place, at


def _keys(rows: Rows, target: Target) -> pa.Array | None:
    """Return what binds each row to a fragment, as `model.partitioning.key_of` says."""
    names = ["session_id", "partition_key"]
    if target.has_duplicate_detection:
        names.append("message_id")
    columns = [column for name in names if (column := rows.get(name)) is not None]
    return pc.coalesce(*columns) if columns else None


def _pack(rows: Rows, contents: pa.Array, target: Target, at: pa.Array | None) -> PackedMessages:
    """Pack some of the rows, or all."""

    def chosen(name: str) -> pa.Array | None:
        column = rows.get(name)
        if column is None or at is None:
            return column
        column = column.take(at)
        return None if column.null_count == len(column) else column

    def texts(name: str) -> list[str | None] | None:
        column = chosen(name)
        return None if column is None else column.to_pylist()

    if at is not None:
        contents = contents.take(at)
    sizes = array("I", lengths(contents).astype(np.uint32).tobytes())
    lives = chosen("time_to_live")
    schedule = chosen("scheduled_enqueue_time")
    ids = texts("message_id") if target.has_duplicate_detection else None
    return PackedMessages(
        _bytes_of(contents),
        sizes,
        session_ids=texts("session_id"),
        partition_keys=texts("partition_key"),
        message_ids=None if ids is None else [each or "" for each in ids],
        times_to_live_ms=None if lives is None else _said_once(lives.to_pylist()),
        schedule=None if schedule is None else _milliseconds(schedule),
    )


def _said_once(column: list[int | None]) -> int | list[int | None]:
    first = column[0]
    return first if first is not None and column.count(first) == len(column) else column


def _milliseconds(column: pa.Array) -> list[int | None]:
    return [None if each is None else each // _MILLISECOND for each in column.to_pylist()]


def _bytes_of(contents: pa.Array) -> bytes:
    """Return all values of a column one after the other."""
    _, offsets, together = contents.buffers()
    if together is None:
        return b""
    ends = np.frombuffer(offsets, np.int32)
    first, end = ends[contents.offset], ends[contents.offset + len(contents)]
    return bytes(memoryview(together)[first:end])
