"""What a message says comes back as it was said: properties, annotations, every kind of body."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.amqp import (
    AmqpAnnotatedMessage,
    AmqpMessageBodyType,
    AmqpMessageHeader,
    AmqpMessageProperties,
)

from tests.compat.python.scenario import (
    Bus,
    body_of,
    is_empty,
    numbered,
    receive,
    receive_all,
    scenario,
)

SOME_UUID: Final = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
SOME_TIME: Final = datetime(2024, 2, 29, 12, 30, 15, 250_000, tzinfo=UTC)


@pytest.mark.spec("R8.1")
@scenario()
def every_property_of_a_message_comes_back(bus: Bus) -> None:
    sent: dict[str, Any] = {
        "content_type": "application/json",
        "correlation_id": "correlation",
        "message_id": "id",
        "partition_key": "session",
        "reply_to": "reply-to",
        "reply_to_session_id": "reply-session",
        "session_id": "session",
        "subject": "subject",
        "time_to_live": timedelta(seconds=300),
        "to": "to",
    }
    bus.send(ServiceBusMessage(b"{}", **sent))
    with bus.receiver() as receiver:
        for message in (receiver.peek_messages(1)[0], receive_all(receiver, 1)[0]):
            assert {name: getattr(message, name) for name in sent} == sent
            assert message.enqueued_time_utc is not None
            assert message.expires_at_utc == message.enqueued_time_utc + sent["time_to_live"]


@scenario()
def every_type_of_application_property_comes_back(bus: Bus) -> None:
    sent: dict[str | bytes, Any] = {
        "text": "Grüße, 世界",
        "empty": "",
        "int": -7,
        "long": {"TYPE": "LONG", "VALUE": -(2**62)},
        "ulong": {"TYPE": "ULONG", "VALUE": 2**63 + 1},
        "ubyte": {"TYPE": "UBYTE", "VALUE": 255},
        "true": True,
        "false": False,
        "double": 0.1,
        "uuid": SOME_UUID,
        "time": SOME_TIME,
        "bytes": {"TYPE": "BINARY", "VALUE": b"\x00\xff"},
        "nothing": None,
        # A time span, as .NET describes it: in ticks.
        "described": ({"TYPE": "SYMBOL", "VALUE": b"com.microsoft:timespan"}, 864),
    }
    bus.send(ServiceBusMessage(b"", application_properties=sent))
    with bus.receiver() as receiver:
        [message] = receive_all(receiver, 1)
    received = message.application_properties
    assert received is not None
    described = received.pop(b"described")
    assert described == 864
    assert received.pop(b"time") == round(SOME_TIME.timestamp() * 1000)
    del sent["described"], sent["time"]
    assert received == {_bytes(name): _plain(value) for name, value in sent.items()}


@scenario()
def every_type_of_message_id_comes_back(bus: Bus) -> None:
    ids: list[Any] = ["text", SOME_UUID, 2**63 + 5, b"\x00binary"]
    with bus.sender() as sender:
        for each in ids:
            properties = AmqpMessageProperties(message_id=each, correlation_id=each)
            sender.send_messages(AmqpAnnotatedMessage(data_body=b"", properties=properties))
    with bus.receiver() as receiver:
        found = [message.raw_amqp_message.properties for message in receive_all(receiver, len(ids))]
    pairs = [(each.message_id, each.correlation_id) for each in found if each is not None]
    expected = [b"text", SOME_UUID, 2**63 + 5, b"\x00binary"]
    assert sorted(map(repr, pairs)) == sorted(repr((each, each)) for each in expected)


@scenario()
def a_message_without_an_id_is_given_one(bus: Bus) -> None:
    with bus.sender() as sender:
        sender.send_messages(AmqpAnnotatedMessage(data_body=b"anonymous"))
        sender.send_messages(
            AmqpAnnotatedMessage(
                data_body=b"named", properties=AmqpMessageProperties(subject="subject")
            )
        )
    with bus.receiver() as receiver:
        found = {body_of(message): message for message in receive_all(receiver, 2)}
    ids = {message.message_id for message in found.values()}
    assert len(ids) == 2
    assert all(isinstance(each, str) and uuid.UUID(each).hex == each for each in ids)
    assert found[b"named"].subject == "subject"


@scenario()
def a_body_of_several_data_sections_comes_back(bus: Bus) -> None:
    parts = [b"one", b"", b"three" * 100]
    message = _send_and_receive(bus, AmqpAnnotatedMessage(data_body=parts))
    assert message.body_type == AmqpMessageBodyType.DATA
    assert list(message.body) == parts


@scenario()
def a_body_of_sequences_comes_back(bus: Bus) -> None:
    sequences = [[1, b"two", None], [True, 2.5], []]
    message = _send_and_receive(bus, AmqpAnnotatedMessage(sequence_body=sequences))
    assert message.body_type == AmqpMessageBodyType.SEQUENCE
    assert list(message.body) == sequences


@scenario()
def a_body_of_any_value_comes_back(bus: Bus) -> None:
    values: list[Any] = [
        b"bytes",
        42,
        -1.5,
        True,
        SOME_UUID,
        {b"map": {b"of": [1, 2, 3]}},
        [b"a", [b"list"], {}],
    ]
    with bus.sender() as sender:
        for value in values:
            sender.send_messages(AmqpAnnotatedMessage(value_body=value))
    with bus.receiver() as receiver:
        messages = receive_all(receiver, len(values))
    assert {message.body_type for message in messages} == {AmqpMessageBodyType.VALUE}
    assert sorted(repr(message.body) for message in messages) == sorted(map(repr, values))


@scenario()
def a_message_without_a_body_is_taken(bus: Bus) -> None:
    bus.send(ServiceBusMessage(None, message_id="bodiless"))
    with bus.receiver() as receiver:
        [message] = receive_all(receiver, 1)
    assert message.message_id == "bodiless"


@scenario()
def header_annotations_and_footer_come_back(bus: Bus) -> None:
    message = _send_and_receive(
        bus,
        AmqpAnnotatedMessage(
            data_body=b"annotated",
            header=AmqpMessageHeader(priority=7, durable=True, time_to_live=60_000),
            properties=AmqpMessageProperties(user_id=b"user", group_sequence=9),
            annotations={"own-annotation": "kept"},
            delivery_annotations={"own-delivery-annotation": 5},
            footer={"own-footer": "end"},
        ),
    )
    raw = message.raw_amqp_message
    assert raw.header is not None
    assert (raw.header.priority, raw.header.durable) == (7, True)
    assert raw.header.time_to_live == 60_000
    assert raw.properties is not None
    assert (raw.properties.user_id, raw.properties.group_sequence) == (b"user", 9)
    assert (raw.annotations or {})[b"own-annotation"] == b"kept"
    assert (raw.delivery_annotations or {})[b"own-delivery-annotation"] == 5
    assert (raw.footer or {})[b"own-footer"] == b"end"


@scenario()
def a_received_message_can_be_sent_again(bus: Bus) -> None:
    """It then carries the old number, times and lock, which must not be believed."""
    bus.send(*numbered(1, message_id="again"))
    with bus.receiver() as receiver, bus.sender() as sender:
        [first] = receive(receiver, 1)
        receiver.abandon_message(first)
        [first] = receive(receiver, 1)
        sender.send_messages(first)
        receiver.complete_message(first)
        [second] = receive(receiver, 1)
        assert body_of(second) == body_of(first)
        assert second.message_id == "again"
        assert second.delivery_count == 0
        assert second.sequence_number != first.sequence_number
        assert second.lock_token != first.lock_token
        receiver.complete_message(second)
        assert is_empty(receiver)


def _send_and_receive(bus: Bus, message: AmqpAnnotatedMessage) -> ServiceBusReceivedMessage:
    with bus.sender() as sender:
        sender.send_messages(message)
    with bus.receiver() as receiver:
        [received] = receive_all(receiver, 1)
    return received


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    """A value as the client shows it: texts as bytes, numbers without their type."""
    if isinstance(value, dict):
        return value["VALUE"]
    return value.encode() if isinstance(value, str) else value
