"""Peeking: everything is seen once, nothing is locked, on both kinds of queue."""

import pytest
from azure.servicebus import (
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
)

from tests.compat.cases import CONVENTIONAL, PARTITIONED
from tests.compat.python.scenario import (
    FIRST,
    Bus,
    await_removal,
    bodies,
    body_of,
    is_empty,
    numbered,
    numbered_bodies,
    receive,
    receive_all,
    scenario,
)


@pytest.mark.spec("R3.5")
@scenario()
def peeking_locks_nothing(bus: Bus) -> None:
    bus.send(*numbered(1))
    with bus.receiver() as receiver:
        [peeked] = receiver.peek_messages(5)
        assert body_of(peeked) == b"message 0"
        assert peeked.state == ServiceBusMessageState.ACTIVE
        assert peeked.delivery_count == 0
        assert peeked.enqueued_time_utc is not None
        with pytest.raises(ValueError, match="peeked"):
            receiver.complete_message(peeked)
        [received] = receive_all(receiver, 1)
        assert received.sequence_number == peeked.sequence_number


@scenario()
def peeking_an_empty_queue_shows_nothing(bus: Bus) -> None:
    with bus.receiver() as receiver, bus.dead_letters() as dead_letters:
        assert receiver.peek_messages(10) == []
        assert dead_letters.peek_messages(10) == []


@pytest.mark.spec("R3.5")
@scenario(kinds=[CONVENTIONAL])
def peeking_a_conventional_queue_shows_the_oldest_first(bus: Bus) -> None:
    bus.send(*numbered(7))
    with bus.receiver() as receiver:
        assert bodies(receiver.peek_messages(3)) == numbered_bodies(7)[:3]
        assert bodies(receiver.peek_messages(3)) == numbered_bodies(7)[3:6]
        assert bodies(receiver.peek_messages(3, sequence_number=5)) == numbered_bodies(7)[4:]


@pytest.mark.spec("R2.6", "R3.5")
@scenario(kinds=[PARTITIONED])
def peeking_on_walks_a_partitioned_queue_and_shows_every_message_once(bus: Bus) -> None:
    """The client asks on from the last number plus one, which leads from fragment to fragment."""
    bus.send(*numbered(40))
    with bus.receiver() as receiver:
        seen = _walk(receiver, 7)
    numbers = [message.sequence_number or 0 for message in seen]
    assert numbers == sorted(set(numbers))
    assert sorted(bodies(seen)) == sorted(numbered_bodies(40))
    assert len({number >> 48 for number in numbers}) == 16


@pytest.mark.spec("R3.5")
@scenario()
def peeking_large_messages_shows_all_of_them_in_several_answers(bus: Bus) -> None:
    sent = [bytes([number]) * 100_000 for number in range(6)]
    bus.send(*map(ServiceBusMessage, sent))
    with bus.receiver() as receiver:
        first = receiver.peek_messages(6, sequence_number=FIRST)
        assert 1 <= len(first) <= 2, "one answer holds at most 256 KB"
        assert sorted(bodies(_walk(receiver, 6))) == sent


@scenario()
def peeking_shows_what_others_have_locked(bus: Bus) -> None:
    bus.send(*numbered(2))
    with bus.receiver() as receiver, bus.receiver() as other:
        [held] = receive(receiver, 1)
        assert sorted(bodies(_walk(other, 5))) == numbered_bodies(2)
        receiver.complete_message(held)
        await_removal(other, held)
        [left] = _walk(other, 5)
        assert body_of(left) != body_of(held)


@scenario()
def peeking_at_dead_letters_shows_why_they_are_there(bus: Bus) -> None:
    bus.send(*numbered(3))
    with bus.receiver() as receiver, bus.dead_letters() as dead_letters:
        for message in receive(receiver, 3):
            receiver.dead_letter_message(message, reason="reason", error_description="text")
        assert is_empty(receiver)
        dead = _walk(dead_letters, 2)
    assert sorted(bodies(dead)) == numbered_bodies(3)
    assert {message.dead_letter_reason for message in dead} == {"reason"}
    assert {message.dead_letter_error_description for message in dead} == {"text"}


def _walk(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """Peek from the beginning until nothing more comes."""
    seen: list[ServiceBusReceivedMessage] = []
    messages = receiver.peek_messages(count, sequence_number=FIRST)
    while messages:
        seen += messages
        messages = receiver.peek_messages(count)
    return seen
