"""AMQP bytes to values (AMQP 1.0 part 1). Takes every legal encoding, refuses all else.

Bounded: nesting by NESTING_MAX; memory by the input's length, because a count is believed only
as far as there are bytes left for that many items.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Final, TypeAlias

from bendybus.amqp.values import (
    AmqpArray,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    DecodeError,
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

Buffer: TypeAlias = bytes | memoryview
_Decoder: TypeAlias = Callable[[Buffer, int, int], tuple[object, int]]

NESTING_MAX: Final = 64
"""Deeper than any message in use; pyamqp has the same limit."""

ZERO_WIDTH_ITEMS_MAX: Final = 255
"""Items of an array of nulls (or zeros) take no bytes, so the bytes left cannot bound the count."""

_DESCRIBED: Final = 0x00


def decode_value(buf: Buffer, offset: int) -> tuple[object, int]:
    """Return the value that begins at `offset` and the offset after it."""
    try:
        return _decode(buf, offset, 0)
    except (IndexError, struct.error):
        raise DecodeError("the value is cut short") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"not valid {error.encoding} text") from None


def skip_value(buf: Buffer, offset: int) -> int:
    """Return the offset after the value at `offset` without building it or looking inside it."""
    try:
        code = buf[offset]
        descriptors = 0
        while code == _DESCRIBED:
            descriptors += 1
            if descriptors > NESTING_MAX:
                raise DecodeError(f"values nested deeper than {NESTING_MAX}")
            if buf[offset + 1] == _DESCRIBED:  # a descriptor that is itself described
                offset = _skip_nested(buf, offset + 1, NESTING_MAX)
            else:
                offset = _skip_primitive(buf, offset + 1)
            code = buf[offset]
        return _skip_primitive(buf, offset)
    except (IndexError, struct.error):
        raise DecodeError("the value is cut short") from None


def _skip_nested(buf: Buffer, offset: int, depth_left: int) -> int:
    if depth_left == 0:
        raise DecodeError(f"values nested deeper than {NESTING_MAX}")
    if buf[offset] != _DESCRIBED:
        return _skip_primitive(buf, offset)
    after_descriptor = _skip_nested(buf, offset + 1, depth_left - 1)
    return _skip_nested(buf, after_descriptor, depth_left - 1)


def _skip_primitive(buf: Buffer, offset: int) -> int:
    code = buf[offset]
    width = _FIXED_WIDTHS.get(code)
    if width is not None:
        end = offset + 1 + width
    elif code in _SIZED_BY_BYTE:
        end = offset + 2 + buf[offset + 1]
    elif code in _SIZED_BY_WORD:
        end = offset + 5 + _read_uint(buf, offset + 1)
    else:
        raise DecodeError(f"unknown type code 0x{code:02x}")
    if end > len(buf):
        raise DecodeError("the value is cut short")
    return end


def _decode(buf: Buffer, offset: int, depth: int) -> tuple[object, int]:
    code = buf[offset]
    decoder = _DECODERS.get(code)
    if decoder is None:
        raise DecodeError(f"unknown type code 0x{code:02x}")
    return decoder(buf, offset + 1, depth)


_unpack_uint: Final = struct.Struct(">I").unpack_from


def _read_uint(buf: Buffer, offset: int) -> int:
    value: int = _unpack_uint(buf, offset)[0]
    return value


def _take(buf: Buffer, offset: int, size: int) -> bytes:
    end = offset + size
    if end > len(buf):
        raise DecodeError("the value is cut short")
    return bytes(buf[offset:end])


def _constant(value: object) -> _Decoder:
    def decode(buf: Buffer, offset: int, depth: int) -> tuple[object, int]:
        return value, offset

    return decode


def _number(letter: str, kind: Callable[[int], object]) -> _Decoder:
    layout = struct.Struct(">" + letter)
    unpack_from, size = layout.unpack_from, layout.size

    def decode(buf: Buffer, offset: int, depth: int) -> tuple[object, int]:
        return kind(unpack_from(buf, offset)[0]), offset + size

    return decode


def _fixed_bytes(size: int, kind: Callable[[bytes], object]) -> _Decoder:
    def decode(buf: Buffer, offset: int, depth: int) -> tuple[object, int]:
        return kind(_take(buf, offset, size)), offset + size

    return decode


def _sized_by_byte(kind: Callable[[bytes], object]) -> _Decoder:
    def decode(buf: Buffer, offset: int, depth: int) -> tuple[object, int]:
        size = buf[offset]
        return kind(_take(buf, offset + 1, size)), offset + 1 + size

    return decode


def _sized_by_word(kind: Callable[[bytes], object]) -> _Decoder:
    def decode(buf: Buffer, offset: int, depth: int) -> tuple[object, int]:
        size = _read_uint(buf, offset)
        return kind(_take(buf, offset + 4, size)), offset + 4 + size

    return decode


def _boolean(buf: Buffer, offset: int, depth: int) -> tuple[object, int]:
    octet = buf[offset]
    if octet > 1:
        raise DecodeError(f"0x{octet:02x} is neither true nor false")
    return octet == 1, offset + 1


def _text(data: bytes) -> str:
    return str(data, "utf-8")


def _symbol(data: bytes) -> Symbol:
    return Symbol(data, "ascii")


def _char(data: bytes) -> Char:
    return Char(data, "utf-32-be")


def _uuid(data: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=data)


def _described(buf: Buffer, offset: int, depth: int) -> tuple[object, int]:
    _check_depth(depth)
    descriptor, offset = _decode(buf, offset, depth + 1)
    value, offset = _decode(buf, offset, depth + 1)
    return Described(descriptor, value), offset


def _check_depth(depth: int) -> None:
    if depth >= NESTING_MAX:
        raise DecodeError(f"values nested deeper than {NESTING_MAX}")


def _read_extent(buf: Buffer, offset: int, *, wide: bool) -> tuple[int, int, int]:
    """Return item count, offset of the first item and offset after the last one."""
    if wide:
        end, count, start = offset + 4 + _read_uint(buf, offset), _read_uint(buf, offset + 4), 8
    else:
        end, count, start = offset + 1 + buf[offset], buf[offset + 1], 2
    if end > len(buf) or end < offset + start:
        raise DecodeError("the size of a compound value does not fit its bytes")
    return count, offset + start, end


def _check_end(offset: int, end: int) -> None:
    if offset != end:
        raise DecodeError("the size of a compound value does not match its items")


def _list(*, wide: bool) -> _Decoder:
    def decode(buf: Buffer, offset: int, depth: int) -> tuple[object, int]:
        _check_depth(depth)
        count, offset, end = _read_extent(buf, offset, wide=wide)
        if count > end - offset:
            raise DecodeError("a list counts more items than it has bytes")
        items: list[object] = []
        for _ in range(count):
            item, offset = _decode(buf, offset, depth + 1)
            items.append(item)
        _check_end(offset, end)
        return items, end

    return decode


def _empty_list(buf: Buffer, offset: int, depth: int) -> tuple[object, int]:
    return [], offset


def _map(*, wide: bool) -> _Decoder:
    def decode(buf: Buffer, offset: int, depth: int) -> tuple[object, int]:
        _check_depth(depth)
        count, offset, end = _read_extent(buf, offset, wide=wide)
        if count > end - offset or count % 2:
            raise DecodeError("a map needs an even count of items, each of a byte at least")
        entries: dict[object, object] = {}
        for _ in range(count // 2):
            key, offset = _decode(buf, offset, depth + 1)
            value, offset = _decode(buf, offset, depth + 1)
            _add_entry(entries, key, value)
        _check_end(offset, end)
        return entries, end

    return decode


def _add_entry(entries: dict[object, object], key: object, value: object) -> None:
    try:
        if key in entries:
            raise DecodeError("a map has the same key twice")
        entries[key] = value
    except TypeError:
        # Legal AMQP, but a Python dict cannot hold it and no known peer sends it.
        raise DecodeError("a map's key is itself a compound value") from None


def _array(*, wide: bool) -> _Decoder:
    def decode(buf: Buffer, offset: int, depth: int) -> tuple[object, int]:
        _check_depth(depth)
        count, offset, end = _read_extent(buf, offset, wide=wide)
        descriptors: list[object] = []
        while buf[offset] == _DESCRIBED:
            _check_depth(depth + len(descriptors))
            descriptor, offset = _decode(buf, offset + 1, depth + 1)
            descriptors.append(descriptor)
        code = buf[offset]
        items, offset = _array_items(buf, offset, count, end, depth + 1)
        _check_end(offset, end)
        return AmqpArray(_ITEM_TYPES[code], items, tuple(descriptors)), end

    return decode


def _array_items(
    buf: Buffer, offset: int, count: int, end: int, depth: int
) -> tuple[tuple[object, ...], int]:
    code = buf[offset]
    offset += 1
    decoder = _DECODERS.get(code)
    if decoder is None:
        raise DecodeError(f"unknown type code 0x{code:02x}")
    if _FIXED_WIDTHS.get(code) == 0:
        if count > ZERO_WIDTH_ITEMS_MAX:
            raise DecodeError(f"an array of more than {ZERO_WIDTH_ITEMS_MAX} items without bytes")
        return (decoder(buf, offset, depth)[0],) * count, offset
    if count > end - offset:
        raise DecodeError("an array counts more items than it has bytes")
    items: list[object] = []
    for _ in range(count):
        item, offset = decoder(buf, offset, depth)
        items.append(item)
    return tuple(items), offset


_FORMATS: Final[dict[int, tuple[type, _Decoder]]] = {
    0x40: (type(None), _constant(None)),
    0x41: (bool, _constant(True)),
    0x42: (bool, _constant(False)),
    0x43: (Uint, _constant(Uint(0))),
    0x44: (Ulong, _constant(Ulong(0))),
    0x45: (list, _empty_list),
    0x50: (Ubyte, _number("B", Ubyte)),
    0x51: (Byte, _number("b", Byte)),
    0x52: (Uint, _number("B", Uint)),
    0x53: (Ulong, _number("B", Ulong)),
    0x54: (Int, _number("b", Int)),
    0x55: (Long, _number("b", Long)),
    0x56: (bool, _boolean),
    0x60: (Ushort, _number("H", Ushort)),
    0x61: (Short, _number("h", Short)),
    0x70: (Uint, _number("I", Uint)),
    0x71: (Int, _number("i", Int)),
    0x72: (Float, _number("f", Float)),
    0x73: (Char, _fixed_bytes(4, _char)),
    0x74: (Decimal32, _fixed_bytes(4, Decimal32)),
    0x80: (Ulong, _number("Q", Ulong)),
    0x81: (Long, _number("q", Long)),
    0x82: (float, _number("d", float)),
    0x83: (Timestamp, _number("q", Timestamp)),
    0x84: (Decimal64, _fixed_bytes(8, Decimal64)),
    0x94: (Decimal128, _fixed_bytes(16, Decimal128)),
    0x98: (uuid.UUID, _fixed_bytes(16, _uuid)),
    0xA0: (bytes, _sized_by_byte(bytes)),
    0xA1: (str, _sized_by_byte(_text)),
    0xA3: (Symbol, _sized_by_byte(_symbol)),
    0xB0: (bytes, _sized_by_word(bytes)),
    0xB1: (str, _sized_by_word(_text)),
    0xB3: (Symbol, _sized_by_word(_symbol)),
    0xC0: (list, _list(wide=False)),
    0xC1: (dict, _map(wide=False)),
    0xD0: (list, _list(wide=True)),
    0xD1: (dict, _map(wide=True)),
    0xE0: (AmqpArray, _array(wide=False)),
    0xF0: (AmqpArray, _array(wide=True)),
}
"""Type code -> class of the value, and how to read it (AMQP 1.0 §1.6)."""

_DECODERS: Final = {_DESCRIBED: _described} | {code: row[1] for code, row in _FORMATS.items()}
_ITEM_TYPES: Final = {code: row[0] for code, row in _FORMATS.items()}

# The high half of a type code says how its data is laid out (§1.2).
_WIDTH_BY_CATEGORY: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
_FIXED_WIDTHS: Final = {
    code: _WIDTH_BY_CATEGORY[code >> 4] for code in _FORMATS if code >> 4 in _WIDTH_BY_CATEGORY
}
_SIZED_BY_BYTE: Final = frozenset(code for code in _FORMATS if code >> 4 in {0xA, 0xC, 0xE})
_SIZED_BY_WORD: Final = frozenset(code for code in _FORMATS if code >> 4 in {0xB, 0xD, 0xF})
