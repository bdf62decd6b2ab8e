"""Forwarding as a client sees it on the wire (R6)."""

from pathlib import Path

import pytest

from bendybus.amqp.outcomes import Accepted
from bendybus.model.entity import Queue, QueueProperties
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import forwarding, listening, local_broker
from bendybus.testing.wire_client import connected, receiving
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import ROOT_LOGIN

QUEUES = [
    Queue("a", QueueProperties(forward_to="b", enable_partitioning=True)),
    Queue("b", QueueProperties(forward_to="c")),
    Queue("c", QueueProperties(enable_partitioning=True)),
    Queue("loop", QueueProperties(forward_to="loop.back")),
    Queue("loop.back", QueueProperties(forward_to="loop")),
]
pytestmark = pytest.mark.spec("R6")


async def test_a_forwarded_message_is_the_one_that_was_sent(tmp_path: Path) -> None:
    async with (
        local_broker(tmp_path, QUEUES, ManualClock(), stores=2) as broker,
        listening(broker) as listener,
        forwarding(broker),
        connected(listener.port) as client,
    ):
        await client.log_in("PLAIN", ROOT_LOGIN)
        await client.begin()
        sender = await client.sender("a")
        payload = message(b"body", partition_key="red", properties={"colour": "red"})
        assert await sender.sent(payload, 0) == Accepted()
        receiver = await client.receiver("c")
        receiver.flow(link_credit=1)
        seen = see((await receiver.receive()).payload)
        assert (seen.body, seen.properties[0]) == (b"body", "an-id")
        assert seen.application_properties == {"colour": "red"}
        assert seen.annotations["x-opt-partition-key"] == "red"
        # It is the first of its key's fragment here, as it was where it was sent.
        assert seen.annotations["x-opt-enqueue-sequence-number"] == seen.sequence
        assert seen.delivery_count == 0


@pytest.mark.parametrize("address", ["a", "b", "loop"])
async def test_a_receiver_of_a_queue_that_forwards_is_refused(tmp_path: Path, address: str) -> None:
    async with (
        local_broker(tmp_path, QUEUES, ManualClock(), stores=2) as broker,
        listening(broker) as listener,
        connected(listener.port) as client,
    ):
        await client.log_in("PLAIN", ROOT_LOGIN)
        await client.begin()
        link = await client.attach(receiving(address))
        refusal = (await link.detached()).error
        assert refusal is not None
        assert refusal.condition == "amqp:not-allowed"
        assert "auto-forwarding enabled" in (refusal.description or "")
        # Its dead letters can be received.
        link = await client.attach(receiving(f"{address}/$DeadLetterQueue", handle=2))
        assert link.answer.source is not None


async def test_a_loop_is_seen_in_the_transfer_dead_letter_queue(tmp_path: Path) -> None:
    async with (
        local_broker(tmp_path, QUEUES, ManualClock(), stores=2) as broker,
        listening(broker) as listener,
        forwarding(broker),
        connected(listener.port) as client,
    ):
        await client.log_in("PLAIN", ROOT_LOGIN)
        await client.begin()
        sender = await client.sender("loop")
        assert await sender.sent(message(b"round"), 0) == Accepted()
        receiver = await client.receiver("loop/$Transfer/$DeadLetterQueue")
        receiver.flow(link_credit=1)
        seen = see((await receiver.receive()).payload)
        assert seen.body == b"round"
        reason = seen.application_properties["DeadLetterReason"]
        assert reason == "MaxTransferHopCountExceeded"
        assert "4 times" in seen.application_properties["DeadLetterErrorDescription"]
        assert seen.annotations["x-opt-deadletter-source"] == "loop"
        assert seen.annotations["x-opt-enqueue-sequence-number"] == 1
