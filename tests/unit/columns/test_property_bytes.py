"""The text of a property and its AMQP value are two forms of one thing."""

import math
import uuid
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.amqp.encode import encode_value
from bendybus.amqp.values import (
    Byte,
    Char,
    Decimal32,
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
from bendybus.columns.property_bytes import PropertyInvalid, encode_property
from bendybus.columns.property_texts import typed_text

# Of the many NaN, the text "nan" says one.
values = st.one_of(
    st.none(),
    st.booleans(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    st.binary(max_size=300),
    st.floats(allow_nan=False) | st.just(math.nan),
    (st.floats(width=32, allow_nan=False) | st.just(math.nan)).map(Float),
    st.uuids(),
    st.text(st.characters(max_codepoint=127), max_size=5).map(Symbol),
    st.characters(exclude_categories=["Cs"]).map(Char),
    st.integers(0, 2**8 - 1).map(Ubyte),
    st.integers(0, 2**16 - 1).map(Ushort),
    st.integers(0, 2**32 - 1).map(Uint),
    st.integers(0, 2**64 - 1).map(Ulong),
    st.integers(-(2**7), 2**7 - 1).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(-(2**63), 2**63 - 1).map(Long),
    st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=16, max_size=16).map(Decimal128),
    st.integers(-(2**63), 2**63 - 1).map(
        lambda ticks: Described(Symbol("com.microsoft:timespan"), Long(ticks))
    ),
    st.just(Described(Symbol("com.microsoft:uri"), "https://example.com/ü")),
    st.lists(st.booleans(), max_size=3),
)


@given(values)
def test_what_was_read_is_written_as_it_was(value: object) -> None:
    assert encode_property(*typed_text(value)) == encode_value(value)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("timestamp", "1970-01-01T00:00:01Z", Timestamp(1000)),
        ("timestamp", "1970-01-01T01:00:01+01:00", Timestamp(1000)),
        ("timestamp", "1970-01-01T00:00:01", Timestamp(1000)),
        ("timestamp", "-5", Timestamp(-5)),
        ("int", "+5", Int(5)),
        ("double", "1", 1.0),
        (
            "uuid",
            "{B4DD2AC83F3F4B8C9D0A0A1B2C3D4E5F}",
            uuid.UUID(int=0xB4DD2AC83F3F4B8C9D0A0A1B2C3D4E5F),
        ),
        ("string", "", ""),
        (None, None, None),
        ("null", None, None),
        ("int", None, None),
    ],
)
def test_texts_that_say_the_same_are_taken(
    kind: str | None, text: str | None, value: object
) -> None:
    assert encode_property(kind, text) == encode_value(value)


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("null", "x", "and no type"),
        ("itn", "1", "did you mean 'int'?"),
        ("nothing like it", "1", "there are string, symbol"),
        ("int", "٣", "write it in digits"),
        ("int", str(2**31), "out of the range"),
        ("int", "", "write it in digits"),
        ("boolean", "True", "write true or false"),
        ("double", "half", "could not convert"),
        ("timestamp", "yesterday", "Invalid isoformat"),
        ("uuid", "1", "badly formed"),
        ("binary", "***", "write it in base64"),
        ("char", "ab", "a char is one character"),
        ("symbol", "ü", "is not ascii text"),
        ("decimal32", "00", "takes 4 bytes"),
        ("decimal32", "xx", "non-hexadecimal"),
        ("com.microsoft:timespan", "one day", "write its ticks in digits"),
        ("amqp", "", "it cannot be read"),
    ],
)
def test_texts_that_are_not_of_their_type_are_refused(kind: str, text: str, why: str) -> None:
    with pytest.raises(PropertyInvalid) as refusal:
        encode_property(kind, text)
    assert why in str(refusal.value)


def test_a_moment_with_a_date_is_what_clients_would_send() -> None:
    moment = datetime(2026, 11, 16, 8, 30, tzinfo=UTC)
    expected = encode_value(Timestamp(int(moment.timestamp() * 1000)))
    assert encode_property("timestamp", "2026-11-16T08:30:00.000Z") == expected
