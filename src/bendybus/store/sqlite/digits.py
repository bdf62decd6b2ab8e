"""Numbers as digits, as queries/scanning.sql writes them, eight digits of all at a time."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bendybus.store.sql.scanner import Uneven

_SHORT: Final = 8
_LONG_BASE: Final = 10**15
_SHORT_BASE: Final = 10**7
# What is kept of a word, what it is multiplied by, and by how many bits it is shifted.
_JOINS: Final = tuple(
    (np.uint64(mask), np.uint64(factor), np.uint64(bits))
    for mask, factor, bits in (
        (0x0F0F0F0F0F0F0F0F, 10 << 8 | 1, 8),
        (0x00FF00FF00FF00FF, 100 << 16 | 1, 16),
        (0x0000FFFF0000FFFF, 10_000 << 32 | 1, 32),
    )
)


def long_numbers(digits: bytes | None, count: int) -> NDArray[np.int64]:
    """Read numbers of 16 digits, to which 10^15 was added."""
    halves = _eights(digits, count * 2)
    return halves[0::2] * 10**8 + halves[1::2] - _LONG_BASE


def short_numbers(digits: bytes | None, count: int) -> NDArray[np.int64]:
    """Read numbers of 8 digits, to which 10^7 was added."""
    return _eights(digits, count) - _SHORT_BASE


def _eights(digits: bytes | None, count: int) -> NDArray[np.int64]:
    """Read groups of eight digits: neighbours are joined to pairs, pairs to fours, fours to one."""
    if len(digits or b"") != count * _SHORT:
        raise Uneven
    value: NDArray[np.uint64] = np.frombuffer(digits or b"", np.dtype("<u8"))
    for mask, factor, bits in _JOINS:
        value = value & mask
        value *= factor
        value >>= bits
    return value.view(np.int64)
