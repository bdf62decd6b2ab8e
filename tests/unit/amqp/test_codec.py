"""The type system both ways: every type, every legal encoding, every refusal."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bendybus.amqp.decode import NESTING_MAX, ZERO_WIDTH_ITEMS_MAX, decode_value, skip_value
from bendybus.amqp.encode import append_value, encode_value
from bendybus.amqp.values import (
    AmqpArray,
    Byte,
    Char,
    Decimal32,
    DecodeError,
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
from tests.unit.amqp.strategies import ANY_VALUE, SCALARS, encoded_values, same


@pytest.mark.amqp("1.6")
@given(value=ANY_VALUE)
@example(value=AmqpArray(list, ([], [1, 2], [b"x" * 300])))
@example(value=["x"] * 256)
@example(value=AmqpArray(Symbol, (Symbol("a" * 256), Symbol("b"))))
def test_what_is_encoded_decodes_to_the_same_value_of_the_same_types(value: Any) -> None:
    encoded = encode_value(value)
    decoded, end = decode_value(encoded, 0)
    assert end == len(encoded)
    assert same(decoded, _with_longs(value))


def _with_longs(value: Any) -> Any:
    """Plain ints are the one thing that comes back as another class: Long."""
    if type(value) is int:
        return Long(value)
    if isinstance(value, list):
        return [_with_longs(item) for item in value]
    if isinstance(value, AmqpArray) and value.item_type is list:
        items = tuple(_with_longs(item) for item in value.items)
        return AmqpArray(value.item_type, items, value.descriptors)
    return value


@pytest.mark.amqp("1.6.24")
@pytest.mark.parametrize("kind", SCALARS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=20)
def test_arrays_of_every_type_come_back_as_they_were(kind: type, data: st.DataObject) -> None:
    array = AmqpArray(kind, tuple(data.draw(st.lists(SCALARS[kind], min_size=1, max_size=3))))
    assert same(decode_value(encode_value(array), 0)[0], array)


@pytest.mark.amqp("1.2")
@given(drawn=encoded_values())
def test_every_legal_encoding_is_understood(drawn: tuple[Any, bytes]) -> None:
    value, encoded = drawn
    framed = b"\xff" + encoded + b"\xff"
    decoded, end = decode_value(framed, 1)
    assert same(decoded, value)
    assert end == 1 + len(encoded)
    assert skip_value(framed, 1) == end
    assert same(decode_value(memoryview(framed), 1)[0], value)


@given(drawn=encoded_values())
def test_a_value_cut_short_anywhere_is_refused(drawn: tuple[Any, bytes]) -> None:
    _, encoded = drawn
    for length in range(0, len(encoded), max(1, len(encoded) // 50)):
        with pytest.raises(DecodeError):
            decode_value(encoded[:length], 0)
        with pytest.raises(DecodeError):
            skip_value(encoded[:length], 0)


@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_decode_error(data: bytes) -> None:
    try:
        value, end = decode_value(data, 0)
    except DecodeError:
        return
    assert end <= len(data)
    assert skip_value(data, 0) == end
    assert same(decode_value(encode_value(value), 0)[0], value)


@given(data=st.binary(max_size=60))
def test_skipping_any_bytes_ends_inside_them_or_in_a_decode_error(data: bytes) -> None:
    try:
        end = skip_value(data, 0)
    except DecodeError:
        return
    assert 0 < end <= len(data)


@pytest.mark.amqp("1.6")
@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (None, "40"),
        (True, "41"),
        (False, "42"),
        (Ubyte(7), "5007"),
        (Ushort(7), "600007"),
        (Uint(0), "43"),
        (Uint(255), "52ff"),
        (Uint(256), "7000000100"),
        (Ulong(0), "44"),
        (Ulong(0x10), "5310"),
        (Ulong(256), "800000000000000100"),
        (Byte(-1), "51ff"),
        (Short(-1), "61ffff"),
        (Int(-128), "5480"),
        (Int(128), "7100000080"),
        (Long(127), "557f"),
        (5, "5505"),
        (2**40, "810000010000000000"),
        (Timestamp(1), "830000000000000001"),
        (Float(1.0), "723f800000"),
        (1.0, "823ff0000000000000"),
        (Char("A"), "7300000041"),
        (uuid.UUID(int=1), "98" + "00" * 15 + "01"),
        (b"ab", "a0026162"),
        ("é", "a102c3a9"),
        (Symbol("ab"), "a3026162"),
        ([], "45"),
        ([None], "c0020140"),
        ({}, "c10100"),
        ({Symbol("a"): True}, "c10502a3016141"),
        (Described(Ulong(0x24), []), "00532445"),
        (AmqpArray(Symbol, (Symbol("a"), Symbol("b"))), "e00602a301610162"),
        (AmqpArray(Uint, (Uint(1),)), "e0060170" + "00000001"),
        (AmqpArray(bool, (True, False)), "e00402560100"),
    ],
)
def test_values_take_their_shortest_encoding(value: Any, encoded: str) -> None:
    assert encode_value(value).hex() == encoded
    assert decode_value(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@pytest.mark.parametrize("size", [254, 255])
def test_the_size_of_a_short_list_counts_its_count_field(size: int) -> None:
    encoded = encode_value([b"x" * (size - 2)])
    assert encoded[0] == (0xC0 if size == 254 else 0xD0)
    assert decode_value(encoded, 0) == ([b"x" * (size - 2)], len(encoded))


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        ("", "cut short"),
        ("3f", "unknown type code 0x3f"),
        ("e00302003f", "unknown type code 0x3f"),
        ("e003013f40", "unknown type code 0x3f"),
        ("5602", "neither true nor false"),
        ("a101ff", "utf-8"),
        ("a301ff", "ascii"),
        ("730000d800", "utf-32"),
        ("7300110000", "utf-32"),
        ("c00140", "more items than it has bytes"),
        ("c00000", "does not fit"),
        ("c0050140", "does not fit"),
        ("c0020040", "does not match"),
        ("c0030140", "does not fit"),
        ("c0020540", "more items than it has bytes"),
        ("d000000003000000", "cut short"),
        ("d00000000300000000", "does not fit"),
        ("d000000005ffffffff40", "more items than it has bytes"),
        ("c103014040", "even count"),
        ("c1030440404040", "each of a byte at least"),
        ("c10904a3016140a3016141", "same key twice"),
        ("c103024540", "compound"),
        ("e003055001", "more items than it has bytes"),
        ("f000000009ffffffff40", "does not fit"),
        ("f000000005ffffffff40", "items without bytes"),
        ("e00401500101", "does not match"),
        ("00", "cut short"),
        ("0053", "cut short"),
        ("b0ffffffff", "cut short"),
    ],
)
def test_malformed_values_are_refused_with_the_reason(encoded: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_value(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["3f", "00533f", "c0ff00", "b0ffffffff", "60", "7000", "0000"])
def test_skipping_refuses_what_does_not_fit(encoded: str) -> None:
    with pytest.raises(DecodeError):
        skip_value(bytes.fromhex(encoded), 0)


def test_skipping_steps_over_described_descriptors() -> None:
    value = Described(Described(Symbol("a"), Symbol("b")), Described(Ulong(1), [1]))
    encoded = encode_value(value)
    assert skip_value(encoded, 0) == len(encoded)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        (b"\x00\x53\x01", b"\x40"),
        (b"\x00", b"\x40" * 200),
    ],
)
def test_nesting_is_bounded_when_decoding_and_when_skipping(opening: bytes, closing: bytes) -> None:
    endless = opening * (NESTING_MAX + 1) + closing
    for read in (decode_value, skip_value):
        with pytest.raises(DecodeError, match="nested deeper"):
            read(endless, 0)


@pytest.mark.parametrize(
    "wrap",
    [lambda x: [x], lambda x: {"k": x}, lambda x: Described("d", x)],
    ids=["list", "map", "described"],
)
def test_the_deepest_nesting_allowed_is_understood(wrap: Any) -> None:
    value: Any = None
    for _ in range(NESTING_MAX):
        value = wrap(value)
    encoded = encode_value(value)
    assert decode_value(encoded, 0) == (value, len(encoded))
    with pytest.raises(DecodeError, match="nested deeper"):
        decode_value(encode_value(wrap(value)), 0)


def test_nested_arrays_are_bounded_too() -> None:
    array: Any = AmqpArray(Uint, (Uint(1),))
    for _ in range(NESTING_MAX):
        array = AmqpArray(AmqpArray, (array,))
    with pytest.raises(DecodeError, match="nested deeper"):
        decode_value(encode_value(array), 0)
    described = b"\x00\x53\x01" * (NESTING_MAX + 1) + b"\x50\x01"
    with pytest.raises(DecodeError, match="nested deeper"):
        decode_value(b"\xe0" + bytes([len(described) + 1, 1]) + described, 0)


def test_an_array_of_nulls_has_a_bound_of_its_own_because_it_has_no_bytes() -> None:
    most = AmqpArray(type(None), (None,) * ZERO_WIDTH_ITEMS_MAX)
    assert decode_value(encode_value(most), 0)[0] == most
    with pytest.raises(EncodeError, match="nulls"):
        encode_value(AmqpArray(type(None), (None,) * (ZERO_WIDTH_ITEMS_MAX + 1)))
    one_more = b"\xf0\x00\x00\x00\x05" + (ZERO_WIDTH_ITEMS_MAX + 1).to_bytes(4, "big") + b"\x40"
    with pytest.raises(DecodeError, match="without bytes"):
        decode_value(one_more, 0)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "no AMQP encoding"),
        (Ubyte(256), "range"),
        (Uint(-1), "range"),
        (Ulong(2**64), "range"),
        (Int(2**31), "range"),
        (2**63, "range"),
        (Float(1e300), "range"),
        ("\ud800", "utf-8"),
        (Symbol("é"), "ascii"),
        (Char("ab"), "one character"),
        (Decimal32(b"abc"), "4 bytes"),
        (AmqpArray(object, ()), "no array of object"),
        (AmqpArray(Uint, (Uint(2**32),)), "range"),
        (AmqpArray(Uint, (1,)), "a int in an array of Uint"),
        ([object()], "no AMQP encoding"),
    ],
)
def test_what_has_no_encoding_is_refused_with_the_reason(value: Any, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        encode_value(value)


def test_appending_leaves_what_was_there() -> None:
    out = bytearray(b"before")
    append_value(out, True)
    assert out == b"before\x41"
