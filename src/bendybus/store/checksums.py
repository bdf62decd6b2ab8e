"""Checks the checksums of many contents in one go, as one chain.

A CRC that starts from another value is the same as one whose first four bytes were changed. So
where one content ends, with the register at `RESIDUE` if it is intact, the first bytes of the next
are changed by what turns that into its own seed. Then one CRC over all of them, in C and without
the interpreter, ends at `RESIDUE` if all are intact. What it misses, the CRC of a single content
would miss as well: one change in 2^32.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from zlib_ng.zlib_ng import crc32

from bendybus.store.checksum import CHECKSUM_SIZE, RESIDUE

_HALF_BITS: Final = np.uint64(32)


def seeds_of(rows: NDArray[np.int64], enqueued_at: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Make the seeds of contents, from the rows they were stored in and when."""
    both = (rows ^ enqueued_at).view(np.uint64)
    return (both ^ both >> _HALF_BITS).astype(np.uint32)


def are_intact(joined: bytes, starts: NDArray[np.int64], seeds: NDArray[np.uint32]) -> bool:
    """Say whether all contents, one behind the other, each with its checksum, are as sealed."""
    if not len(starts):
        return not joined
    sizes = np.diff(starts, append=len(joined))
    if starts[0] != 0 or sizes.min() < CHECKSUM_SIZE:
        return False
    if len(starts) == 1:
        return crc32(joined, int(seeds[0])) == RESIDUE
    chain = np.frombuffer(joined, np.uint8).copy()
    # Every four bytes, wherever they begin.
    words: NDArray[np.uint32] = np.ndarray(
        (len(chain) - CHECKSUM_SIZE + 1,), np.dtype("<u4"), chain, strides=(1,)
    )
    words[starts[1:]] ^= seeds[1:] ^ np.uint32(RESIDUE)
    return crc32(chain.data, int(seeds[0])) == RESIDUE


def seeds_with_fields(
    seeds: NDArray[np.uint32], fields: Sequence[bytes], which: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Let checksums cover fields too: those of `fields` that `which` names, -1 for none.

    What a CRC adds to its seed does not depend on the bytes, and what the bytes add not on the
    seed: so each different text is looked at once, however many contents stand beside it.
    """
    lengths, kinds = np.unique([len(each) for each in fields], return_inverse=True)
    tables = np.stack([_passed_over(int(length)) for length in lengths])
    is_covered = which >= 0
    kind = kinds[which]
    moved = np.array([crc32(each) for each in fields], np.uint32)[which]
    for place in range(4):
        moved ^= tables[kind, place, seeds >> np.uint32(8 * place) & np.uint32(0xFF)]
    return np.where(is_covered, moved, seeds)


@lru_cache(maxsize=256)
def _passed_over(length: int) -> NDArray[np.uint32]:
    """Return what becomes of each byte of a seed when so many bytes were passed over."""
    zeros = bytes(length)
    nothing = crc32(zeros)
    return np.array(
        [
            [crc32(zeros, value << 8 * place) ^ nothing for value in range(256)]
            for place in range(4)
        ],
        np.uint32,
    )
