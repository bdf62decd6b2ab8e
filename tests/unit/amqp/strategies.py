"""Hypothesis strategies for AMQP values, and an encoder that uses every legal encoding.

The wild encoder is written from part 1 of the standard and shares nothing with the encoder under
test, so that the decoder is not merely checked against our own habits.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from math import isnan
from typing import Any

from hypothesis import strategies as st

from bendybus.amqp.values import (
    AmqpArray,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)

Draw = Callable[[st.SearchStrategy[Any]], Any]
NULL = type(None)


def _integers(kind: type[int], low: int, high: int) -> st.SearchStrategy[int]:
    edges = [edge for edge in (-129, -128, -1, 0, 127, 128, 255, 256) if low <= edge <= high]
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, *edges])).map(kind)


SCALARS: dict[type, st.SearchStrategy[Any]] = {
    NULL: st.none(),
    bool: st.booleans(),
    Ubyte: _integers(Ubyte, 0, 2**8 - 1),
    Ushort: _integers(Ushort, 0, 2**16 - 1),
    Uint: _integers(Uint, 0, 2**32 - 1),
    Ulong: _integers(Ulong, 0, 2**64 - 1),
    Byte: _integers(Byte, -(2**7), 2**7 - 1),
    Short: _integers(Short, -(2**15), 2**15 - 1),
    Int: _integers(Int, -(2**31), 2**31 - 1),
    Long: _integers(Long, -(2**63), 2**63 - 1),
    Timestamp: _integers(Timestamp, -(2**63), 2**63 - 1),
    Float: st.floats(width=32).map(Float),
    float: st.floats(),
    Char: st.characters(exclude_categories=["Cs"]).map(Char),
    Decimal32: st.binary(min_size=4, max_size=4).map(Decimal32),
    Decimal64: st.binary(min_size=8, max_size=8).map(Decimal64),
    Decimal128: st.binary(min_size=16, max_size=16).map(Decimal128),
    uuid.UUID: st.uuids(),
    bytes: st.one_of(st.binary(max_size=20), st.binary(min_size=250, max_size=300)),
    str: st.one_of(st.text(max_size=20), st.text(min_size=240, max_size=270)),
    Symbol: st.text(st.characters(max_codepoint=127), max_size=20).map(Symbol),
}

ANY_SCALAR = st.one_of(*SCALARS.values())
HASHABLE_KEYS = st.one_of(
    SCALARS[str], SCALARS[Symbol], SCALARS[Int], SCALARS[uuid.UUID], SCALARS[bytes]
)


def _arrays(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    descriptors = st.lists(SCALARS[Symbol], max_size=2).map(tuple)

    def of(kind: type, items: st.SearchStrategy[Any]) -> st.SearchStrategy[AmqpArray]:
        many = st.lists(items, max_size=5).map(tuple)
        return st.builds(AmqpArray, st.just(kind), many, descriptors)

    scalars = [of(kind, items) for kind, items in SCALARS.items()]
    lists = of(list, st.lists(children, max_size=3))
    maps = of(dict, st.dictionaries(HASHABLE_KEYS, children, max_size=2))
    return st.one_of(*scalars, lists, maps, of(AmqpArray, st.one_of(*scalars)))


ANY_VALUE = st.recursive(
    ANY_SCALAR,
    lambda children: st.one_of(
        st.lists(children, max_size=5),
        st.dictionaries(HASHABLE_KEYS, children, max_size=4),
        st.builds(Described, st.one_of(SCALARS[Symbol], SCALARS[Ulong]), children),
        _arrays(children),
    ),
    max_leaves=20,
)


def same(left: Any, right: Any) -> bool:  # noqa: PLR0911  one return per kind of value
    """Tell whether two values are equal in value and in AMQP type, all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return struct.pack(">d", left) == struct.pack(">d", right) or (isnan(left) and isnan(right))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=False)
        return len(left) == len(right) and all(same(a, b) for a, b in pairs)
    if isinstance(left, Described):
        return same(left.descriptor, right.descriptor) and same(left.value, right.value)
    if isinstance(left, AmqpArray):
        parts = ((a.item_type, list(a.items), list(a.descriptors)) for a in (left, right))
        first, second = parts
        return first[0] is second[0] and same(first[1], second[1]) and same(first[2], second[2])
    return bool(left == right)


# The wild encoder: constructor codes that may carry a value, and the data after the code.

_WIDE = {
    Ubyte: (0x50, "B"),
    Ushort: (0x60, "H"),
    Uint: (0x70, "I"),
    Ulong: (0x80, "Q"),
    Byte: (0x51, "b"),
    Short: (0x61, "h"),
    Int: (0x71, "i"),
    Long: (0x81, "q"),
    Timestamp: (0x83, "q"),
    Float: (0x72, "f"),
    float: (0x82, "d"),
}
_SMALL: dict[type, tuple[int, str, int, int]] = {
    Uint: (0x52, "B", 0, 255),
    Ulong: (0x53, "B", 0, 255),
    Int: (0x54, "b", -128, 127),
    Long: (0x55, "b", -128, 127),
}
_ZERO = {Uint: 0x43, Ulong: 0x44}
_RAW: dict[type, int] = {Decimal32: 0x74, Decimal64: 0x84, Decimal128: 0x94}
_SIZED = {bytes: 0xA0, str: 0xA1, Symbol: 0xA3}
_COMPOUND = {list: 0xC0, dict: 0xC1, AmqpArray: 0xE0}


def codes_for(kind: type, values: tuple[Any, ...]) -> list[int]:
    """Return every code that can carry all these values of one type."""
    if kind is NULL:
        return [0x40]
    if kind is bool:
        constants = [0x41] if all(values) else [0x42] if not any(values) else []
        return [0x56, *constants]
    if kind in _WIDE:
        codes = [_WIDE[kind][0]]
        if kind in _SMALL:
            code, _, low, high = _SMALL[kind]
            codes += [code] if all(low <= value <= high for value in values) else []
        if kind in _ZERO and not any(values):
            codes.append(_ZERO[kind])
        return codes
    if kind in _SIZED:
        is_short = all(len(_bytes_of(value)) < 256 for value in values)
        return [_SIZED[kind] + 0x10] + ([_SIZED[kind]] if is_short else [])
    if kind in _COMPOUND:
        empty = [0x45] if kind is list and not any(values) else []
        return [_COMPOUND[kind] + 0x10, _COMPOUND[kind], *empty]
    return [_RAW.get(kind, 0x73 if kind is Char else 0x98)]


def _bytes_of(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def data_for(draw: Draw, code: int, value: Any) -> bytes | None:  # noqa: PLR0911  likewise
    """Return what follows the code, or None if the value does not fit this code after all."""
    kind = type(value)
    if code in (0x40, 0x41, 0x42, 0x43, 0x44, 0x45):
        return b""
    if kind is bool:
        return bytes([value])
    if kind in _WIDE:
        letter = _WIDE[kind][1] if code == _WIDE[kind][0] else _SMALL[kind][1]
        return struct.pack(">" + letter, value)
    if kind in _SIZED:
        data = _bytes_of(value)
        return struct.pack(">B" if code < 0xB0 else ">I", len(data)) + data
    if kind in _COMPOUND:
        return _compound_data(draw, code, value)
    if kind is Char:
        return struct.pack(">I", ord(value))
    return value.bytes if kind is uuid.UUID else bytes(value)


def _compound_data(draw: Draw, code: int, value: Any) -> bytes | None:
    if isinstance(value, AmqpArray):
        body, count = _array_body(draw, value), len(value.items)
    else:
        items = list(value) if isinstance(value, list) else [x for kv in value.items() for x in kv]
        body, count = b"".join(wild_encode(draw, item) for item in items), len(items)
    if code >= 0xD0 and code != 0xE0:
        return struct.pack(">II", len(body) + 4, count) + body
    if len(body) > 254 or count > 255:
        return None
    return struct.pack(">BB", len(body) + 1, count) + body


def _array_body(draw: Draw, array: AmqpArray) -> bytes:
    prefix = b"".join(b"\x00" + wild_encode(draw, item) for item in array.descriptors)
    codes = codes_for(array.item_type, array.items)
    first = draw(st.sampled_from(codes))
    for code in [first, codes[0]]:  # the first code listed for a type fits every value
        parts = [data_for(draw, code, item) for item in array.items]
        if all(part is not None for part in parts):
            return prefix + bytes([code]) + b"".join(part for part in parts if part is not None)
    raise AssertionError(array)


def wild_encode(draw: Draw, value: Any) -> bytes:
    """Return one of the legal encodings of a value, drawn at random."""
    if isinstance(value, Described):
        return b"\x00" + wild_encode(draw, value.descriptor) + wild_encode(draw, value.value)
    codes = codes_for(type(value), (value,))
    for code in [draw(st.sampled_from(codes)), codes[0]]:
        data = data_for(draw, code, value)
        if data is not None:
            return bytes([code]) + data
    raise AssertionError(value)


@st.composite
def encoded_values(draw: Draw) -> tuple[Any, bytes]:
    """Draw a value together with one of its encodings."""
    value = draw(ANY_VALUE)
    return value, wild_encode(draw, value)
