"""Open, Close, idle times and frames that are none (AMQP 1.0 §2.3, §2.4)."""

from __future__ import annotations

from typing import Any

import pytest

from bendybus.amqp.connection_settings import Role
from bendybus.amqp.events import (
    BeginReceived,
    CloseReceived,
    ConnectionFailed,
    OpenReceived,
)
from bendybus.amqp.frames import AMQP_HEADER, HEARTBEAT, encode_frame
from bendybus.amqp.performatives import AmqpError, Begin, Close, Open
from bendybus.amqp.values import Symbol
from tests.protocol.transport.conversation import Peer, attach, frame, one, only

BEGIN = Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)


@pytest.mark.amqp("2.7.1")
def test_our_open_carries_our_limits_and_the_callers_properties() -> None:
    peer = Peer(frame_size_max=4096, channel_max=7, idle_timeout_ms=9000)
    peer.write(AMQP_HEADER)
    peer.engine.open(properties={Symbol("product"): "x"})
    assert peer.bodies() == [
        Open(
            container_id="under-test",
            max_frame_size=4096,
            channel_max=7,
            idle_time_out=9000,
            properties={Symbol("product"): "x"},
        )
    ]


@pytest.mark.amqp("2.4.1")
def test_the_peers_open_is_an_event_and_its_limits_are_kept() -> None:
    peer = Peer()
    peer.write(AMQP_HEADER)
    event = one(OpenReceived, peer.say(Open(container_id="peer", max_frame_size=600)))
    assert event.open.container_id == "peer"
    assert peer.engine.peer_open == event.open


@pytest.mark.amqp("2.4.2")
def test_sessions_begun_before_our_open_are_answered_behind_it() -> None:
    peer = Peer()
    events = peer.write(AMQP_HEADER + frame(Open(container_id="peer")) + frame(BEGIN))
    assert [type(event) for event in events] == [OpenReceived, BeginReceived]
    assert peer.bodies() == []
    peer.engine.open()
    assert [type(body) for body in peer.bodies()] == [Open, Begin]


@pytest.mark.amqp("2.4.3")
def test_close_is_answered_by_the_caller_and_nothing_is_read_behind_it() -> None:
    peer = Peer().opened()
    error = AmqpError("amqp:connection:forced", "bye")
    assert peer.say(Close(error), BEGIN) == [CloseReceived(error)]
    assert peer.bodies() == []
    peer.engine.close()
    assert peer.bodies() == [Close()]
    assert peer.engine.is_over
    assert peer.say(BEGIN) == []


@pytest.mark.amqp("2.4.3")
def test_what_crosses_our_close_is_dropped_until_the_peers_close() -> None:
    peer = Peer().opened().begun()
    link = peer.attached()
    peer.engine.close(AmqpError("amqp:connection:forced"))
    assert not link.is_open
    assert only(Close, peer.bodies()).error == AmqpError("amqp:connection:forced")
    assert peer.say(attach(handle=5), BEGIN) == []
    assert peer.say(Close()) == [CloseReceived(None)]
    assert peer.engine.is_over
    assert peer.bodies() == []


@pytest.mark.amqp("2.4.4")
def test_a_peer_may_open_and_close_in_one_breath() -> None:
    peer = Peer()
    events = peer.write(AMQP_HEADER + frame(Open(container_id="peer")) + frame(Close()))
    assert [type(event) for event in events] == [OpenReceived, CloseReceived]
    peer.engine.open()
    peer.engine.close()
    assert [type(body) for body in peer.bodies()] == [Open, Close]
    assert peer.engine.is_over


@pytest.mark.amqp("2.4.4")
def test_a_client_may_close_before_its_open_is_answered() -> None:
    peer = Peer(Role.CLIENT, sasl_mechanisms=())
    peer.engine.open()
    peer.write(AMQP_HEADER)
    peer.engine.close()
    assert [type(body) for body in peer.bodies()] == [Open, Close]
    events = peer.say(Open(container_id="peer"), Close())
    assert [type(event) for event in events] == [OpenReceived, CloseReceived]
    assert peer.engine.is_over


def test_closing_in_front_of_everything_just_ends() -> None:
    peer = Peer()
    peer.engine.close(AmqpError("amqp:connection:forced"))
    assert peer.engine.is_over
    assert peer.engine.data_to_send() == b""


def test_closing_before_our_open_sends_it_first() -> None:
    peer = Peer()
    peer.write(AMQP_HEADER + frame(Open(container_id="peer")))
    peer.engine.close(AmqpError("amqp:connection:forced"))
    assert [type(body) for body in peer.bodies()] == [Open, Close]


def test_closing_twice_says_close_once() -> None:
    peer = Peer().opened()
    peer.engine.close()
    peer.engine.close()
    assert [type(body) for body in peer.bodies()] == [Close]


@pytest.mark.amqp("2.3.1")
@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x07\x02\x00\x00\x00",
        b"\x00\x00\x00\x08\x01\x00\x00\x00",
        b"\x00\x00\x00\x08\x03\x00\x00\x00",
        b"\x00\x00\x00\x08\x02\x02\x00\x00",
        b"\x00\x01\x00\x01\x02\x00\x00\x00",
        b"\xff\xff\xff\xff\x02\x00\x00\x00",
    ],
    ids=["size below 8", "doff below 2", "doff above size", "type 2", "too big", "huge"],
)
def test_a_malformed_frame_closes_with_a_framing_error(data: bytes) -> None:
    peer = Peer().opened()
    failed = one(ConnectionFailed, peer.write(data))
    assert failed.condition == "amqp:connection:framing-error"
    error = only(Close, peer.bodies()).error
    assert error == AmqpError(failed.condition, failed.description)
    assert peer.write(HEARTBEAT) == []


@pytest.mark.amqp("2.3.1")
def test_an_extended_frame_header_is_skipped() -> None:
    peer = Peer().opened()
    encoded = encode_frame(0, Close())
    extended = (len(encoded) + 4).to_bytes(4, "big") + b"\x03\x00\x00\x00" + b"more" + encoded[8:]
    one(CloseReceived, peer.write(extended))


@pytest.mark.parametrize(
    ("body", "condition"),
    [
        (b"\x3f", "amqp:decode-error"),
        (b"\x00\x53\x24\x45", "amqp:decode-error"),
        (b"\x00\x53\x99\x45", "amqp:decode-error"),
        (b"\x00\x53\x11\x45", "amqp:decode-error"),
        (encode_frame(0, Open(container_id="again"))[8:], "amqp:illegal-state"),
    ],
    ids=["garbage", "no performative", "unknown", "fields missing", "second open"],
)
def test_a_body_that_makes_no_sense_closes_with_the_reason(body: bytes, condition: str) -> None:
    peer = Peer().opened()
    data = (8 + len(body)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body
    assert one(ConnectionFailed, peer.write(data)).condition == condition
    error = only(Close, peer.bodies()).error
    assert error is not None
    assert error.condition == condition


def test_a_failure_before_our_open_is_told_behind_an_open() -> None:
    peer = Peer()
    one(ConnectionFailed, peer.write(AMQP_HEADER + frame(BEGIN)))
    assert [type(body) for body in peer.bodies()] == [Open, Close]


@pytest.mark.amqp("2.7.1")
@pytest.mark.parametrize(
    ("fields", "condition"),
    [
        ({"max_frame_size": 511}, "amqp:invalid-field"),
        ({"idle_time_out": 99}, "amqp:not-allowed"),
    ],
    ids=["frames too small", "idle time too short"],
)
def test_an_open_that_we_cannot_live_with_is_refused(
    fields: dict[str, Any], condition: str
) -> None:
    peer = Peer()
    peer.write(AMQP_HEADER)
    failed = one(ConnectionFailed, peer.say(Open(container_id="peer", **fields)))
    assert failed.condition == condition


@pytest.mark.amqp("2.4.5")
def test_a_heartbeat_goes_out_when_the_peer_needs_one_and_its_own_are_taken() -> None:
    peer = Peer(idle_timeout_ms=0).opened(idle_time_out=1000)
    assert peer.engine.tick(0) == []
    assert peer.engine.next_tick_ms(0) == 250
    peer.engine.tick(499)
    assert peer.engine.data_to_send() == b""
    peer.engine.tick(999)
    assert peer.engine.data_to_send() == HEARTBEAT
    assert peer.write(HEARTBEAT) == []


@pytest.mark.amqp("2.4.5")
def test_a_silent_peer_is_closed_after_twice_our_timeout() -> None:
    peer = Peer(idle_timeout_ms=1000).opened()
    peer.engine.tick(0)
    peer.write(HEARTBEAT)
    assert peer.engine.tick(1000) == []
    assert peer.engine.tick(2999) == []
    failed = one(ConnectionFailed, peer.engine.tick(3000))
    assert failed.condition == "amqp:resource-limit-exceeded"
    assert only(Close, peer.bodies()).error is not None
    assert peer.engine.tick(9000) == []
    assert peer.engine.next_tick_ms(9000) is None


def test_half_a_frame_is_kept_and_not_looked_at_again() -> None:
    peer = Peer().opened()
    data = frame(Close())
    for octet in data[:-1]:
        assert peer.write(bytes([octet])) == []
    one(CloseReceived, peer.write(data[-1:]))
