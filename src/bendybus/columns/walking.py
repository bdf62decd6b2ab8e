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

    def of(self, rows: Numbers) -> "Field":
        """Leave out all but some messages."""
        return Field(self.codes[rows], self.starts[rows], self.ends[rows])


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
        return self._bytes.take(self.at + ahead if ahead else self.at, mode="clip")

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

    def move_to(self, places: Numbers) -> None:
        """Go on to a place ahead; who is beyond it falls out of step."""
        self.is_regular &= (self.at <= places) & (places <= self._ends)
        self.at = np.minimum(np.maximum(self.at, places), self._ends)

    def section(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Read how a section begins: its code, and the constructor of its value.

        Before them stand 0x00 and 0x53, which every stored section has.
        """
        return self.byte(2), self.byte(3)

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
        if is_there is None and len(codes) and (codes == codes[0]).all():
            starts, at = self._alike(int(codes[0]))
        else:
            starts, at, codes = self._unlike(codes, is_there)
        fits = at <= self._ends
        if not fits.all():
            self.is_regular &= fits
            starts, at = np.minimum(starts, self._ends), np.minimum(at, self._ends)
        self.at = at
        return Field(codes, starts, at)

    def _alike(self, code: int) -> tuple[Numbers, Numbers]:
        """Say where a field begins and ends that has the same constructor in all messages."""
        starts = self.at + int(_HEADS[code])
        if _IS_LONG[code]:
            return starts, starts + self.word(1)
        if _IS_SHORT[code]:
            return starts, starts + self.byte(1)
        return starts, starts + int(_WIDTHS[code])

    def _unlike(
        self, codes: NDArray[np.uint8], is_there: Flags | None
    ) -> tuple[Numbers, Numbers, NDArray[np.uint8]]:
        """Say where a field begins and ends, and what it is where it is."""
        heads, sizes = _HEADS[codes], _WIDTHS[codes] + _IS_SHORT[codes] * self.byte(1)
        is_long = _IS_LONG[codes]
        if is_long.any():
            sizes = np.where(is_long, self.word(1), sizes)
        if is_there is not None:
            heads, sizes = heads * is_there, sizes * is_there
            codes = np.where(is_there, codes, np.uint8(NULL))
        starts = self.at + heads
        return starts, starts + sizes, codes

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
