"""Application properties of very many messages as one column of maps."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bendybus.columns.arrow_types import PROPERTIES
from bendybus.columns.gathering import Flags, Numbers, as_text, gather, primitive, repeated
from bendybus.columns.property_texts import FIRST_DATE, LAST_DATE, time_text
from bendybus.columns.regular_contents import TEXTS, Properties
from bendybus.columns.walking import Walk

_NAMES_IN_BITS: Final = 64
_UUID_BYTES: Final = 16
_HEX: Final = (
    np.array([b"%02x" % value for value in range(256)], "S2").view(np.uint8).reshape(256, 2)
)
# Where the digits of a UUID stand in its text, and where the dashes do.
_UUID_DIGITS: Final = np.array([at for at in range(36) if at not in (8, 13, 18, 23)])

_TYPE_NAMES: Final[dict[str, tuple[int, ...]]] = {
    "null": (0x40,),
    "boolean": (0x41, 0x42, 0x56),
    "ubyte": (0x50,),
    "ushort": (0x60,),
    "uint": (0x43, 0x52, 0x70),
    "ulong": (0x44, 0x53, 0x80),
    "byte": (0x51,),
    "short": (0x61,),
    "int": (0x54, 0x71),
    "long": (0x55, 0x81),
    "double": (0x82,),
    "timestamp": (0x83,),
    "uuid": (0x98,),
    "string": (0xA1, 0xB1),
    "symbol": (0xA3, 0xB3),
}
_NAME_OF: Final = {code: name for name, codes in _TYPE_NAMES.items() for code in codes}
_NAMES: Final = pa.array([_NAME_OF.get(code) for code in range(256)], pa.string())
# How the numbers behind a constructor are kept.
_NUMBERS: Final = {
    0x50: ">u1",
    0x51: ">i1",
    0x52: ">u1",
    0x53: ">u1",
    0x54: ">i1",
    0x55: ">i1",
    0x60: ">u2",
    0x61: ">i2",
    0x70: ">u4",
    0x71: ">i4",
    0x80: ">u8",
    0x81: ">i8",
}
_CONSTANTS: Final = {0x41: "true", 0x42: "false", 0x43: "0", 0x44: "0"}


def property_column(found: Properties, walk: Walk, joined: pa.Buffer) -> tuple[pa.Array, Flags]:
    """Return the maps, and which messages have the same name twice: those are not to be used."""
    names, values = found.names, found.values
    names_column = as_text(gather(joined, names.starts, names.ends))
    types = _NAMES.take(pa.array(values.codes))
    texts = _texts(found, walk, joined)
    entries = pa.StructArray.from_arrays([types, texts], names=["type", "value"])
    pairs = pa.StructArray.from_arrays(
        [names_column, entries], fields=[PROPERTIES.key_field, PROPERTIES.item_field]
    )
    offsets = np.zeros(len(found.counts) + 1, np.int32)
    np.cumsum(found.counts, out=offsets[1:])
    column = pa.Array.from_buffers(
        PROPERTIES, len(found.counts), [None, pa.py_buffer(offsets)], children=[pairs]
    )
    return column, _has_twins(names_column, found.counts)


@lru_cache(maxsize=16)
def no_properties(count: int) -> pa.Array:
    """Return empty maps."""
    return pa.array([{}], PROPERTIES).take(pa.array(np.zeros(count, np.int8)))


def _has_twins(names: pa.Array, counts: Numbers) -> Flags:
    """Say who has a name twice."""
    encoded = names.dictionary_encode()
    kinds = encoded.indices.to_numpy()
    twins = np.zeros(len(counts), bool)
    if _are_alike(kinds, counts, len(encoded.dictionary)):
        return twins
    rows = np.repeat(np.arange(len(counts)), counts)
    if len(encoded.dictionary) <= _NAMES_IN_BITS:
        # As many different names as there are, if no bit is set twice.
        bits = np.left_shift(np.uint64(1), kinds.astype(np.uint64))
        has_some = counts > 0
        starts = (np.cumsum(counts) - counts)[has_some]
        different = np.bitwise_count(np.bitwise_or.reduceat(bits, starts))
        twins[has_some] = different != counts[has_some]
        return twins
    keys = np.sort(rows * len(encoded.dictionary) + kinds)
    twins[keys[1:][keys[1:] == keys[:-1]] // len(encoded.dictionary)] = True
    return twins


def _are_alike(kinds: NDArray[np.int32], counts: Numbers, different: int) -> bool:
    """Say whether all messages have the same names in the same order, as they mostly do."""
    if different * len(counts) != len(kinds) or (counts != different).any():
        return False
    table = kinds.reshape(-1, different)
    return bool((table == np.arange(different)).all())


def _texts(found: Properties, walk: Walk, joined: pa.Buffer) -> pa.Array:
    """Return the texts of all values."""
    codes, starts = found.values.codes, found.values.starts
    is_text = TEXTS[codes]
    texts = as_text(gather(joined, starts, found.values.ends, is_text))
    if is_text.all():
        return texts
    order = np.arange(len(codes))
    pieces, length = [texts], len(codes)
    for code in np.unique(codes[~is_text]).tolist():
        here = np.nonzero(codes == code)[0]
        piece = _texts_of(code, walk, starts[here])
        if piece is None:
            continue
        pieces.append(piece)
        order[here] = length + np.arange(len(here))
        length += len(here)
    return pa.concat_arrays(pieces).take(pa.array(order))


def _texts_of(code: int, walk: Walk, starts: Numbers) -> pa.Array | None:
    """Return the texts of values of one kind; None for null."""
    if code in _CONSTANTS:
        return repeated(_CONSTANTS[code], len(starts))
    if code in _NUMBERS:
        return _number_texts(walk.numbers_at(starts, _NUMBERS[code]))
    write = _WRITERS.get(code)
    return None if write is None else write(walk, starts)


def _number_texts(numbers: NDArray[Any]) -> pa.Array:
    native = numbers.astype(numbers.dtype.newbyteorder("="))
    return primitive(native, pa.from_numpy_dtype(native.dtype)).cast(pa.string())


def _boolean_texts(walk: Walk, starts: Numbers) -> pa.Array:
    is_true = walk.numbers_at(starts, ">u1") == 1
    return pa.array(["false", "true"]).take(pa.array(is_true.astype(np.int8)))


def _double_texts(walk: Walk, starts: Numbers) -> pa.Array:
    return pa.array([repr(each) for each in walk.numbers_at(starts, ">f8").tolist()], pa.string())


def _time_texts(walk: Walk, starts: Numbers) -> pa.Array:
    moments: NDArray[Any] = walk.numbers_at(starts, ">i8").astype(np.int64)
    if moments.min() < FIRST_DATE or moments.max() > LAST_DATE:
        return pa.array([time_text(each) for each in moments.tolist()], pa.string())
    texts = np.datetime_as_string(moments.astype("M8[ms]"), timezone="UTC")
    return pa.array(texts.tolist(), pa.string())


def _uuid_texts(walk: Walk, starts: Numbers) -> pa.Array:
    raw = walk.numbers_at(starts, "V16").view(np.uint8).reshape(-1, _UUID_BYTES)
    texts = np.full((len(raw), 36), ord("-"), np.uint8)
    texts[:, _UUID_DIGITS] = _HEX[raw].reshape(len(raw), 2 * _UUID_BYTES)
    offsets = np.arange(0, 36 * len(raw) + 1, 36, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.string(), len(raw), buffers)


_WRITERS: Final[dict[int, Callable[[Walk, Numbers], pa.Array]]] = {
    0x56: _boolean_texts,
    0x82: _double_texts,
    0x83: _time_texts,
    0x98: _uuid_texts,
}
