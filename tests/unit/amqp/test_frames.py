"""Frames written by hand equal those of the general encoder; headers and foreign bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.amqp.decode import decode_value
from bendybus.amqp.frames import (
    FRAME_HEADER,
    HEARTBEAT,
    describe_foreign_bytes,
    encode_frame,
    encode_sasl_frame,
)
from bendybus.amqp.outbox import Outbox
from bendybus.amqp.performatives import (
    Accepted,
    AmqpError,
    Disposition,
    Modified,
    Rejected,
    SaslOutcome,
    Transfer,
    compose,
    decode_performative,
)
from bendybus.amqp.transfer_frames import (
    SETTLED_TAIL,
    TAG_PREFIX,
    UNSETTLED_TAIL,
    acceptance_frames,
    disposition_frame,
    split_transfer,
    transfer_layout,
)

UINTS = st.integers(0, 2**32 - 1)
CHANNELS = st.integers(0, 65535)
STATES: list[Any] = [
    None,
    Accepted(),
    Modified(None, True, None),
    Rejected(AmqpError("com.microsoft:message-lock-lost", "x" * 100)),
    Rejected(AmqpError("com.microsoft:message-lock-lost", "x" * 300)),
]


@pytest.mark.amqp("2.3.1")
def test_frames_have_a_two_word_header_and_their_type() -> None:
    sasl = encode_sasl_frame(SaslOutcome(0, b""))
    assert FRAME_HEADER.unpack_from(sasl) == (len(sasl), 2, 1, 0)
    close = encode_frame(7, Transfer(handle=1))
    assert FRAME_HEADER.unpack_from(close) == (len(close), 2, 0, 7)
    assert bytes.fromhex("0000000802000000") == HEARTBEAT


@pytest.mark.amqp("2.7.5")
@given(channel=CHANNELS, handle=UINTS, delivery_id=UINTS, settled=st.booleans())
def test_a_packed_transfer_equals_the_general_encoding(
    channel: int, handle: int, delivery_id: int, settled: bool
) -> None:
    pack, start, overhead = transfer_layout(channel, handle)
    tail = SETTLED_TAIL if settled else UNSETTLED_TAIL
    head = pack(overhead + 5, start, delivery_id, TAG_PREFIX, b"t" * 16, tail)
    assert len(head) == overhead
    assert FRAME_HEADER.unpack_from(head) == (overhead + 5, 2, 0, channel)
    decoded, end = decode_performative(head, 8)
    assert end == overhead
    assert decoded == Transfer(
        handle=handle,
        delivery_id=delivery_id,
        delivery_tag=b"t" * 16,
        message_format=0,
        settled=settled,
        batchable=True,
    )
    described: Any = decode_value(head, 8)[0]
    assert len(described.value) == 11


@pytest.mark.amqp("2.7.6")
@pytest.mark.parametrize("state", STATES, ids=["none", "accepted", "modified", "short", "long"])
@given(channel=CHANNELS, first=UINTS, last=UINTS, receiver=st.booleans(), settled=st.booleans())
def test_a_packed_disposition_says_what_was_asked(
    state: Any, channel: int, first: int, last: int, receiver: bool, settled: bool
) -> None:
    frame = disposition_frame(
        channel, receiver=receiver, first=first, last=last, state=state, settled=settled
    )
    assert FRAME_HEADER.unpack_from(frame) == (len(frame), 2, 0, channel)
    described: Any
    described, end = decode_value(frame, 8)
    assert end == len(frame)
    assert len(described.value) == 6
    assert compose(described) == Disposition(
        role=receiver, first=first, last=last, settled=settled, state=state
    )


@pytest.mark.amqp("2.7.6")
@given(channel=CHANNELS, ranges=st.lists(st.tuples(UINTS, UINTS), max_size=5))
def test_many_acceptances_are_written_as_each_by_itself(
    channel: int, ranges: list[tuple[int, int]]
) -> None:
    assert acceptance_frames(channel, ranges) == [
        disposition_frame(
            channel, receiver=True, first=first, last=last, state=Accepted(), settled=True
        )
        for first, last in ranges
    ]


@pytest.mark.amqp("2.6.14")
@given(payload=st.binary(max_size=3000), frame_size_max=st.integers(512, 1024))
def test_a_split_delivery_fits_the_frames_and_comes_together_again(
    payload: bytes, frame_size_max: int
) -> None:
    first = Transfer(handle=3, delivery_id=9, delivery_tag=b"tag", message_format=0, settled=False)
    frames = list(split_transfer(5, first, payload, frame_size_max))
    together = b""
    for index, frame in enumerate(frames):
        assert FRAME_HEADER.unpack_from(frame) == (len(frame), 2, 0, 5)
        assert len(frame) <= frame_size_max
        body, end = decode_performative(frame, 8)
        assert isinstance(body, Transfer)
        assert (body.handle, body.settled) == (3, False)
        assert body.more is (index + 1 < len(frames))
        assert (body.delivery_id == 9) is (index == 0)
        together += frame[end:]
    assert together == payload


@pytest.mark.amqp("2.2")
@pytest.mark.parametrize(
    ("start", "text"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS hello"),
        (b"GET / HT", "HTTP"),
        (b"AMQP\x00\x00\x09\x01", "AMQP protocol 0, version 0.9.1, is not supported"),
        (b"AMQP\x02\x01\x00\x00", "AMQP protocol 2"),
        (b"hello", "not AMQP: it begins with b'hello'"),
        (b"AMQX", "not AMQP"),
    ],
)
def test_foreign_bytes_are_described_for_whoever_must_debug_it(start: bytes, text: str) -> None:
    assert text in describe_foreign_bytes(start)


def test_frames_wait_behind_the_prelude_until_released() -> None:
    outbox = Outbox()
    outbox.prelude.append(b"header")
    outbox.frames.append(b"begin")
    assert outbox.take() == b"header"
    assert outbox.take() == b""
    outbox.prelude.append(b"open")
    outbox.release()
    assert outbox.take() == b"openbegin"
    outbox.frames.append(b"flow")
    assert outbox.take() == b"flow"
    assert outbox.take() == b""
