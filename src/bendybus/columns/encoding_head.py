"""The head of stored contents: header and annotations, in front of them their size.

As `content.stored_content` lays it out. Most messages have none, and one byte that says so.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bendybus.amqp.sections import SectionCode, encode_section
from bendybus.amqp.values import Uint
from bendybus.columns.pieces import (
    ONE_BYTE_MAX,
    STRING,
    SYMBOL,
    Pieces,
    Sizes,
    compound_head,
    lengths,
)
from bendybus.model.limits import TIME_TO_LIVE_FOREVER

_PARTITION_KEY: Final = SYMBOL(19) + b"x-opt-partition-key"
_SCHEDULED: Final = SYMBOL(28) + b"x-opt-scheduled-enqueue-time\x83"
_ANNOTATIONS: Final = b"\x00\x53\x72"
_TIMESTAMP_SIZE: Final = 8
_COUNT_BITS: Final = 2


def add_head(
    pieces: Pieces,
    times_to_live: pa.Array | None,
    partition_keys: pa.Array | None,
    schedule: pa.Array | None,
) -> None:
    """Add the head of every row; the schedule is in microseconds."""
    head = Pieces(pieces.rows)
    if times_to_live is not None:
        _add_headers(head, times_to_live)
    if partition_keys is not None or schedule is not None:
        _add_annotations(head, partition_keys, schedule)
    pieces.add_sized(head.sizes, _size_of_head)
    pieces.add_all(head)


def _size_of_head(size: int) -> bytes:
    return bytes((size,)) if size < ONE_BYTE_MAX else b"\xff" + size.to_bytes(4, "big")


def _add_headers(head: Pieces, times_to_live: pa.Array) -> None:
    coded = times_to_live.dictionary_encode("encode")
    table = [_header(each) for each in coded.dictionary.to_pylist()]
    headers = pa.array(table, pa.binary()).take(coded.indices)
    head.add_column(headers, lengths(headers))


def _header(time_to_live: int | None) -> bytes:
    """Return the header with a time to live; it has room for 49 days."""
    if time_to_live is None:
        return b""
    shown = Uint(min(max(time_to_live, 0), TIME_TO_LIVE_FOREVER - 1))
    return encode_section(SectionCode.HEADER, [None, None, shown])


def _add_annotations(
    head: Pieces, partition_keys: pa.Array | None, schedule: pa.Array | None
) -> None:
    entries = Pieces(head.rows)
    counts: Sizes = np.zeros(head.rows, np.int64)
    if partition_keys is not None:
        keys = partition_keys.cast(pa.binary())
        is_there = np.asarray(pc.is_valid(keys))
        counts += is_there
        sizes = lengths(keys)
        entries.add_sized(
            np.where(is_there, sizes + 1, 0),
            lambda size: _PARTITION_KEY + STRING(size - 1) if size else b"",
        )
        entries.add_column(pc.fill_null(keys, b""), sizes)
    if schedule is not None:
        is_there = np.asarray(pc.is_valid(schedule))
        counts += is_there
        entries.add_sized(is_there.astype(np.int64), lambda there: _SCHEDULED if there else b"")
        entries.add_column(_timestamps(schedule, is_there), is_there * _TIMESTAMP_SIZE)
    head.add_sized(entries.sizes << _COUNT_BITS | counts, _head_of_annotations)
    head.add_all(entries)


def _head_of_annotations(size_and_count: int) -> bytes:
    count = size_and_count & (1 << _COUNT_BITS) - 1
    if not count:
        return b""
    return compound_head(_ANNOTATIONS, 0xC1, 0xD1, 2 * count)(size_and_count >> _COUNT_BITS)


def _timestamps(
    schedule: pa.Array, is_there: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> pa.Array:
    """Return milliseconds as AMQP writes them; nothing where there is none."""
    milliseconds = schedule.drop_null().to_numpy() // 1000
    ends = np.zeros(len(schedule) + 1, np.int32)
    np.cumsum(is_there * _TIMESTAMP_SIZE, out=ends[1:])
    written = milliseconds.astype(">i8").tobytes()
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(written)]
    return pa.Array.from_buffers(pa.binary(), len(schedule), buffers)
