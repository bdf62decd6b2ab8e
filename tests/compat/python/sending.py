"""Sending: one, a list, a batch, large ones, with keys and without."""

from collections import Counter
from zlib import crc32

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError

from tests.compat.cases import CONVENTIONAL, PARTITIONED
from tests.compat.python.scenario import (
    Bus,
    bodies,
    body_of,
    is_empty,
    numbered,
    numbered_bodies,
    receive,
    receive_all,
    scenario,
)

FRAGMENTS = 16
LARGE = bytes(range(250)) * 1000


@pytest.mark.spec("R8.1")
@scenario()
def a_message_sent_alone_is_received_and_completed(bus: Bus) -> None:
    bus.send(ServiceBusMessage(b"hello", message_id="one"))
    with bus.receiver() as receiver:
        [message] = receive(receiver, 1)
        assert body_of(message) == b"hello"
        assert message.message_id == "one"
        assert message.delivery_count == 0
        assert message.lock_token is not None
        assert message.enqueued_time_utc is not None
        assert message.locked_until_utc is not None
        assert message.locked_until_utc > message.enqueued_time_utc
        receiver.complete_message(message)
        assert is_empty(receiver)


@scenario(kinds=[CONVENTIONAL])
def sequence_numbers_of_a_conventional_queue_have_no_gaps(bus: Bus) -> None:
    with bus.sender() as sender:
        sender.send_messages(numbered(3))
    bus.send(*numbered(2))
    with bus.receiver() as receiver:
        messages = receive_all(receiver, 5)
    assert [message.sequence_number for message in messages] == [1, 2, 3, 4, 5]


@scenario()
def a_list_of_messages_arrives_whole(bus: Bus) -> None:
    with bus.sender() as sender:
        sender.send_messages(numbered(20))
    with bus.receiver() as receiver:
        received = bodies(receive_all(receiver, 20))
    # One send is one fragment, so even a partitioned queue keeps the order here.
    assert received == numbered_bodies(20)


@scenario()
def a_batch_arrives_whole(bus: Bus) -> None:
    with bus.sender() as sender:
        batch = sender.create_message_batch()
        assert batch.max_size_in_bytes == 256 * 1024
        for message in numbered(100):
            batch.add_message(message)
        sender.send_messages(batch)
    with bus.receiver() as receiver:
        assert bodies(receive_all(receiver, 100)) == numbered_bodies(100)


@scenario()
def a_batch_filled_to_its_limit_is_taken(bus: Bus) -> None:
    with bus.sender() as sender:
        batch = sender.create_message_batch()
        count = 0
        while True:
            try:
                batch.add_message(ServiceBusMessage(b"x" * 10_000))
            except MessageSizeExceededError:
                break
            count += 1
        assert count > 20
        sender.send_messages(batch)
    with bus.receiver() as receiver:
        received = receive_all(receiver, count)
    assert all(body_of(message) == b"x" * 10_000 for message in received)


@scenario()
def a_message_of_250_kilobytes_arrives_unchanged(bus: Bus) -> None:
    bus.send(ServiceBusMessage(LARGE))
    with bus.receiver() as receiver:
        [peeked] = receiver.peek_messages(1)
        assert body_of(peeked) == LARGE
        [message] = receive_all(receiver, 1)
        assert body_of(message) == LARGE


@scenario()
def a_message_beyond_the_limit_is_refused_and_the_next_is_taken(bus: Bus) -> None:
    with bus.sender() as sender:
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(b"x" * 300_000))
        sender.send_messages(ServiceBusMessage(b"small"))
    with bus.receiver() as receiver:
        [message] = receive_all(receiver, 1)
        assert body_of(message) == b"small"
        assert is_empty(receiver)


@pytest.mark.spec("R2.1", "R2.3", "R2.6", "R3.6")
@scenario(kinds=[PARTITIONED])
def messages_of_one_key_stay_in_its_fragment_and_in_order(bus: Bus) -> None:
    bus.send(*numbered(10, partition_key="customer-7"))
    with bus.receiver() as receiver:
        messages = receive_all(receiver, 10)
    assert bodies(messages) == numbered_bodies(10)
    assert {_fragment(message.sequence_number) for message in messages} == {
        crc32(b"customer-7") % FRAGMENTS
    }
    assert all(message.partition_key == "customer-7" for message in messages)


@pytest.mark.spec("R2.4")
@scenario(kinds=[PARTITIONED])
def messages_without_a_key_spread_evenly_over_all_fragments(bus: Bus) -> None:
    bus.send(*numbered(2 * FRAGMENTS))
    with bus.receiver() as receiver:
        messages = receive_all(receiver, 2 * FRAGMENTS)
    spread = Counter(_fragment(message.sequence_number) for message in messages)
    assert spread == dict.fromkeys(range(FRAGMENTS), 2)


@pytest.mark.spec("R2.1")
@scenario(kinds=[PARTITIONED])
def a_batch_of_one_key_goes_to_its_fragment(bus: Bus) -> None:
    with bus.sender() as sender:
        sender.send_messages(numbered(5, session_id="s", partition_key="s"))
    with bus.receiver() as receiver:
        messages = receive_all(receiver, 5)
    assert bodies(messages) == numbered_bodies(5)
    assert {_fragment(message.sequence_number) for message in messages} == {crc32(b"s") % FRAGMENTS}
    assert all(message.session_id == "s" for message in messages)


def _fragment(sequence_number: int | None) -> int:
    assert sequence_number is not None
    return sequence_number >> 48
