"""Contents put together from pieces, for all rows of a batch at once.

A content is one piece behind the other: bytes that every row has alike, or a column with its own
for each row. How long each row has become is kept beside, because what AMQP writes in front of a
list or a text is its size. Arrow joins the pieces in C, without an object for a row.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Sizes = np.ndarray[tuple[int], np.dtype[np.int64]]

NULL: Final = b"\x40"
ONE_BYTE_MAX: Final = 255
# What all sizes up to here are, is found by counting; beyond it by sorting.
_COUNTED_SIZE_MAX: Final = 1 << 16


class Pieces:
    """Pieces that follow each other, and how long they are together in every row."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.sizes: Sizes = np.zeros(rows, np.int64)
        self._pieces: list[bytes | pa.Array] = []

    def add(self, piece: bytes) -> None:
        """Add what every row has alike."""
        self.sizes += len(piece)
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, bytes):
            self._pieces[-1] = last + piece
        else:
            self._pieces.append(piece)

    def add_column(self, column: pa.Array, sizes: Sizes) -> None:
        """Add what each row has for itself: binary, none null, of these sizes."""
        self.sizes += sizes
        self._pieces.append(column)

    def add_all(self, others: "Pieces") -> None:
        """Add pieces that were put together apart."""
        for piece in others._pieces:  # noqa: SLF001 - of its own kind
            if isinstance(piece, bytes):
                self.add(piece)
            else:
                self._pieces.append(piece)
        self.sizes = self.sizes + others.sizes - sum(map(len, others.constants()))

    def constants(self) -> list[bytes]:
        """Return the pieces that every row has alike."""
        return [piece for piece in self._pieces if isinstance(piece, bytes)]

    def add_sized(self, sizes: Sizes, head: Callable[[int], bytes]) -> None:
        """Add what is written in front of something of a size, by that size."""
        column = by_size(sizes, head)
        if isinstance(column, bytes):
            self.add(column)
        else:
            self.add_column(column, lengths(column))

    def add_values(self, values: pa.Array, head: Callable[[int], bytes]) -> None:
        """Add texts or binaries, each behind its head; null where there is none."""
        if values.null_count == self.rows:
            self.add(NULL)
            return
        sizes = lengths(values)
        if values.null_count:
            missing = np.asarray(pc.is_null(values))
            heads = by_size(
                np.where(missing, 0, sizes + 1), lambda size: head(size - 1) if size else NULL
            )
            values = pc.fill_null(values, b"")
        else:
            heads = by_size(sizes, head)
        if isinstance(heads, bytes):
            self.add(heads)
        else:
            self.add_column(heads, lengths(heads))
        self.add_column(values, sizes)

    def joined(self) -> pa.Array:
        """Return the whole of every row, as one column."""
        pieces = [
            pa.scalar(piece, pa.binary()) if isinstance(piece, bytes) else piece
            for piece in self._pieces
        ]
        if all(isinstance(piece, bytes) for piece in self._pieces):
            return pa.repeat(pa.scalar(b"".join(self.constants()), pa.binary()), self.rows)
        return pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.binary()))


def lengths(column: pa.Array) -> Sizes:
    """Return how long each value of a binary column is; null is 0."""
    found = pc.binary_length(column)
    if found.null_count:
        found = pc.fill_null(found, 0)
    sizes: Sizes = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def by_size(sizes: Sizes, head: Callable[[int], bytes]) -> bytes | pa.Array:
    """Return of each row what its size calls for; bytes alone if that is the same for all."""
    largest = int(sizes.max(initial=0))
    if largest <= _COUNTED_SIZE_MAX:
        found = np.flatnonzero(np.bincount(sizes, minlength=1))
        places = np.zeros(largest + 1, np.int32)
        places[found] = np.arange(len(found), dtype=np.int32)
        indexes = pa.array(places[sizes])
    else:
        found, inverse = np.unique(sizes, return_inverse=True)
        indexes = pa.array(inverse)
    heads = [head(int(size)) for size in found]
    if len(set(heads)) == 1:
        return heads[0]
    return pa.array(heads, pa.binary()).take(indexes)


def variable_head(narrow: int, wide: int) -> Callable[[int], bytes]:
    """Say how a text or binary of some size begins."""

    def head(size: int) -> bytes:
        if size <= ONE_BYTE_MAX:
            return bytes((narrow, size))
        return bytes((wide,)) + size.to_bytes(4, "big")

    return head


def compound_head(start: bytes, narrow: int, wide: int, count: int) -> Callable[[int], bytes]:
    """Say how a list or map with so many items, and items of some size, begins."""

    def head(size: int) -> bytes:
        # The size counts the count, too: one byte or four.
        if size < ONE_BYTE_MAX and count <= ONE_BYTE_MAX:
            return start + bytes((narrow, size + 1, count))
        return start + bytes((wide,)) + (size + 4).to_bytes(4, "big") + count.to_bytes(4, "big")

    return head


STRING: Final = variable_head(0xA1, 0xB1)
BINARY: Final = variable_head(0xA0, 0xB0)
SYMBOL: Final = variable_head(0xA3, 0xB3)
