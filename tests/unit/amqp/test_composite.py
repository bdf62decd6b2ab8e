"""Composites on the wire: full field counts out, every legal form in."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from bendybus.amqp.composite import compose, encode_composite
from bendybus.amqp.decode import decode_value
from bendybus.amqp.encode import encode_value
from bendybus.amqp.performatives import (
    Accepted,
    AmqpError,
    Attach,
    Begin,
    Close,
    Coordinator,
    Declare,
    Declared,
    Detach,
    Discharge,
    Disposition,
    End,
    Flow,
    Modified,
    Open,
    Received,
    Rejected,
    Released,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Source,
    Target,
    TransactionalState,
    Transfer,
    decode_performative,
    decode_sasl_body,
)
from bendybus.amqp.values import (
    AmqpArray,
    DecodeError,
    Described,
    Int,
    Symbol,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)

ERROR = AmqpError("amqp:not-found", "no such thing", {Symbol("k"): 1})
EXAMPLES: list[tuple[int, int, Any]] = [
    (0x10, 10, Open(container_id="c", properties={Symbol("product"): "x"})),
    (0x11, 8, Begin(next_outgoing_id=1, incoming_window=2, outgoing_window=3)),
    (0x12, 14, Attach(name="n", handle=0, role=True, source=Source(), target=Target())),
    (0x13, 11, Flow(incoming_window=1, next_outgoing_id=2, outgoing_window=3, echo=True)),
    (0x14, 11, Transfer(handle=1, delivery_id=0, delivery_tag=b"t", state=Accepted())),
    (0x15, 6, Disposition(role=True, first=1, last=2, settled=True, state=Rejected(ERROR))),
    (0x16, 3, Detach(handle=1, closed=True, error=ERROR)),
    (0x17, 1, End(ERROR)),
    (0x18, 1, Close()),
    (0x1D, 3, ERROR),
    (0x23, 2, Received(1, 2**40)),
    (0x24, 0, Accepted()),
    (0x25, 1, Rejected()),
    (0x26, 0, Released()),
    (0x27, 3, Modified(None, True, {Symbol("a"): "b"})),
    (0x28, 11, Source(address="a", filter={Symbol("f"): None}, outcomes=(Symbol("o"),))),
    (0x29, 7, Target(address="a", capabilities=(Symbol("queue"),))),
    (0x30, 1, Coordinator((Symbol("amqp:local-transactions"),))),
    (0x31, 1, Declare()),
    (0x32, 2, Discharge(b"t", fail=True)),
    (0x33, 1, Declared(b"t")),
    (0x34, 2, TransactionalState(b"t", Accepted())),
    (0x40, 1, SaslMechanisms((Symbol("PLAIN"), Symbol("ANONYMOUS")))),
    (0x41, 3, SaslInit("PLAIN", b"\0a\0b", "host")),
    (0x42, 1, SaslChallenge(b"c")),
    (0x43, 1, SaslResponse(b"r")),
    (0x44, 2, SaslOutcome(0, b"Welcome!")),
]
IDS = [type(value).__name__ for _, _, value in EXAMPLES]


@pytest.mark.parametrize(("code", "count", "value"), EXAMPLES, ids=IDS)
def test_a_composite_is_sent_with_a_short_descriptor_and_all_its_fields(
    code: int, count: int, value: Any
) -> None:
    encoded = encode_composite(value)
    assert encoded[:3] == bytes([0x00, 0x53, code])
    described, _ = decode_value(encoded, 0)
    assert isinstance(described, Described)
    assert isinstance(described.value, list)
    assert len(described.value) == count == len(fields(value))


@pytest.mark.parametrize(("code", "count", "value"), EXAMPLES, ids=IDS)
def test_a_composite_comes_back_as_it_was(code: int, count: int, value: Any) -> None:
    assert compose(decode_value(encode_composite(value), 0)[0]) == value
    assert (code, count) != (0, 0)


@pytest.mark.parametrize(("code", "count", "value"), EXAMPLES, ids=IDS)
def test_trailing_nulls_may_be_left_out_and_long_descriptors_used(
    code: int, count: int, value: Any
) -> None:
    described, _ = decode_value(encode_composite(value), 0)
    assert isinstance(described, Described)
    items = list(described.value) if isinstance(described.value, list) else []
    while items and items[-1] is None:
        items.pop()
    assert len(items) <= count
    body = b"\xd0" + (len(_items(items)) + 4).to_bytes(4, "big") + len(items).to_bytes(4, "big")
    long_form = b"\x00\x80" + code.to_bytes(8, "big") + body + _items(items)
    assert compose(decode_value(long_form, 0)[0]) == value


def _items(items: list[object]) -> bytes:
    return b"".join(encode_value(item) for item in items)


@pytest.mark.amqp("1.4")
def test_defaults_are_sent_as_values_and_null_is_taken_as_the_default() -> None:
    described, _ = decode_value(encode_composite(Open(container_id="c")), 0)
    assert isinstance(described, Described)
    assert described.value == ["c", None, 2**32 - 1, 65535] + [None] * 6
    assert compose(Described(Ulong(0x10), ["c", None, None, None])) == Open(container_id="c")


def test_a_descriptor_may_be_a_symbol() -> None:
    assert compose(Described(Symbol("amqp:accepted:list"), [])) == Accepted()


@pytest.mark.parametrize(
    "unknown",
    [
        5,
        Described(Ulong(0x99), []),
        Described(Symbol("vendor:thing"), "x"),
        Described("amqp:accepted:list", []),
    ],
)
def test_what_we_do_not_know_stays_as_it_was_decoded(unknown: object) -> None:
    assert compose(unknown) is unknown
    source = Source(address=unknown)
    assert compose(decode_value(encode_composite(source), 0)[0]) == source


def test_one_symbol_may_stand_for_an_array_of_one() -> None:
    assert compose(Described(Ulong(0x40), [Symbol("PLAIN")])) == SaslMechanisms((Symbol("PLAIN"),))


def test_integers_of_another_width_and_strings_for_symbols_are_tolerated() -> None:
    error = compose(Described(Ulong(0x1D), ["amqp:not-found", Symbol("text")]))
    assert error == AmqpError("amqp:not-found", "text")
    begin = compose(Described(Ulong(0x11), [Uint(1), Ushort(2), Int(3), Ubyte(4)]))
    assert begin == Begin(
        remote_channel=1, next_outgoing_id=2, incoming_window=3, outgoing_window=4
    )


@pytest.mark.parametrize(
    ("code", "value", "reason"),
    [
        (0x18, {}, "is not a list"),
        (0x18, [None, None], "too many fields"),
        (0x10, [], "container_id of 0x10 is missing"),
        (0x10, [None, "host"], "container_id of 0x10 is missing"),
        (0x10, [b"c"], "container_id is a bytes, not a string"),
        (0x10, ["c", None, True], "max_frame_size is a bool"),
        (0x10, ["c", None, Int(-1)], "max_frame_size is a Int"),
        (0x10, ["c", None, Ulong(2**32)], "max_frame_size is a Ulong"),
        (0x10, ["c", None, None, None, None, AmqpArray(Uint, (Uint(1),))], "not a symbols"),
        (0x16, [Uint(1), Uint(1)], "closed is a Uint, not a boolean"),
        (0x16, [Uint(1), True, "oops"], "error is a str, not a error"),
        (0x16, [Uint(1), True, Described(Ulong(0x24), [])], "error is a Described, not a error"),
        (0x12, ["n", Uint(1), True, None, None, Described(Ulong(0x28), 5)], "is not a list"),
        (0x32, ["t"], "txn_id is a str, not a binary"),
    ],
)
def test_fields_that_do_not_fit_are_refused_with_their_name(
    code: int, value: object, reason: str
) -> None:
    with pytest.raises(DecodeError, match=reason):
        compose(Described(Ulong(code), value))


def test_only_performatives_are_bodies_of_frames_and_only_sasl_of_sasl_frames() -> None:
    sasl, close = encode_composite(SaslOutcome(0)), encode_composite(Close())
    assert decode_performative(close + b"rest", 0) == (Close(), len(close))
    assert decode_sasl_body(sasl, 0) == SaslOutcome(0)
    with pytest.raises(DecodeError, match="not a performative"):
        decode_performative(sasl, 0)
    with pytest.raises(DecodeError, match="not one"):
        decode_sasl_body(close, 0)
