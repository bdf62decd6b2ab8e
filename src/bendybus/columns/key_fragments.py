"""Which fragments keys belong to, many at once: `model.partitioning.fragment_for` by columns.

Short keys are gone through side by side, byte after byte; where one is long, each that differs is
looked at once.
"""

from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bendybus.columns.pieces import lengths
from bendybus.model.partitioning import fragment_for

_SHORT_MAX: Final = 24
_ALL_SET: Final = np.uint32(0xFFFFFFFF)
_BYTE: Final = np.uint32(0xFF)
_BITS: Final = np.uint32(8)
# What one byte adds to a CRC-32. Its register begins and ends turned over, which is undone here.
_TABLE: Final = np.array(
    [crc32(bytes((byte ^ 0xFF,))) ^ 0xFF000000 for byte in range(256)], np.uint32
)

Places = NDArray[np.int16]


def fragments_of(keys: pa.Array, fragment_count: int) -> Places:
    """Return the fragment of every key; of a row without one, the number behind the last."""
    sizes = lengths(keys)
    if sizes.max(initial=0) <= _SHORT_MAX:
        places = _checksums(keys, sizes) % np.uint32(fragment_count)
        if keys.null_count:
            places[np.asarray(pc.is_null(keys))] = fragment_count
        return places.astype(np.int16)
    coded = keys.dictionary_encode()
    fragments = [fragment_for(key, fragment_count) for key in coded.dictionary.to_pylist()]
    table = np.array([*fragments, fragment_count], np.int16)
    codes = pc.fill_null(coded.indices, len(fragments)).to_numpy(zero_copy_only=False)
    found: Places = table[codes]
    return found


def _checksums(keys: pa.Array, sizes: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the CRC-32 of every key."""
    _, offsets, contents = keys.buffers()
    starts = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys)]
    together = np.frombuffer(contents or b"", np.uint8)
    register = np.full(len(keys), _ALL_SET, np.uint32)
    for place in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > place)
        if len(rows) == len(sizes):
            byte = together[starts + place]
            register = _TABLE[(register ^ byte) & _BYTE] ^ (register >> _BITS)
        else:
            byte, before = together[starts[rows] + place], register[rows]
            register[rows] = _TABLE[(before ^ byte) & _BYTE] ^ (before >> _BITS)
    return register ^ _ALL_SET
