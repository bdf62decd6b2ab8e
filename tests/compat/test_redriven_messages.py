"""What the official client sees of messages that were redriven: as if they had just been sent."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

from bendybus.client import Client, Redrive
from bendybus.testing.broker_process import BrokerProcess, broker_process

pytestmark = pytest.mark.spec("R8.2")
CONFIG = """
UserConfig:
  Namespaces:
  - Name: ours
    Queues:
    - Name: orders
      Properties: {DefaultMessageTimeToLive: PT1H, DeadLetteringOnMessageExpiration: true}
    - Name: parts
      Properties: {EnablePartitioning: true}
"""
QUEUES = pytest.mark.parametrize("queue", ["orders", "parts"])
WAIT_SECONDS = 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    config: Path = tmp_path_factory.mktemp("redriven") / "namespace.yaml"
    config.write_text(CONFIG)
    with broker_process(config) as running:
        yield running


@QUEUES
def test_a_redriven_message_is_as_it_was_sent(broker: BrokerProcess, queue: str) -> None:
    text = broker.connection_string()
    sent = ServiceBusMessage(
        b"body",
        message_id="m",
        partition_key="k",
        subject="label",
        application_properties={"colour": "red"},
    )
    with ServiceBusClient.from_connection_string(text) as client:
        client.get_queue_sender(queue).send_messages(sent)
        with client.get_queue_receiver(queue, max_wait_time=WAIT_SECONDS) as receiver:
            [first] = receiver.receive_messages(1)
            receiver.abandon_message(first)
            [again] = receiver.receive_messages(1)
            receiver.dead_letter_message(again, reason="unusable", error_description="why")
        with client.get_queue_receiver(
            queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER, max_wait_time=WAIT_SECONDS
        ) as dead_letters:
            [dead] = dead_letters.peek_messages(1)
            assert (dead.dead_letter_reason, dead.dead_letter_source) == ("unusable", queue)

        with Client.from_connection_string(text) as ours:
            assert ours.redrive(queue, Redrive(reason="unusable")).done == 1

        with client.get_queue_receiver(queue, max_wait_time=WAIT_SECONDS) as receiver:
            [back] = receiver.receive_messages(1)
            receiver.complete_message(back)
    assert (back.message_id, back.subject, back.partition_key) == ("m", "label", "k")
    assert b"".join(back.body) == b"body"
    assert back.application_properties == {b"colour": b"red"}
    assert (back.dead_letter_reason, back.dead_letter_source) == (None, None)
    assert back.delivery_count == 0
    assert back.enqueued_time_utc == first.enqueued_time_utc
    assert back.enqueued_sequence_number == first.sequence_number
    assert (back.sequence_number or 0) > (first.sequence_number or 0)
