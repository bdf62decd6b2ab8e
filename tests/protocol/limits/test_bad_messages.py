"""Messages that cannot be taken: each is rejected with all its reasons, and the link goes on."""

import pytest

from bendybus.amqp.outcomes import Accepted, AmqpError, Modified, Rejected
from bendybus.amqp.performatives import Transfer
from bendybus.amqp.sections import SectionCode, encode_properties, encode_section
from bendybus.amqp.values import Symbol, Timestamp
from bendybus.testing.wire_client import WireLink
from tests.protocol.messaging.sample_messages import BATCH_FORMAT, batch, message, see
from tests.protocol.messaging.serving import Served

KILOBYTE = 1024
QUEUES = pytest.mark.parametrize("queue", ["orders", "parts"])


async def _rejection(link: WireLink, payload: bytes, message_format: int = 0) -> AmqpError:
    """Send what must be rejected, and insist that the link still works."""
    outcome = await link.sent(payload, 0, message_format=message_format)
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert await link.sent(message(b"good"), 1) == Accepted()
    return outcome.error


def _fields(index: int, value: object) -> bytes:
    fields: list[object] = ["id", *[None] * 12]
    fields[index] = value
    return encode_section(SectionCode.PROPERTIES, fields)


# Size


@QUEUES
async def test_the_largest_message_is_taken_and_one_byte_more_is_not(
    served: Served, queue: str
) -> None:
    link = await (await served.client()).sender(queue)
    overhead = len(message(b"x" * 1000)) - 1000
    # A body of this size has a longer length field than the one of 1000 bytes.
    largest = message(b"x" * (256 * KILOBYTE - overhead))
    assert len(largest) == 256 * KILOBYTE

    assert await link.sent(largest, 10) == Accepted()
    error = await _rejection(link, largest + b"\x00")

    assert error.condition == "amqp:link:message-size-exceeded"
    assert str(len(largest) + 1) in str(error.description)
    assert str(256 * KILOBYTE) in str(error.description)
    assert await served.count(queue) == 2


async def test_an_oversized_batch_is_refused_whole(served: Served) -> None:
    link = await (await served.client()).sender("orders")
    payload = batch(*[message(b"x" * 100_000)] * 3)

    error = await _rejection(link, payload, BATCH_FORMAT)

    assert error.condition == "amqp:link:message-size-exceeded"
    assert await served.count("orders") == 1


async def test_an_oversized_message_that_was_sent_settled_is_dropped_in_silence(
    served: Served,
) -> None:
    client = await served.client()
    link = await client.sender("orders")

    link.send(message(b"x" * 300_000), 0, settled=True)
    assert await link.sent(message(), 1) == Accepted()

    assert [each.first for each in client.outcomes_heard()] == [1]
    assert await served.count("orders") == 1


async def test_a_message_that_never_ends_costs_no_more_than_the_limit(served: Served) -> None:
    client = await served.client()
    link = await client.sender("orders")
    await link.flowed()
    for _ in range(100):
        client.say(
            Transfer(
                handle=link.handle, delivery_id=0, delivery_tag=b"t", message_format=0, more=True
            ),
            payload=b"x" * 60_000,
        )
        await client.written()
    link.flow(link_credit=0, echo=True)
    await link.flowed()

    [connection] = served.listener.connections
    [handler] = connection._links
    assert handler.assembly is not None
    assert handler.assembly.size == 6_000_000
    assert len(handler.assembly.payload) <= 256 * KILOBYTE


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        pytest.param({"p": "x" * (32 * KILOBYTE + 1)}, "'p'", id="one over 32 KB"),
        pytest.param({"p": b"x" * (33 * KILOBYTE)}, "'p'", id="one over 32 KB, binary"),
        pytest.param(
            {f"p{number}": "x" * 22_000 for number in range(3)}, "65536", id="all over 64 KB"
        ),
    ],
)
@QUEUES
async def test_application_properties_have_limits(
    served: Served, queue: str, properties: dict[object, object], words: str
) -> None:
    link = await (await served.client()).sender(queue)

    error = await _rejection(link, message(properties=properties))

    assert error.condition == "com.microsoft:argument-out-of-range"
    assert words in str(error.description)
    assert await served.count(queue) == 1


async def test_application_properties_within_their_limits_are_taken(served: Served) -> None:
    link = await (await served.client()).sender("orders")
    properties: dict[object, object] = {"a": "x" * 32 * KILOBYTE, "b": "x" * 31 * KILOBYTE}

    assert await link.sent(message(properties=properties), 0) == Accepted()


# Keys


@QUEUES
@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (message(message_id="x" * 129), "MessageId"),
        (message(message_id=b"x" * 129), "MessageId"),
        (message(session_id="x" * 129), "SessionId"),
        (message(partition_key="x" * 129), "PartitionKey"),
        (message(annotations={Symbol("x-opt-via-partition-key"): "x" * 129}), "Transaction"),
        (_fields(12, "x" * 129), "ReplyToSessionId"),
    ],
    ids=["id", "binary id", "session", "partition", "via", "reply-to session"],
)
async def test_keys_have_at_most_128_characters(
    served: Served, queue: str, payload: bytes, name: str
) -> None:
    link = await (await served.client()).sender(queue)

    error = await _rejection(link, payload)

    assert error.condition == "com.microsoft:argument-out-of-range"
    assert name in str(error.description)
    assert "129" in str(error.description)


async def test_keys_of_128_characters_are_taken_whatever_their_bytes(served: Served) -> None:
    link = await (await served.client()).sender("parts")
    key = "ü" * 128

    payload = message(message_id=key, session_id=key, partition_key=key)

    assert await link.sent(payload, 0) == Accepted()


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(_fields(10, 7), id="a number as session"),
        pytest.param(message(annotations={Symbol("x-opt-partition-key"): 7}), id="as partition"),
    ],
)
async def test_keys_must_be_text(served: Served, payload: bytes) -> None:
    link = await (await served.client()).sender("parts")

    error = await _rejection(link, payload)

    assert error.condition == "com.microsoft:argument-error"


# What cannot be read

UNREADABLE = [
    pytest.param(b"\xde\xad\xbe\xef", id="garbage"),
    pytest.param(b"\x00", id="one byte"),
    pytest.param(b"\x00\x53\x75", id="a section without a value"),
    pytest.param(b"\x00\x53\x75\xa0\xff", id="a body longer than the message"),
    pytest.param(b"\x00\x53\x99\x45", id="an unknown section"),
    pytest.param(message()[:-1], id="cut short"),
    pytest.param(message() + b"\x00\x53", id="something behind"),
    pytest.param(encode_properties(["a"]) * 2, id="properties twice"),
    pytest.param(b"\x00\x53\x73\xa1\x01x", id="properties as a text"),
    pytest.param(b"\x00\x53\x73\xc0\x00", id="a list without a count"),
    pytest.param(b"\x00\x53\x70\xc0", id="a header without a size"),
    pytest.param(b"\x00\x53\x73\xc0\x02\x01\xa1", id="a field without its length"),
    pytest.param(
        b"\x00\x53\x73\xc0\x03\x01\xa1\x05\x00\x53\x75\xa0\x00", id="an id over its list's end"
    ),
    pytest.param(b"\x00\x53\x73\xc0\x03\x01\xa1\x09", id="a field longer than its list"),
    pytest.param(b"\x00\x53\x73\xc0\x01\x05", id="fewer fields than counted"),
    pytest.param(b"\x00\x53\x73\xd0\x00\x00\x00\x01\x05", id="a long list without its count"),
    pytest.param(b"\x00\x53\x70\xc0\x03\x01\xff\xff", id="a header of garbage"),
    pytest.param(b"\x00\x53\x70\xa1\x01x", id="a header as a text"),
    pytest.param(b"\x00\x53\x72\xc1\x03\x02\xff\xff", id="annotations of garbage"),
    pytest.param(b"\x00\x53\x72\xc1\x04\x03\x40\x40\x40", id="annotations of three halves"),
    pytest.param(b"\x00\x53\x71\x41", id="delivery annotations as a boolean"),
    pytest.param(
        encode_properties([None] * 10 + ["x"]).replace(b"\xa1\x01x", b"\xa1\x01\xff"),
        id="a session that is not utf-8",
    ),
]


@pytest.mark.parametrize("payload", UNREADABLE)
async def test_a_message_that_cannot_be_read_is_rejected_and_the_link_goes_on(
    served: Served, payload: bytes
) -> None:
    link = await (await served.client()).sender("orders")

    error = await _rejection(link, payload)

    assert error.condition == "com.microsoft:argument-error"
    assert "cannot be read" in str(error.description)
    assert await served.count("orders") == 1


@pytest.mark.parametrize("payload", UNREADABLE)
async def test_one_unreadable_message_refuses_its_whole_batch(
    served: Served, payload: bytes
) -> None:
    link = await (await served.client()).sender("orders")

    error = await _rejection(link, batch(message(), payload, message()), BATCH_FORMAT)

    assert error.condition == "com.microsoft:argument-error"
    assert await served.count("orders") == 1


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="empty"),
        pytest.param(encode_properties(["a"]), id="no data"),
        pytest.param(b"\x00\x53\x75\x41", id="data that is no binary"),
        pytest.param(b"\xff\xff", id="garbage"),
    ],
)
async def test_a_batch_of_nothing_is_rejected(served: Served, payload: bytes) -> None:
    link = await (await served.client()).sender("orders")

    error = await _rejection(link, payload, BATCH_FORMAT)

    assert error.condition == "com.microsoft:argument-error"


POISON = [
    pytest.param(b"\x00\x53\x74\xc1\x05\x04\xff\xff\xff\xff", id="application properties"),
    pytest.param(b"\x00\x53\x74\x41", id="application properties as a boolean"),
    pytest.param(
        b"\x00\x53\x74\xc1\x09\x02\xa1\x01k\xc0\x03\x02\xff\xff", id="a property, as a list"
    ),
    pytest.param(b"\x00\x53\x74\xc1\x07\x02\xa1\x01k\xa1\x01\xff", id="a property, no utf-8"),
    pytest.param(b"\x00\x53\x74\xc1\x05\x02\xa1\x01\xff\x40", id="a property's name"),
    pytest.param(b"\x00\x53\x74\xc1\x09\x04\xa1\x01k\x40\xa1\x01k\x40", id="a property twice"),
    pytest.param(b"\x00\x53\x74\xc1\x03\x02\x45\x40", id="a list for a property's name"),
    pytest.param(b"\x00\x53\x77\xc0\x03\x02\xff\xff", id="the body, as a list"),
    pytest.param(b"\x00\x53\x75\x41", id="the body, as a boolean"),
    pytest.param(b"\x00\x53\x78\xc1\x03\x02\xff\xff", id="the footer"),
]


@QUEUES
@pytest.mark.parametrize("section", POISON)
async def test_a_message_that_hides_garbage_never_stops_the_queue(
    served: Served, queue: str, section: bytes
) -> None:
    """Whether it is refused or passed on as it came, others behind it are served."""
    client = await served.client()
    sender = await client.sender(queue)
    sender.send(encode_properties(["poison"]) + section, 0)
    await client.outcome(0, 0, receiver=True)
    if await served.count(queue) == 0:
        return
    receiver = await client.receiver(queue)
    receiver.flow(link_credit=1)
    poison = await receiver.receive()
    changes: dict[object, object] = {Symbol("seen"): True}
    receiver.settle(poison, Modified(None, None, changes))
    await receiver.confirmed(poison)

    receiver.flow(link_credit=1)
    again = await receiver.receive()
    receiver.settle(again, Rejected(AmqpError(Symbol("com.microsoft:dead-letter"), "bad", None)))
    await receiver.confirmed(again)
    assert await sender.sent(message(b"good"), 1) == Accepted()
    receiver.flow(link_credit=1)

    assert see((await receiver.receive()).payload).body == b"good"


async def test_a_time_that_no_client_can_express_is_refused(served: Served) -> None:
    link = await (await served.client()).sender("orders")
    annotations: dict[object, object] = {
        Symbol("x-opt-scheduled-enqueue-time"): Timestamp(253_402_300_800_000)
    }

    error = await _rejection(link, message(annotations=annotations))

    assert error.condition == "com.microsoft:argument-out-of-range"
    assert await served.count("orders") == 1


@pytest.mark.spec("R8.1")
async def test_a_rejection_carries_all_three_fields_of_its_error(served: Served) -> None:
    """Pyamqp hangs when one is missing."""
    link = await (await served.client()).sender("orders")

    error = await _rejection(link, b"\xff")

    assert error.description is not None
    assert error.info == {}
