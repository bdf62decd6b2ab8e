"""From encoded rows to packed messages, sorted by the fragment that each is for."""

from array import array
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bendybus.columns.key_fragments import fragments_of
from bendybus.columns.pieces import lengths
from bendybus.columns.rows import Rows
from bendybus.columns.target import Target
from bendybus.model.packed_messages import PackedMessages

_MILLISECOND: Final = 1000

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Stretch(NamedTuple):
    """Rows for one fragment, None being any, from one place of the sorted rows to another."""

    fragment: int | None
    start: int
    stop: int


class Sorted(NamedTuple):
    """Rows sorted by their fragments, in their order within each."""

    # Which row comes where; None if all stay where they are.
    order: NDArray[np.int64] | None
    stretches: list[Stretch]


def packed_by_fragment(
    rows: Rows, contents: pa.Array, target: Target, good: Mask | None
) -> dict[int | None, PackedMessages]:
    """Sort messages by fragment, None being any; those without a fault if some have one."""
    order, stretches = sorted_by_fragment(rows, target, good)
    with_ids = target.has_duplicate_detection
    return {
        fragment: pack(
            rows,
            contents,
            None if order is None else pa.array(order[start:stop]),
            with_ids=with_ids,
        )
        for fragment, start, stop in stretches
    }


def sorted_by_fragment(rows: Rows, target: Target, good: Mask | None) -> Sorted:
    """Sort rows by fragment; those without a fault if some have one."""
    keys = _keys(rows, target)
    if not target.is_partitioned or keys is None:
        order = None if good is None else np.flatnonzero(good)
        count = rows.count if order is None else len(order)
        fragment = None if target.is_partitioned else 0
        return Sorted(order, [Stretch(fragment, 0, count)] if count else [])
    places = fragments_of(keys, target.fragment_count)
    if good is not None:
        places[~good] = target.fragment_count + 1
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(target.fragment_count + 2)).tolist()
    return Sorted(
        order,
        [
            Stretch(None if place == target.fragment_count else place, start, stop)
            for place, (start, stop) in enumerate(pairwise(ends))
            if start < stop
        ],
    )


def _keys(rows: Rows, target: Target) -> pa.Array | None:
    """Return what binds each row to a fragment, as `model.partitioning.key_of` says."""
    names = ["session_id", "partition_key"]
    if target.has_duplicate_detection:
        names.append("message_id")
    columns = [column for name in names if (column := rows.get(name)) is not None]
    return pc.coalesce(*columns) if columns else None


def pack(rows: Rows, contents: pa.Array, at: pa.Array | None, *, with_ids: bool) -> PackedMessages:
    """Pack some of the rows, or all; with their ids where duplicates are looked for."""

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
    ids = texts("message_id") if with_ids else None
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
