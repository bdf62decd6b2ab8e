"""What a delivered message looks like: what its sender said, and what the broker adds."""

import uuid
from typing import Any

import pytest

from bendybus.amqp.outcomes import Accepted, Rejected
from bendybus.amqp.performatives import Transfer
from bendybus.amqp.sections import SectionCode, encode_properties, encode_section
from bendybus.amqp.values import (
    Described,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
)
from bendybus.testing.clock import NOON
from bendybus.testing.wire_client import WireClient
from tests.protocol.messaging.places import PLACES, sent_to
from tests.protocol.messaging.sample_messages import BATCH_FORMAT, Seen, batch, message, see
from tests.protocol.messaging.serving import LOCK_SECONDS, Served


async def _through(
    client: WireClient, payload: bytes, queue: str = "orders", *, settled: bool = False
) -> Seen:
    """Send a message and return it as it is delivered."""
    sender = await client.sender(sent_to(queue))
    assert await sender.sent(payload, 0) == Accepted()
    receiver = await client.receiver(queue, settled=settled)
    receiver.flow(link_credit=1)
    delivery = await receiver.receive()
    assert delivery.settled is settled
    assert delivery.message_format == 0
    assert len(delivery.tag) == 16
    return see(delivery.payload)


@pytest.mark.spec("R8.1")
@pytest.mark.amqp("3.2.3")
async def test_the_annotations_of_the_broker_have_the_types_that_clients_cast_to(
    served: Served,
) -> None:
    seen = await _through(await served.client(), message())

    assert seen.annotations == {
        "x-opt-sequence-number": 1,
        "x-opt-enqueue-sequence-number": 1,
        "x-opt-enqueued-time": NOON,
        "x-opt-message-state": 0,
        "x-opt-locked-until": NOON + LOCK_SECONDS * 1000,
    }
    assert {key: type(value) for key, value in seen.annotations.items()} == {
        "x-opt-sequence-number": Long,
        "x-opt-enqueue-sequence-number": Long,
        "x-opt-enqueued-time": Timestamp,
        "x-opt-message-state": Int,
        "x-opt-locked-until": Timestamp,
    }
    assert all(type(key) is Symbol for key in seen.annotations)


@pytest.mark.spec("R2.6")
async def test_a_partitioned_queue_adds_the_partition_as_a_short(served: Served) -> None:
    seen = await _through(await served.client(), message(), "parts")

    partition = seen.annotations["x-opt-partition-id"]
    assert type(partition) is Short
    assert partition == seen.sequence >> 48


@pytest.mark.spec("R8.1")
@PLACES
async def test_the_tag_is_the_lock_token_in_the_byte_order_of_dot_net(
    served: Served, queue: str
) -> None:
    client = await served.client()
    sender = await client.sender(sent_to(queue))
    await sender.sent(message(), 0)
    receiver = await client.receiver(queue)
    receiver.flow(link_credit=1)

    delivery = await receiver.receive()

    assert uuid.UUID(bytes_le=delivery.tag) == see(delivery.payload).token


@pytest.mark.spec("R4")
@PLACES
async def test_receive_and_delete_delivers_settled_without_a_lock(
    served: Served, queue: str
) -> None:
    seen = await _through(await served.client(), message(), queue, settled=True)

    assert seen.delivery_annotations == {}
    assert "x-opt-locked-until" not in seen.annotations
    assert await served.count(queue) == 0


@pytest.mark.spec("R8.1")
@pytest.mark.amqp("3.2.1")
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(message(), id="none sent"),
        pytest.param(message(annotations={Symbol("x"): 1}), id="none sent, annotated"),
    ],
)
async def test_there_is_always_a_header_with_all_five_fields(
    served: Served, payload: bytes
) -> None:
    seen = await _through(await served.client(), payload)

    assert seen.header == [False, 4, None, False, 0]
    assert type(seen.header[4]) is Uint
    assert type(seen.header[1]) is Ubyte


@pytest.mark.spec("R4")
async def test_durability_and_priority_come_back(served: Served) -> None:
    header = encode_section(SectionCode.HEADER, [True, Ubyte(9), None, True, Uint(5)])

    seen = await _through(await served.client(), header + message())

    assert seen.header == [True, 9, None, False, 0]


@pytest.mark.spec("R4")
async def test_a_time_to_live_comes_back_as_it_was_sent(served: Served) -> None:
    seen = await _through(await served.client(), message(time_to_live_ms=60_000))

    assert seen.header[2] == 60_000
    assert type(seen.header[2]) is Uint


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize("message_id", ["text", Ulong(7), uuid.UUID(int=7), b"\x01\x02", "x" * 128])
async def test_a_message_id_keeps_its_type(served: Served, message_id: object) -> None:
    seen = await _through(await served.client(), message(message_id=message_id))

    assert seen.properties[0] == message_id
    assert type(seen.properties[0]) is type(message_id)


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(message(message_id=None), id="null"),
        pytest.param(encode_section(SectionCode.DATA, b"x"), id="no properties"),
        pytest.param(encode_section(SectionCode.PROPERTIES, []), id="empty properties, no body"),
    ],
)
async def test_a_message_without_an_id_gets_one(served: Served, payload: bytes) -> None:
    seen = await _through(await served.client(), payload)

    assert len(seen.properties[0]) == 32
    assert uuid.UUID(seen.properties[0]).version == 4


@pytest.mark.spec("R8.1")
@pytest.mark.amqp("3.2.8")
@pytest.mark.parametrize(
    ("code", "value"),
    [
        (SectionCode.DATA, b"bytes"),
        (SectionCode.DATA, b""),
        (SectionCode.DATA, b"x" * 300),
        (SectionCode.AMQP_SEQUENCE, [1, "two", None]),
        (SectionCode.AMQP_VALUE, {"a": [1, {"b": Symbol("c")}]}),
        (SectionCode.AMQP_VALUE, None),
        (SectionCode.AMQP_VALUE, "text"),
    ],
)
async def test_every_form_of_body_comes_back(
    served: Served, code: SectionCode, value: object
) -> None:
    payload = encode_properties(["id"]) + encode_section(code, value)

    seen = await _through(await served.client(), payload)

    assert seen.codes[-1] == code
    assert seen.body == value


@pytest.mark.spec("R8.1")
async def test_a_message_may_have_no_body(served: Served) -> None:
    seen = await _through(await served.client(), encode_properties(["id"]))

    assert seen.codes[-1] == SectionCode.PROPERTIES


@pytest.mark.spec("R8.1")
async def test_application_properties_keep_their_types(served: Served) -> None:
    properties: dict[object, object] = {
        "ulong": Ulong(1),
        "int": Int(-1),
        "uuid": uuid.UUID(int=1),
        "when": Timestamp(NOON),
        "span": Described(Symbol("com.microsoft:timespan"), Long(10)),
        "null": None,
        "text": "ünïcode",
    }

    seen = await _through(await served.client(), message(properties=properties))

    assert seen.application_properties == properties
    assert [type(value) for value in seen.application_properties.values()] == [
        type(value) for value in properties.values()
    ]


@pytest.mark.spec("R8.1")
@pytest.mark.amqp("3.2")
async def test_sections_in_any_order_come_back_in_the_right_one(served: Served) -> None:
    """Pyamqp sends delivery annotations behind the body."""
    own: dict[object, object] = {Symbol("x-own"): "delivery"}
    payload = message(annotations={Symbol("y-own"): "message"}) + encode_section(
        SectionCode.DELIVERY_ANNOTATIONS, own
    )

    seen = await _through(await served.client(), payload)

    assert seen.codes == sorted(seen.codes)
    assert seen.delivery_annotations["x-own"] == "delivery"
    assert seen.annotations["y-own"] == "message"
    assert seen.body == b"hello"


@pytest.mark.spec("R8.1")
async def test_a_received_message_that_is_sent_again_gets_new_annotations(served: Served) -> None:
    client = await served.client()
    sender = await client.sender("orders")
    receiver = await client.receiver("orders")
    receiver.flow(link_credit=2)
    await sender.sent(message(), 0)
    first = await receiver.receive()

    assert await sender.sent(first.payload, 1) == Accepted()
    second = see((await receiver.receive()).payload)

    assert second.sequence == 2
    assert second.token != see(first.payload).token
    assert len(second.annotations) == 5


@pytest.mark.spec("R8.1")
async def test_the_partition_key_comes_back_unchanged(served: Served) -> None:
    seen = await _through(await served.client(), message(partition_key="k"), "parts")

    assert seen.annotations["x-opt-partition-key"] == "k"


@pytest.mark.spec("R8.1")
async def test_a_session_id_on_a_partitioned_queue_comes_back_as_partition_key_too(
    served: Served,
) -> None:
    seen = await _through(await served.client(), message(session_id="s"), "parts")

    assert seen.annotations["x-opt-partition-key"] == "s"
    assert seen.properties[10] == "s"


@pytest.mark.amqp("2.6.14")
@pytest.mark.spec("R4")
@PLACES
async def test_a_large_message_goes_in_frames_both_ways(served: Served, queue: str) -> None:
    client = await served.client(max_frame_size=4096)
    sender = await client.sender(sent_to(queue))
    body = bytes(range(256)) * 1000
    payload = message(body)
    size = 30_000
    parts = [payload[at : at + size] for at in range(0, len(payload), size)]
    for index, part in enumerate(parts):
        first: dict[str, Any] = {"delivery_id": 0, "delivery_tag": b"t", "message_format": 0}
        client.say(
            Transfer(
                handle=sender.handle, more=index < len(parts) - 1, **(first if index == 0 else {})
            ),
            payload=part,
        )
    assert await client.outcome(0, 0, receiver=True) == Accepted()

    receiver = await client.receiver(queue)
    receiver.flow(link_credit=1)
    delivery = await receiver.receive()

    assert see(delivery.payload).body == body
    assert delivery.frame_count >= len(body) // 4096


@pytest.mark.amqp("2.6.14")
async def test_an_aborted_delivery_leaves_nothing(served: Served) -> None:
    client = await served.client()
    sender = await client.sender("orders")

    sender.send(message()[:10], 0, more=True)
    client.say(Transfer(handle=sender.handle, aborted=True))

    assert await sender.sent(message(b"next"), 1) == Accepted()
    assert await served.count("orders") == 1


@pytest.mark.amqp("2.7.5")
async def test_transfers_have_all_their_fields(served: Served) -> None:
    client = await served.client()
    await (await client.sender("orders")).sent(message(), 0)
    receiver = await client.receiver("orders")

    receiver.flow(link_credit=1)

    assert (await client.hear(Transfer)).field_count == 11


# Batches


@pytest.mark.spec("R4")
@PLACES
async def test_a_batch_arrives_as_its_messages_in_order(served: Served, queue: str) -> None:
    client = await served.client()
    sender = await client.sender(sent_to(queue))
    inner = [message(b"%d" % number, message_id=f"id-{number}") for number in range(5)]
    envelope = encode_properties(["id-0"]) + batch(*inner)

    assert await sender.sent(envelope, 0, message_format=BATCH_FORMAT) == Accepted()

    receiver = await client.receiver(queue)
    receiver.flow(link_credit=5)
    seen = [see((await receiver.receive()).payload) for _ in range(5)]
    assert [(each.body, each.properties[0]) for each in seen] == [
        (b"%d" % number, f"id-{number}") for number in range(5)
    ]


@pytest.mark.spec("R2.2")
async def test_a_batch_with_two_keys_is_refused_whole_on_a_partitioned_queue(
    served: Served,
) -> None:
    client = await served.client()
    payload = batch(message(partition_key="a"), message(partition_key="b"))

    partitioned = await client.sender("parts", handle=2)
    outcome = await partitioned.sent(payload, 0, message_format=BATCH_FORMAT)
    conventional = await client.sender("orders", handle=3)

    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == "amqp:not-allowed"
    assert await served.count("parts") == 0
    assert await conventional.sent(payload, 1, message_format=BATCH_FORMAT) == Accepted()
    assert await served.count("orders") == 2


@pytest.mark.spec("R2.3")
async def test_a_batch_goes_to_the_fragment_of_its_key(served: Served) -> None:
    client = await served.client()
    sender = await client.sender("parts")
    payload = batch(message(partition_key="k"), message(partition_key="k"))
    await sender.sent(message(partition_key="k"), 0)

    assert await sender.sent(payload, 1, message_format=BATCH_FORMAT) == Accepted()

    assert sorted(await served.counts_by_fragment("parts")) == [0] * 15 + [3]
