"""Messages that are taken to another queue, of the other kind, by the broker itself."""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiver, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError

from tests.compat.cases import PARTITIONED
from tests.compat.python.scenario import (
    Bus,
    bodies,
    is_empty,
    numbered,
    numbered_bodies,
    receive_all,
    scenario,
    until,
)

END = "{queue}.end"


def end_of(bus: Bus) -> str:
    """The queue that a scenario's own forwards to."""
    return END.format(queue=bus.queue)


def is_gone(receiver: ServiceBusReceiver) -> bool:
    return not receiver.peek_messages(1, sequence_number=1)


@pytest.mark.spec("R6")
@scenario(ForwardTo=END)
def what_is_sent_to_a_forwarding_queue_is_received_where_it_leads(bus: Bus) -> None:
    bus.send(*numbered(5, partition_key="a key", time_to_live=timedelta(hours=1)))
    bus.send(ServiceBusMessage(b"last", partition_key="a key", subject="with a label"))
    with bus.client() as client, client.get_queue_receiver(end_of(bus)) as receiver:
        messages = receive_all(receiver, 6)
        assert sorted(bodies(messages)) == [b"last", *numbered_bodies(5)]
        last = next(each for each in messages if bodies([each]) == [b"last"])
        assert last.subject == "with a label"
        assert last.partition_key == "a key"
        assert last.delivery_count == 0
        assert last.enqueued_sequence_number is not None
        assert is_empty(receiver)


@pytest.mark.spec("R6")
@scenario(ForwardTo=END)
def a_queue_that_forwards_has_no_receivers_but_can_be_looked_at(bus: Bus) -> None:
    with (
        bus.client(retry_total=0) as client,
        pytest.raises(ServiceBusError, match="auto-forwarding"),
        client.get_queue_receiver(bus.queue) as receiver,
    ):
        receiver.receive_messages(max_wait_time=1)
    with bus.dead_letters() as dead_letters:
        assert is_empty(dead_letters)


@pytest.mark.spec("R6")
@scenario(ForwardDeadLetteredMessagesTo=END)
def dead_letters_are_forwarded_with_all_that_was_said(bus: Bus) -> None:
    bus.send(ServiceBusMessage(b"bad", application_properties={"colour": "red"}))
    with bus.receiver() as receiver:
        [message] = receiver.receive_messages(max_wait_time=30)
        receiver.dead_letter_message(message, reason="unreadable", error_description="no colour")
    with (
        bus.client() as client,
        client.get_queue_receiver(end_of(bus)) as receiver,
        bus.dead_letters() as dead_letters,
    ):
        [dead] = receive_all(receiver, 1)
        assert bodies([dead]) == [b"bad"]
        assert dead.dead_letter_reason == "unreadable"
        assert dead.dead_letter_error_description == "no colour"
        assert dead.dead_letter_source == bus.queue
        assert (dead.application_properties or {})[b"colour"] == b"red"
        until(lambda: is_gone(dead_letters))


@pytest.mark.spec("R6")
@scenario(kinds=(PARTITIONED,), ForwardTo="{queue}.back")
def what_goes_round_is_found_in_the_transfer_dead_letters(bus: Bus) -> None:
    bus.send(*numbered(2))
    with bus.receiver(sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER) as dead_letters:
        messages = receive_all(dead_letters, 2)
        assert sorted(bodies(messages)) == numbered_bodies(2)
        reasons = {message.dead_letter_reason for message in messages}
        assert reasons == {"MaxTransferHopCountExceeded"}
        assert is_empty(dead_letters)
