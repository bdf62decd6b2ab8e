"""Values to AMQP bytes (AMQP 1.0 part 1), each in its shortest encoding."""

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
    Described,
    EncodeError,
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

_Appender: TypeAlias = Callable[[bytearray, object], None]
_pack_word: Final = struct.Struct(">I").pack

SHORT_SIZE_MAX: Final = 255
ZERO_WIDTH_ITEMS_MAX: Final = 255
"""As in `decode`: an array of nulls has no bytes per item, so its length has a bound of its own."""


def encode_value(value: object) -> bytes:
    """Return the encoding of `value`. Raises `EncodeError`."""
    out = bytearray()
    append_value(out, value)
    return bytes(out)


def append_value(out: bytearray, value: object) -> None:
    """Append the encoding of `value` to `out`. Raises `EncodeError`."""
    appender = _APPENDERS.get(type(value))
    if appender is None:
        raise EncodeError(f"a {type(value).__name__} has no AMQP encoding")
    try:
        appender(out, value)
    except (struct.error, OverflowError):
        name = type(value).__name__
        raise EncodeError(f"{value!r} is out of the range of {name}") from None
    except UnicodeEncodeError as error:
        raise EncodeError(f"{value!r} is not {error.encoding} text") from None


def append_list(out: bytearray, body: bytes | bytearray, count: int) -> None:
    """Append a list of `count` items whose encodings are `body`."""
    if count == 0:
        out.append(0x45)
    else:
        _append_compound(out, 0xC0, 0xD0, body, count)


def _append_compound(
    out: bytearray, narrow: int, wide: int, body: bytes | bytearray, count: int
) -> None:
    # The size counts the count field, too: one byte or four.
    if len(body) < SHORT_SIZE_MAX and count <= SHORT_SIZE_MAX:
        out += bytes((narrow, len(body) + 1, count))
    else:
        out.append(wide)
        out += _pack_word(len(body) + 4) + _pack_word(count)
    out += body


def _append_null(out: bytearray, value: object) -> None:
    out.append(0x40)


def _append_boolean(out: bytearray, value: object) -> None:
    out.append(0x41 if value else 0x42)


def _number(code: int, letter: str) -> Callable[[bytearray, float], None]:
    pack = struct.Struct(">B" + letter).pack

    def append(out: bytearray, value: float) -> None:
        out += pack(code, value)

    return append


def _unsigned(zero: int, small: int, full: int, letter: str) -> Callable[[bytearray, int], None]:
    pack = struct.Struct(">B" + letter).pack

    def append(out: bytearray, value: int) -> None:
        if value == 0:
            out.append(zero)
        elif 0 < value <= SHORT_SIZE_MAX:
            out += bytes((small, value))
        else:
            out += pack(full, value)

    return append


def _signed(small: int, full: int, letter: str) -> Callable[[bytearray, int], None]:
    pack = struct.Struct(">B" + letter).pack
    pack_small = struct.Struct(">Bb").pack

    def append(out: bytearray, value: int) -> None:
        if -128 <= value <= 127:
            out += pack_small(small, value)
        else:
            out += pack(full, value)

    return append


def _sized(narrow: int, wide: int, encode: Callable[[object], bytes]) -> _Appender:
    def append(out: bytearray, value: object) -> None:
        data = encode(value)
        if len(data) <= SHORT_SIZE_MAX:
            out += bytes((narrow, len(data)))
        else:
            out.append(wide)
            out += _pack_word(len(data))
        out += data

    return append


def _fixed_bytes(code: int, size: int) -> Callable[[bytearray, bytes], None]:
    def append(out: bytearray, value: bytes) -> None:
        if len(value) != size:
            raise EncodeError(f"{type(value).__name__} takes {size} bytes, not {len(value)}")
        out.append(code)
        out += value

    return append


def _append_char(out: bytearray, value: Char) -> None:
    if len(value) != 1:
        raise EncodeError("a char is one character")
    out.append(0x73)
    out += value.encode("utf-32-be")


def _append_uuid(out: bytearray, value: uuid.UUID) -> None:
    out.append(0x98)
    out += value.bytes


def _append_list(out: bytearray, value: list[object]) -> None:
    body = bytearray()
    for item in value:
        append_value(body, item)
    append_list(out, body, len(value))


def _append_map(out: bytearray, value: dict[object, object]) -> None:
    body = bytearray()
    for key, item in value.items():
        append_value(body, key)
        append_value(body, item)
    _append_compound(out, 0xC1, 0xD1, body, 2 * len(value))


def _append_described(out: bytearray, value: Described) -> None:
    out.append(0x00)
    append_value(out, value.descriptor)
    append_value(out, value.value)


def _append_array(out: bytearray, value: AmqpArray) -> None:
    body = bytearray()
    for descriptor in value.descriptors:
        body.append(0x00)
        append_value(body, descriptor)
    _append_array_items(body, value)
    _append_compound(out, 0xE0, 0xF0, body, len(value.items))


def _append_array_items(body: bytearray, value: AmqpArray) -> None:
    """Append the constructor that all items share and then each item's data without its own.

    Items of one array have one type code, so numbers take their full width, and texts the form
    that the longest of them needs.
    """
    _check_array(value)
    if value.item_type in _SIZED_ITEMS:
        _append_sized_items(body, value)
        return
    code, append_item = _ARRAY_CONSTRUCTORS[value.item_type]
    body.append(code)
    for item in value.items:
        append_item(body, item)


def _check_array(value: AmqpArray) -> None:
    if value.item_type not in _ARRAY_CONSTRUCTORS and value.item_type not in _SIZED_ITEMS:
        raise EncodeError(f"no array of {value.item_type.__name__}")
    if value.item_type is type(None) and len(value.items) > ZERO_WIDTH_ITEMS_MAX:
        raise EncodeError(f"an array of more than {ZERO_WIDTH_ITEMS_MAX} nulls")
    for item in value.items:
        if type(item) is not value.item_type:
            raise EncodeError(f"a {type(item).__name__} in an array of {value.item_type.__name__}")


def _append_sized_items(body: bytearray, value: AmqpArray) -> None:
    narrow, wide, encode = _SIZED_ITEMS[value.item_type]
    encoded = [encode(item) for item in value.items]
    if all(len(data) <= SHORT_SIZE_MAX for data in encoded):
        body.append(narrow)
        for data in encoded:
            body.append(len(data))
            body += data
    else:
        body.append(wide)
        for data in encoded:
            body += _pack_word(len(data)) + data


def _item_number(letter: str) -> Callable[[bytearray, float], None]:
    pack = struct.Struct(">" + letter).pack

    def append(out: bytearray, value: float) -> None:
        out += pack(value)

    return append


def _item_without_code(out: bytearray, value: object) -> None:
    """Append an item whose ordinary encoding has always the same code: drop that one byte."""
    encoded = bytearray()
    append_value(encoded, value)
    out += encoded[1:]


def _item_compound(out: bytearray, value: object) -> None:
    """Append a list, map or array in its wide form, whatever its size, without the code."""
    encoded = encode_value(value)
    if encoded[0] == 0x45:  # the empty list, which has neither size nor count
        size_and_count, start = (4, 0), 1
    elif encoded[0] in (0xC0, 0xC1, 0xE0):
        size_and_count, start = (encoded[1] + 3, encoded[2]), 3
    else:
        out += encoded[1:]
        return
    out += _pack_word(size_and_count[0]) + _pack_word(size_and_count[1]) + encoded[start:]


def _utf8(value: object) -> bytes:
    return str(value).encode("utf-8")


def _ascii(value: object) -> bytes:
    return str(value).encode("ascii")


def _as_bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


_APPENDERS: Final[dict[type, Callable[..., None]]] = {
    type(None): _append_null,
    bool: _append_boolean,
    int: _signed(0x55, 0x81, "q"),
    float: _number(0x82, "d"),
    str: _sized(0xA1, 0xB1, _utf8),
    bytes: _sized(0xA0, 0xB0, _as_bytes),
    list: _append_list,
    dict: _append_map,
    uuid.UUID: _append_uuid,
    Symbol: _sized(0xA3, 0xB3, _ascii),
    Char: _append_char,
    Ubyte: _number(0x50, "B"),
    Ushort: _number(0x60, "H"),
    Uint: _unsigned(0x43, 0x52, 0x70, "I"),
    Ulong: _unsigned(0x44, 0x53, 0x80, "Q"),
    Byte: _number(0x51, "b"),
    Short: _number(0x61, "h"),
    Int: _signed(0x54, 0x71, "i"),
    Long: _signed(0x55, 0x81, "q"),
    Timestamp: _number(0x83, "q"),
    Float: _number(0x72, "f"),
    Decimal32: _fixed_bytes(0x74, 4),
    Decimal64: _fixed_bytes(0x84, 8),
    Decimal128: _fixed_bytes(0x94, 16),
    Described: _append_described,
    AmqpArray: _append_array,
}

_ARRAY_CONSTRUCTORS: Final[dict[type, tuple[int, Callable[..., None]]]] = {
    type(None): (0x40, _item_without_code),
    bool: (0x56, _item_number("?")),
    int: (0x81, _item_number("q")),
    float: (0x82, _item_without_code),
    list: (0xD0, _item_compound),
    dict: (0xD1, _item_compound),
    uuid.UUID: (0x98, _item_without_code),
    Char: (0x73, _item_without_code),
    Ubyte: (0x50, _item_without_code),
    Ushort: (0x60, _item_without_code),
    Uint: (0x70, _item_number("I")),
    Ulong: (0x80, _item_number("Q")),
    Byte: (0x51, _item_without_code),
    Short: (0x61, _item_without_code),
    Int: (0x71, _item_number("i")),
    Long: (0x81, _item_number("q")),
    Timestamp: (0x83, _item_without_code),
    Float: (0x72, _item_without_code),
    Decimal32: (0x74, _item_without_code),
    Decimal64: (0x84, _item_without_code),
    Decimal128: (0x94, _item_without_code),
    AmqpArray: (0xF0, _item_compound),
}

_SIZED_ITEMS: Final[dict[type, tuple[int, int, Callable[[object], bytes]]]] = {
    str: (0xA1, 0xB1, _utf8),
    bytes: (0xA0, 0xB0, _as_bytes),
    Symbol: (0xA3, 0xB3, _ascii),
}
