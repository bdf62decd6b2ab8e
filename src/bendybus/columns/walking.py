"""Walks through many contents side by side, field by field (AMQP 1.0 §1.6, §3.2).

Every array here has one item per message. A step reads the constructor of one field of all
messages and moves on to the next. Messages of another shape than the common ones fall out of step:
their flag in `is_regular` is taken away, and they are read one by one instead.

The first byte of a value tells how it goes on: as many bytes as its upper half says, or a size of
one or four bytes and as many as that.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

NULL: Final = 0x40
_FIXED: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
_UNKNOWN_WIDTH: Final = 1 << 40
_LOOK_MAX: Final = 16


def _tables() -> tuple[Numbers, Numbers, Numbers, Flags]:
    """Say how values go on after each constructor.

    How many bytes it has together with its size, how many follow in any case, whether a size of one
    byte says how many more, and whether one of four bytes does.
    """
    heads = np.ones(256, np.int64)
    fixed = np.full(256, _UNKNOWN_WIDTH)
    is_short, is_long = np.zeros(256, np.int64), np.zeros(256, bool)
    for code in range(256):
        kind = code >> 4
        if kind in _FIXED:
            fixed[code] = _FIXED[kind]
        elif kind in (0xA, 0xC, 0xE):
            heads[code], fixed[code], is_short[code] = 2, 0, 1
        elif kind in (0xB, 0xD, 0xF):
            heads[code], fixed[code], is_long[code] = 5, 0, True
    return heads, fixed, is_short, is_long


_HEADS, _WIDTHS, _IS_SHORT, _IS_LONG = _tables()


class Field:
    """One field of all messages: its constructor, and where its bytes begin and end."""

    __slots__ = ("codes", "ends", "starts")

    def __init__(self, codes: NDArray[np.uint8], starts: Numbers, ends: Numbers) -> None:
        self.codes = codes
        self.starts = starts
        self.ends = ends


class Walk:
    """A place in each of many messages, which moves on from field to field."""

    def __init__(self, joined: bytes, starts: Numbers, ends: Numbers) -> None:
        # There is always something to look at, and it is not used.
        self._bytes = np.frombuffer(
            joined if len(joined) > _LOOK_MAX else joined + bytes(_LOOK_MAX), np.uint8
        )
        self._words = self._overlapping(">u4")
        self._ends = ends
        self.at = starts
        self.is_regular = np.ones(len(starts), bool)

    def expect(self, condition: Flags) -> None:
        """Let those fall out of step for which something is not so."""
        self.is_regular &= condition

    def byte(self, ahead: int = 0) -> NDArray[np.uint8]:
        """Read a byte at the place, or so far ahead of it."""
        return self._bytes[np.minimum(self.at + ahead, len(self._bytes) - 1)]

    def word(self, ahead: int = 0) -> Numbers:
        """Read four bytes as a number."""
        return self.word_at(self.at + ahead)

    def word_at(self, places: Numbers) -> Numbers:
        """Read four bytes as a number, from anywhere."""
        return self._words[np.minimum(places, len(self._words) - 1)].astype(np.int64)

    def numbers_at(self, places: Numbers, kind: str) -> NDArray[np.generic]:
        """Read numbers of a type such as ">i8", from places where there are such."""
        return self._overlapping(kind)[places]

    def move(self, steps: Numbers) -> None:
        """Go on; who would leave the message falls out of step."""
        at = self.at + steps
        self.is_regular &= at <= self._ends
        self.at = np.minimum(at, self._ends)

    def skip_null(self, is_there: Flags | None) -> bool:
        """Pass a field if all have null there; say whether that was so."""
        is_null = self.byte() == NULL
        if is_there is None:
            if not is_null.all():
                return False
            self.move(np.ones(1, np.int64))
            return True
        if not (is_null | ~is_there).all():
            return False
        self.move(is_there.astype(np.int64))
        return True

    def field(self, is_there: Flags | None = None) -> Field:
        """Pass the next value, of those that have it, without looking inside it."""
        codes = self.byte()
        sizes = _WIDTHS[codes] + _IS_SHORT[codes] * self.byte(1)
        is_long = _IS_LONG[codes]
        if is_long.any():
            sizes = np.where(is_long, self.word(1), sizes)
        heads = _HEADS[codes]
        if is_there is not None:
            heads, sizes = heads * is_there, sizes * is_there
            codes = np.where(is_there, codes, np.uint8(NULL))
        self.move(heads)
        starts = self.at
        self.move(sizes)
        return Field(codes, starts, self.at)

    @property
    def is_at_end(self) -> Flags:
        """Who has arrived at the end of the message."""
        is_at_end: Flags = self.at == self._ends
        return is_at_end

    def _overlapping(self, kind: str) -> NDArray[np.generic]:
        """Show the numbers that begin at every byte."""
        dtype = np.dtype(kind)
        count = max(len(self._bytes) - dtype.itemsize + 1, 0)
        return np.ndarray((count,), dtype, self._bytes, strides=(1,))
