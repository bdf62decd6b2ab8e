"""Messages to bytes and back, and what the broker's own reader makes of them."""

import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.amqp.sections import SectionCode, encode_section
from bendybus.amqp.values import DecodeError, EncodeError, Symbol, Timestamp, Uint, Ulong
from bendybus.client.encoded_message import encode_batch
from bendybus.client.message import Message, MessageState, ReceivedMessage
from bendybus.content.incoming_message import read_batch, read_message

TEXTS = st.text(max_size=300)
SIMPLE_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=300),
    st.uuids(),
)
VALUES = st.recursive(
    SIMPLE_VALUES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)


def again(message: Message) -> ReceivedMessage:
    return ReceivedMessage(message.encode())


@given(VALUES)
def test_any_body_comes_back_with_its_type(body: Any) -> None:
    found = again(Message(body)).body
    assert found == body
    assert isinstance(found, type(body))


@given(
    texts=st.lists(st.none() | TEXTS, min_size=6, max_size=6),
    message_id=TEXTS | st.uuids() | st.binary(max_size=20) | st.integers(0, 2**64 - 1),
    properties=st.dictionaries(TEXTS, SIMPLE_VALUES, max_size=5),
)
def test_every_field_comes_back(
    texts: list[str | None], message_id: Any, properties: dict[str, object]
) -> None:
    session_id, partition_key, subject, to, reply_to, reply_to_session_id = texts
    found = again(
        Message(
            b"body",
            message_id=message_id,
            correlation_id=message_id,
            session_id=session_id,
            partition_key=partition_key,
            subject=subject,
            to=to,
            reply_to=reply_to,
            reply_to_session_id=reply_to_session_id,
            content_type="text/plain",
            application_properties=properties,
        )
    )
    assert found.body == b"body"
    assert (found.message_id, found.correlation_id) == (message_id, message_id)
    assert (found.session_id, found.partition_key) == (session_id, partition_key)
    assert (found.subject, found.to, found.reply_to) == (subject, to, reply_to)
    assert (found.reply_to_session_id, found.content_type) == (reply_to_session_id, "text/plain")
    assert found.application_properties == properties


@pytest.mark.parametrize("size", [0, 255, 256, 70_000])
def test_the_quick_way_for_plain_messages_gives_the_bytes_of_the_general_one(size: int) -> None:
    message = Message(b"x" * size, message_id="an id")
    general = encode_section(SectionCode.PROPERTIES, ["an id"]) + encode_section(
        SectionCode.DATA, b"x" * size
    )
    assert message.encode() == general


def test_a_long_id_is_left_for_the_broker_to_refuse() -> None:
    assert again(Message(message_id="x" * 300)).message_id == "x" * 300


def test_a_number_as_id_is_sent_as_ulong() -> None:
    assert type(again(Message(message_id=7)).message_id) is Ulong


def test_a_message_made_twice_has_two_ids_and_sent_twice_has_one() -> None:
    message = Message(b"a")
    assert message.message_id != Message(b"a").message_id
    assert message.encode() == message.encode()


def test_times_are_those_of_the_broker_in_any_zone() -> None:
    at = datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    message = Message(b"a", scheduled_time=at, time_to_live=timedelta(seconds=1.5))
    found = again(message)
    assert found.scheduled_time == at
    assert found.time_to_live == timedelta(seconds=1.5)
    taken = read_message(message.encode())
    assert taken.scheduled_at == int(at.timestamp() * 1000)
    assert taken.time_to_live_ms == 1500


def test_a_time_to_live_beyond_the_wire_is_the_longest() -> None:
    found = again(Message(b"a", time_to_live=timedelta(days=1000)))
    assert found.time_to_live == timedelta(milliseconds=0xFFFFFFFF)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        Message(b"a", scheduled_time=datetime(2026, 1, 1)).encode()  # noqa: DTZ001 - the point


def test_a_value_that_amqp_does_not_have_is_refused() -> None:
    with pytest.raises(EncodeError):
        Message(object()).encode()


@pytest.mark.spec("R2.1")
def test_the_broker_routes_a_batch_by_the_keys_of_its_first_message() -> None:
    messages = [Message(b"a", session_id="s", partition_key="s"), Message(b"b", session_id="s")]
    payload = encode_batch([each.encode() for each in messages], messages[0].envelope())
    assert [each.session_id for each in read_batch(payload)] == ["s", "s"]
    envelope = ReceivedMessage(messages[0].envelope())
    assert (envelope.session_id, envelope.partition_key) == ("s", "s")
    assert envelope.message_id == messages[0].message_id


def test_what_the_broker_adds_is_read() -> None:
    token = uuid.uuid4()
    annotations: dict[object, object] = {
        Symbol("x-opt-sequence-number"): 7,
        Symbol("x-opt-enqueued-time"): Timestamp(1_000),
        Symbol("x-opt-locked-until"): Timestamp(2_000),
        Symbol("x-opt-message-state"): 1,
    }
    payload = (
        encode_section(SectionCode.HEADER, [True, None, None, False, Uint(3)])
        + encode_section(SectionCode.MESSAGE_ANNOTATIONS, annotations)
        + Message(b"a", application_properties={"DeadLetterReason": "why"}).encode()
    )
    found = ReceivedMessage(payload, lock_token=token)
    assert (found.sequence_number, found.delivery_count) == (7, 3)
    assert found.state is MessageState.DEFERRED
    assert found.enqueued_time == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert found.locked_until == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert (found.dead_letter_reason, found.dead_letter_description) == ("why", None)


def test_a_body_of_several_sections_is_joined() -> None:
    data = encode_section(SectionCode.DATA, b"ab") + encode_section(SectionCode.DATA, b"cd")
    assert ReceivedMessage(data).body == b"abcd"
    items = encode_section(SectionCode.AMQP_SEQUENCE, [1]) * 2
    assert ReceivedMessage(items).body == [1, 1]
    assert ReceivedMessage(b"").body is None


def test_a_message_that_cannot_be_read_says_so_when_it_is_looked_at() -> None:
    message = ReceivedMessage(b"\xff", lock_token=uuid.uuid4())
    with pytest.raises(DecodeError):
        _ = message.body


def test_a_received_message_can_be_sent_again_as_it_was() -> None:
    message = Message(
        {"a": 1},
        session_id="s",
        subject="x",
        correlation_id=uuid.uuid4(),
        time_to_live=timedelta(seconds=9),
        application_properties={"n": 1},
    )
    assert again(message).to_message() == message
