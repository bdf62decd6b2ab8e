"""Messages as lines of JSON: what is printed can be sent again, and what cannot be read is told."""

import json
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.amqp.sections import SectionCode, encode_section
from bendybus.amqp.values import Symbol, Timestamp
from bendybus.cli.failure import CommandFailed
from bendybus.cli.message_json import from_json, to_json
from bendybus.client.message import Message, ReceivedMessage

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
    st.binary(max_size=20),
    st.uuids(),
    st.integers(0, 4_000_000_000_000).map(Timestamp),
)


def again(message: Message) -> Message:
    return from_json(to_json(ReceivedMessage(message.encode())).encode())


@given(body=st.one_of(VALUES, st.lists(VALUES, max_size=3)), value=VALUES)
def test_bodies_and_properties_come_back_as_they_were(body: object, value: object) -> None:
    message = Message(body, message_id="m", application_properties={"one": value})
    sent = again(message)
    assert (sent.body, dict(sent.application_properties)) == (body, {"one": value})
    assert type(sent.body) is type(body)


def test_all_that_a_sender_said_comes_back() -> None:
    message = Message(
        b"body",
        message_id=uuid.uuid4(),
        session_id="s",
        partition_key="s",
        subject="label",
        correlation_id=7,
        content_type="text/plain",
        to="there",
        reply_to="here",
        reply_to_session_id="r",
        time_to_live=timedelta(seconds=90),
        scheduled_time=NOON,
    )
    assert again(message) == message


def test_why_it_is_a_dead_letter_is_printed_and_not_sent_again() -> None:
    annotations = {Symbol("x-opt-deadletter-source"): "orders"}
    properties = {"DeadLetterReason": "why", "colour": "red"}
    payload = (
        encode_section(SectionCode.MESSAGE_ANNOTATIONS, annotations)
        + encode_section(SectionCode.APPLICATION_PROPERTIES, properties)
        + encode_section(SectionCode.DATA, b"x")
    )
    line = to_json(ReceivedMessage(payload))
    printed = json.loads(line)
    assert (printed["dead_letter_reason"], printed["dead_letter_source"]) == ("why", "orders")
    assert dict(from_json(line.encode()).application_properties) == {"colour": "red"}


def test_a_body_may_be_a_text_alone_or_left_out() -> None:
    assert from_json(b'{"body": "hello"}').body == b"hello"
    assert from_json(b"{}").body == b""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("hello", "not a line of JSON"),
        ("[1]", "not an object"),
        ('{"bodi": "x"}', "a message has no 'bodi'"),
        ('{"body": 7}', "body must be"),
        ('{"body": {"text": "x", "base64": "x"}}', "body must be"),
        ('{"body": {"text": 7}}', "body.text must be a text"),
        ('{"body": {"base64": "?"}}', "body.base64 must be base64"),
        ('{"session_id": 7}', "session_id must be a text"),
        ('{"message_id": true}', "message_id must be"),
        ('{"time_to_live": "1"}', "time_to_live must be a number"),
        ('{"scheduled_time": "soon"}', "scheduled_time must be a time"),
        ('{"application_properties": [1]}', "application_properties must be an object"),
        ('{"application_properties": {"a": {"$uuid": "x"}}}', "must be a UUID"),
    ],
)
def test_what_cannot_be_read_is_told(line: str, reason: str) -> None:
    with pytest.raises(CommandFailed, match=reason):
        from_json(line.encode())


@pytest.mark.parametrize(
    ("line", "reason"),
    [(b'{"body": "\xff"}', "not UTF-8"), (b'{"body": ' + b"[" * 100_000, "too deep")],
    ids=["bytes", "depth"],
)
def test_what_nobody_can_read_is_told_too(line: bytes, reason: str) -> None:
    with pytest.raises(CommandFailed, match=reason):
        from_json(line)
