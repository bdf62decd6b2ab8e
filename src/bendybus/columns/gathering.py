"""From buffers and places in them to Arrow columns, copying in C."""

from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_TEXT: Final = pa.string()
_BYTES: Final = pa.binary()


def bitmap(is_valid: Flags | None) -> pa.Buffer | None:
    """Return flags as Arrow keeps them; None if all are set."""
    if is_valid is None or is_valid.all():
        return None
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))


def primitive(
    values: NDArray[np.generic], kind: pa.DataType, is_valid: Flags | None = None
) -> pa.Array:
    """Make a column of numbers, which must have the width of their type."""
    return pa.Array.from_buffers(kind, len(values), [bitmap(is_valid), pa.py_buffer(values)])


def gather(
    joined: pa.Buffer, starts: Numbers, ends: Numbers, is_valid: Flags | None = None
) -> pa.Array:
    """Copy slices of a buffer one behind the other; they must stand in order.

    Arrow has no kernel for it, but one that takes some values of a column: so the slices and the
    gaps between them are made a column, which costs no copy, and every second value is taken.
    """
    count = len(starts)
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = ends
    buffers = [None, pa.py_buffer(bounds), joined]
    slices_and_gaps = pa.Array.from_buffers(_BYTES, max(2 * count - 1, 0), buffers)
    return slices_and_gaps.take(
        primitive(np.arange(0, 2 * count, 2, dtype=np.int32), pa.int32(), is_valid)
    )


def as_text(column: pa.Array) -> pa.Array:
    """Make bytes a text; what is not UTF-8 in it becomes replacement characters."""
    try:
        return column.cast(_TEXT)
    except pa.ArrowInvalid:
        texts = [
            None if value is None else value.decode("utf-8", "replace")
            for value in column.to_pylist()
        ]
        return pa.array(texts, _TEXT)


# Pieces have the same length, nearly all of them, and columns cannot be changed.
@lru_cache(maxsize=64)
def repeated(text: str, count: int) -> pa.Array:
    """Make a column that says the same everywhere."""
    return pa.repeat(pa.scalar(text, _TEXT), count)


@lru_cache(maxsize=64)
def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Make a column that says nothing."""
    return pa.nulls(count, kind)


def mended(column: pa.Array, places: Numbers, patches: pa.Array) -> pa.Array:
    """Put other values in some places of a column."""
    order = np.arange(len(column))
    order[places] = len(column) + np.arange(len(places))
    return pa.concat_arrays([column, patches]).take(pa.array(order))
