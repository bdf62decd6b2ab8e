"""Receiving: both modes, waiting, iterating, prefetching, and what comes when nobody asked."""

import time

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode

from tests.compat.python.scenario import (
    Bus,
    bodies,
    body_of,
    gets_nothing,
    is_empty,
    numbered,
    numbered_bodies,
    receive,
    receive_all,
    scenario,
)


@pytest.mark.spec("R4")
@scenario()
def a_message_received_and_deleted_is_gone(bus: Bus) -> None:
    bus.send(*numbered(3))
    with bus.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        messages = receive(receiver, 3)
        assert sorted(bodies(messages)) == numbered_bodies(3)
        assert all(message.lock_token is None for message in messages)
        assert is_empty(receiver)
        with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
            receiver.complete_message(messages[0])


@scenario()
def prefetched_messages_in_receive_and_delete_each_come_once(bus: Bus) -> None:
    with bus.sender() as sender:
        sender.send_messages(numbered(300))
    with bus.receiver(
        receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE, prefetch_count=300
    ) as receiver:
        assert bodies(receive(receiver, 300)) == numbered_bodies(300)
        assert is_empty(receiver)


@pytest.mark.spec("R3.3")
@scenario()
def a_locked_message_is_not_given_to_another_receiver(bus: Bus) -> None:
    bus.send(*numbered(1))
    with bus.receiver() as first, bus.receiver() as second:
        [message] = receive(first, 1)
        assert gets_nothing(second)
        first.complete_message(message)
        assert is_empty(second)


@scenario()
def an_empty_queue_answers_nothing_after_the_wait_that_was_asked_for(bus: Bus) -> None:
    with bus.receiver() as receiver:
        assert receiver.receive_messages(1, max_wait_time=0.1) == []
        begin = time.monotonic()
        assert receiver.receive_messages(5, max_wait_time=2) == []
        assert 1.5 < time.monotonic() - begin < 10


@pytest.mark.spec("R3.1")
@scenario()
def a_message_that_comes_during_the_wait_ends_it(bus: Bus) -> None:
    with bus.sender() as sender, bus.receiver() as receiver:
        assert gets_nothing(receiver, 0.2)
        sender.send_messages(ServiceBusMessage(b"late"))
        begin = time.monotonic()
        [message] = receiver.receive_messages(1, max_wait_time=30)
        assert time.monotonic() - begin < 15
        assert body_of(message) == b"late"
        receiver.complete_message(message)


@scenario()
def an_iterator_yields_everything_and_ends_when_nothing_comes(bus: Bus) -> None:
    with bus.sender() as sender:
        sender.send_messages(numbered(10))
    received = []
    with bus.receiver(max_wait_time=2) as receiver:
        for message in receiver:
            received.append(body_of(message))
            receiver.complete_message(message)
        assert is_empty(receiver)
    assert received == numbered_bodies(10)


@scenario()
def a_large_prefetch_delivers_every_message_once(bus: Bus) -> None:
    with bus.sender() as sender:
        for _ in range(2):
            sender.send_messages(numbered(250))
    with bus.receiver(prefetch_count=300) as receiver:
        messages = receive_all(receiver, 500)
        assert is_empty(receiver)
    assert sorted(bodies(messages)) == sorted(numbered_bodies(250) * 2)
    assert len({message.sequence_number for message in messages}) == 500
    assert {message.delivery_count for message in messages} == {0}


@scenario()
def a_message_that_comes_when_nobody_asks_is_given_back_uncounted(bus: Bus) -> None:
    """Without prefetch the client returns what arrives between two calls, as if never seen."""
    with bus.sender() as sender, bus.receiver() as first:
        assert gets_nothing(first, 0.2)
        sender.send_messages(ServiceBusMessage(b"stray"))
        with bus.receiver() as second:
            [message] = receive_all(second, 1)
        assert body_of(message) == b"stray"
        assert message.delivery_count == 0
        assert is_empty(first)


# Older clients leave without giving back what they had not shown to anybody.
@pytest.mark.spec("R3.2")
@scenario(is_for_newest=True)
def what_a_closed_receiver_had_prefetched_is_free_at_once_and_uncounted(bus: Bus) -> None:
    with bus.sender() as sender:
        sender.send_messages(numbered(30))
    with bus.receiver(prefetch_count=20) as first:
        [message] = receive(first, 1)
        first.complete_message(message)
    with bus.receiver() as second:
        others = receive_all(second, 29)
        assert is_empty(second)
    assert body_of(message) not in bodies(others)
    assert {each.delivery_count for each in others} == {0}


# Only a client that waits for the answer knows when the messages are back.
@pytest.mark.spec("R3.6")
@scenario(is_for_newest=True)
def what_is_given_back_returns_to_its_old_place(bus: Bus) -> None:
    bus.send(*numbered(4, partition_key="k"))
    with bus.receiver() as receiver:
        first, second = receive(receiver, 2)
        receiver.abandon_message(second)
        receiver.abandon_message(first)
        assert bodies(receive_all(receiver, 4)) == numbered_bodies(4)
