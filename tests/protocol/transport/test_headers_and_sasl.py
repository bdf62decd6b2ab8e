"""Protocol headers and SASL (AMQP 1.0 §2.2, §5.3)."""

from __future__ import annotations

from typing import Any

import pytest

from bendybus.amqp.connection_settings import Role
from bendybus.amqp.events import (
    CloseReceived,
    ConnectionFailed,
    OpenReceived,
    SaslInitReceived,
)
from bendybus.amqp.frames import AMQP_HEADER, SASL_HEADER, encode_frame, encode_sasl_frame
from bendybus.amqp.performatives import (
    Close,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from tests.protocol.transport.conversation import Peer, one, only

INIT = encode_sasl_frame(SaslInit("PLAIN", b"\0user\0key", "host"))
OFFER = encode_sasl_frame(SaslMechanisms(("EXTERNAL", "PLAIN", "ANONYMOUS")))
WELCOME = encode_sasl_frame(SaslOutcome(0, b"Welcome!"))


@pytest.mark.amqp("5.3.2")
def test_a_server_answers_the_sasl_header_with_its_own_and_its_mechanisms_in_order() -> None:
    peer = Peer(sasl_mechanisms=("MSSBCBS", "PLAIN"))
    assert peer.write(SASL_HEADER) == []
    assert peer.bodies() == [SaslMechanisms(("MSSBCBS", "PLAIN"))]
    assert peer.headers == [SASL_HEADER]


@pytest.mark.amqp("5.3.3.2")
def test_the_choice_of_a_client_goes_to_the_caller_and_the_verdict_back() -> None:
    peer = Peer()
    event = one(SaslInitReceived, peer.write(SASL_HEADER + INIT))
    assert event == SaslInitReceived("PLAIN", b"\0user\0key", "host")
    peer.heard()
    assert peer.engine.sasl_outcome(True) == []
    assert peer.bodies() == [SaslOutcome(0, b"")]
    peer.write(AMQP_HEADER)
    peer.heard()
    assert peer.headers == [SASL_HEADER, AMQP_HEADER]


@pytest.mark.amqp("5.3.3.2")
def test_what_a_client_pipelined_behind_sasl_is_read_after_the_verdict() -> None:
    peer = Peer()
    pipelined = AMQP_HEADER + encode_frame(0, Open(container_id="peer"))
    one(SaslInitReceived, peer.write(SASL_HEADER + INIT + pipelined[:5]))
    assert peer.write(pipelined[5:]) == []
    event = one(OpenReceived, peer.engine.sasl_outcome(True))
    assert event.open.container_id == "peer"
    one(CloseReceived, peer.write(encode_frame(0, Close())))


@pytest.mark.amqp("5.3.3.6")
def test_a_refused_client_hears_the_code_for_failed_authentication_and_nothing_more() -> None:
    peer = Peer()
    peer.write(SASL_HEADER + INIT)
    peer.heard()
    assert peer.engine.sasl_outcome(False) == []
    assert peer.bodies() == [SaslOutcome(1, b"")]
    assert peer.engine.is_over
    assert peer.write(AMQP_HEADER) == []
    assert peer.engine.data_to_send() == b""


def test_a_mechanism_that_was_not_offered_is_refused() -> None:
    peer = Peer(sasl_mechanisms=("PLAIN",))
    init = encode_sasl_frame(SaslInit("ANONYMOUS"))
    failed = one(ConnectionFailed, peer.write(SASL_HEADER + init))
    assert failed.condition == "amqp:unauthorized-access"
    assert "'ANONYMOUS' was not offered" in failed.description
    assert peer.bodies()[-1] == SaslOutcome(1, b"")


def test_too_much_before_the_verdict_ends_the_connection() -> None:
    peer = Peer(paused_bytes_max=100)
    peer.write(SASL_HEADER + INIT)
    assert peer.write(b"x" * 100) == []
    failed = one(ConnectionFailed, peer.write(b"x"))
    assert failed.condition == "amqp:resource-limit-exceeded"
    assert only(SaslOutcome, peer.bodies()).code == 1


@pytest.mark.amqp("2.2")
def test_a_client_may_leave_sasl_out() -> None:
    peer = Peer()
    assert peer.write(AMQP_HEADER) == []
    peer.heard()
    assert peer.headers == [AMQP_HEADER]


@pytest.mark.amqp("2.2")
@pytest.mark.parametrize(
    ("start", "text"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS hello"),
        (b"GET /health HTTP/1.1\r\n", "HTTP"),
        (b"AMQP\x00\x00\x09\x01", "version 0.9.1"),
        (b"AMQP\x02\x01\x00\x00", "AMQP protocol 2"),
        (b"\x00", "not AMQP"),
        (b"AMQP\x00\x02", "not AMQP"),
    ],
)
def test_a_wrong_header_is_answered_with_the_right_one_and_described(
    start: bytes, text: str
) -> None:
    peer = Peer()
    failed = one(ConnectionFailed, peer.write(start))
    assert failed.condition == "amqp:connection:framing-error"
    assert text in failed.description
    assert peer.engine.data_to_send() == AMQP_HEADER
    assert peer.engine.is_over


@pytest.mark.amqp("2.2")
def test_a_header_may_come_byte_by_byte() -> None:
    peer = Peer()
    for octet in SASL_HEADER:
        assert peer.write(bytes([octet])) == []
    assert len(peer.bodies()) == 1


@pytest.mark.amqp("5.3.1")
@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (encode_frame(0, Open(container_id="peer")), "amqp:connection:framing-error"),
        (encode_sasl_frame(SaslResponse(b"")), "amqp:connection:framing-error"),
        (OFFER, "amqp:illegal-state"),
        (encode_sasl_frame(SaslInit("PLAIN"))[:-1] + b"\x3f", "amqp:decode-error"),
        (b"\x00\x00\x00\x07\x02\x01\x00\x00", "amqp:connection:framing-error"),
    ],
    ids=["amqp frame", "response", "mechanisms", "garbage", "short frame"],
)
def test_anything_but_a_choice_during_sasl_ends_in_a_permanent_failure(
    data: bytes, condition: str
) -> None:
    peer = Peer()
    peer.write(SASL_HEADER)
    peer.heard()
    failed = one(ConnectionFailed, peer.write(data))
    assert failed.condition == condition
    assert peer.bodies() == [SaslOutcome(3, b"")]


@pytest.mark.amqp("5.3.1")
def test_a_sasl_frame_after_sasl_is_a_framing_error() -> None:
    peer = Peer().opened()
    failed = one(ConnectionFailed, peer.write(INIT))
    assert failed.condition == "amqp:connection:framing-error"
    assert only(Close, peer.bodies()).error is not None


def test_the_sasl_header_cannot_come_twice() -> None:
    peer = Peer()
    peer.write(SASL_HEADER + INIT)
    peer.engine.sasl_outcome(True)
    assert one(ConnectionFailed, peer.write(SASL_HEADER)).condition == "amqp:illegal-state"


@pytest.mark.amqp("5.3.2")
@pytest.mark.parametrize(
    ("settings", "init"),
    [
        ({}, SaslInit("ANONYMOUS", b"", "host")),
        (
            {"sasl_username": "user", "sasl_password": "key"},
            SaslInit("PLAIN", b"\0user\0key", "host"),
        ),
    ],
    ids=["anonymous", "plain"],
)
def test_a_client_chooses_by_its_credentials(settings: dict[str, Any], init: SaslInit) -> None:
    peer = Peer(Role.CLIENT, hostname="host", **settings)
    peer.engine.open()
    assert peer.heard() == []
    assert peer.headers == [SASL_HEADER]
    assert peer.write(SASL_HEADER + OFFER) == []
    assert peer.bodies() == [init]
    assert peer.write(WELCOME) == []
    peer.heard()
    assert peer.headers[-1] == AMQP_HEADER
    peer.write(AMQP_HEADER)
    assert only(Open, peer.bodies()).container_id == "under-test"


def test_a_client_without_mechanisms_leaves_sasl_out() -> None:
    peer = Peer(Role.CLIENT, sasl_mechanisms=())
    peer.heard()
    assert peer.headers == [AMQP_HEADER]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (encode_sasl_frame(SaslMechanisms(("EXTERNAL",))), "does not offer ANONYMOUS but EXTERNAL"),
        (OFFER + encode_sasl_frame(SaslOutcome(1)), "refused our credentials: SASL code 1"),
        (OFFER + encode_sasl_frame(SaslChallenge(b"?")), "an unexpected SaslChallenge"),
    ],
)
def test_a_client_that_is_not_let_in_fails_with_the_reason(answer: bytes, text: str) -> None:
    peer = Peer(Role.CLIENT)
    assert text in one(ConnectionFailed, peer.write(SASL_HEADER + answer)).description


def test_a_client_that_meets_another_protocol_fails_and_says_nothing() -> None:
    peer = Peer(Role.CLIENT)
    peer.heard()
    one(ConnectionFailed, peer.write(b"HTTP/1.1 400 Bad Request\r\n"))
    assert peer.engine.data_to_send() == b""
