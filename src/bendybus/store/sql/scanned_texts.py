"""Texts of scanned messages: where they are, and what the different ones among them say.

Texts beside messages repeat, and what is done in Python is done once for each different one.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bendybus.model.message import Marks
from bendybus.model.scanned import Slices
from bendybus.store.checksum import encoded_fields
from bendybus.store.checksums import seeds_with_fields
from bendybus.store.marks import marks_from_text
from bendybus.store.sql.scanner import Uneven


def slices_of(lengths: NDArray[np.int64], joined: bytes) -> Slices:
    """Cut what a statement joined, by the lengths that it gave: 0 for none, and 1 more than each.

    Raises `Uneven` if they do not fit.
    """
    lengths = lengths - 1
    is_none = lengths < 0
    lengths[is_none] = 0
    ends = np.cumsum(lengths)
    if len(ends) and ends[-1] != len(joined):
        raise Uneven
    starts = ends - lengths
    if is_none.any():
        starts[is_none] = ends[is_none] = -1
    return Slices(joined, starts.data, ends.data)


def marks_of(slices: Slices) -> list[Marks | None]:
    """Decode marks. Raises `MarksDamaged` if any are, or `UnicodeDecodeError`."""
    texts, which = _different(slices)
    marks = [None if text is None else marks_from_text(text) for text in texts]
    return [marks[at] for at in which.tolist()]


def seeds_with_keys(
    seeds: NDArray[np.uint32], sessions: Slices, keys: Slices
) -> NDArray[np.uint32]:
    """Let the seeds of those that have a session or a key cover it."""
    session_texts, session_which = _different(sessions)
    key_texts, key_which = _different(keys)
    pairs = session_which * len(key_texts) + key_which
    if len(key_texts) == 1 or len(session_texts) == 1:
        # Only one of the two is ever said: the pairs are as different as those texts.
        different, which = np.arange(len(session_texts) * len(key_texts)), pairs
    else:
        different, which = np.unique(pairs, return_inverse=True)
    fields = [
        (session_texts[pair // len(key_texts)], key_texts[pair % len(key_texts)])
        for pair in different.tolist()
    ]
    is_covered = np.array([field != (None, None) for field in fields])
    encoded = [encoded_fields(*field) for field in fields]
    return seeds_with_fields(seeds, encoded, np.where(is_covered[which], which, -1))


def _different(slices: Slices) -> tuple[list[str | None], NDArray[np.int64]]:
    """Return the different texts, None the first of them, and of each message which one it has."""
    starts, ends = np.asarray(slices.starts), np.asarray(slices.ends)
    if (starts < 0).all():
        return [None], np.zeros(len(starts), np.int64)
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = np.maximum.accumulate(np.maximum(ends, 0))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(slices.joined)]
    encoded = pa.Array.from_buffers(pa.binary(), len(ends), buffers).dictionary_encode()
    texts = [str(text, "utf-8") for text in encoded.dictionary.to_pylist()]
    which = np.where(starts >= 0, encoded.indices.to_numpy().astype(np.int64) + 1, 0)
    return [None, *texts], which
