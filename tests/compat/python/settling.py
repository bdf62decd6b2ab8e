"""Settling: complete, abandon, dead-letter, on the link, from elsewhere and after it is gone."""

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageNotFoundError,
    ServiceBusError,
)

from tests.compat.python.scenario import (
    FIRST,
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


@pytest.mark.spec("R4")
@scenario()
def an_abandoned_message_comes_back_counted(bus: Bus) -> None:
    bus.send(*numbered(1))
    with bus.receiver() as receiver:
        [first] = receive(receiver, 1)
        receiver.abandon_message(first)
        [second] = receive(receiver, 1)
        assert second.sequence_number == first.sequence_number
        assert second.lock_token != first.lock_token
        assert (first.delivery_count, second.delivery_count) == (0, 1)
        receiver.complete_message(second)
        assert is_empty(receiver)


@scenario()
def a_message_is_settled_once_only(bus: Bus) -> None:
    bus.send(*numbered(1))
    with bus.receiver() as receiver:
        [message] = receive(receiver, 1)
        receiver.complete_message(message)
        with pytest.raises(MessageAlreadySettled):
            receiver.abandon_message(message)


@pytest.mark.spec("R4")
@scenario()
def a_dead_letter_carries_reason_and_description(bus: Bus) -> None:
    bus.send(ServiceBusMessage(b"bad", application_properties={"colour": "red"}))
    with bus.receiver() as receiver, bus.dead_letters() as dead_letters:
        [message] = receive(receiver, 1)
        receiver.dead_letter_message(message, reason="unreadable", error_description="no colour")
        assert is_empty(receiver)
        [dead] = receive(dead_letters, 1)
        assert body_of(dead) == b"bad"
        assert dead.dead_letter_reason == "unreadable"
        assert dead.dead_letter_error_description == "no colour"
        assert dead.dead_letter_source == bus.queue
        assert dead.message_id == message.message_id
        properties = dead.application_properties
        assert properties is not None
        assert properties[b"colour"] == b"red"
        assert properties[b"DeadLetterReason"] == b"unreadable"
        dead_letters.complete_message(dead)
        assert is_empty(dead_letters)


@scenario()
def a_dead_letter_needs_no_reason(bus: Bus) -> None:
    bus.send(*numbered(1))
    with bus.receiver() as receiver, bus.dead_letters() as dead_letters:
        receiver.dead_letter_message(receive(receiver, 1)[0])
        [dead] = receive_all(dead_letters, 1)
        assert body_of(dead) == b"message 0"
        assert dead.dead_letter_source == bus.queue


@scenario()
def dead_letters_can_be_abandoned_but_not_dead_lettered_again(bus: Bus) -> None:
    bus.send(*numbered(1))
    with bus.receiver() as receiver, bus.dead_letters() as dead_letters:
        receiver.dead_letter_message(receive(receiver, 1)[0])
        [dead] = receive(dead_letters, 1)
        dead_letters.abandon_message(dead)
        [dead] = receive(dead_letters, 1)
        refused: list[ServiceBusError] = []
        try:
            dead_letters.dead_letter_message(dead)
        except ServiceBusError as error:
            refused.append(error)
        # Older clients do not wait for the answer; for them it only must not have moved.
        [still_there] = dead_letters.peek_messages(2, sequence_number=FIRST)
        assert still_there.sequence_number == dead.sequence_number
        assert all("dead-lettered again" in str(error) for error in refused)


@scenario()
def one_receiver_settles_what_another_received(bus: Bus) -> None:
    """The client then asks the management node, by lock token alone."""
    bus.send(*numbered(3))
    with bus.receiver() as first, bus.receiver() as second, bus.dead_letters() as dead_letters:
        held = receive(first, 3)
        assert second.peek_messages(3)
        second.complete_message(held[0])
        second.abandon_message(held[1])
        second.dead_letter_message(held[2], reason="r", error_description="d")
        [dead] = receive_all(dead_letters, 1)
        assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("r", "d")
        assert body_of(dead) == body_of(held[2])
        [again] = receive_all(second, 1)
        assert body_of(again) == body_of(held[1])
        assert again.delivery_count == 1
        assert is_empty(second)


# Older clients talk on to the link and never notice that nobody listens.
@scenario(is_for_newest=True)
def a_message_is_settled_after_its_link_is_gone(bus: Bus) -> None:
    bus.send(*numbered(3))
    with bus.receiver() as receiver, bus.dead_letters() as dead_letters:
        held = receive(receiver, 3)
        receiver._handler._link.detach()  # type: ignore[union-attr]  # it is open
        receiver.complete_message(held[0])
        receiver.abandon_message(held[1])
        receiver.dead_letter_message(held[2], reason="r", error_description="d")
        [dead] = receive_all(dead_letters, 1)
        assert body_of(dead) == body_of(held[2])
        with bus.receiver() as other:
            [again] = receive_all(other, 1)
            assert body_of(again) == body_of(held[1])
            assert is_empty(other)


@scenario()
def many_messages_are_settled_in_any_order(bus: Bus) -> None:
    with bus.sender() as sender:
        sender.send_messages(numbered(40))
    with bus.receiver() as receiver:
        held = receive(receiver, 40)
        for message in reversed(held[::2]):
            receiver.complete_message(message)
        for message in held[1::2]:
            receiver.abandon_message(message)
        again = receive_all(receiver, 20)
        assert sorted(bodies(again)) == sorted(numbered_bodies(40)[1::2])
        assert is_empty(receiver)


@scenario()
def a_deferred_message_is_had_back_by_its_number_alone(bus: Bus) -> None:
    bus.send(*numbered(3))
    with bus.receiver() as receiver:
        messages = receive(receiver, 3)
        for message in messages:
            receiver.defer_message(message)
        assert receiver.receive_messages(max_message_count=1, max_wait_time=1) == []
    with bus.receiver() as receiver:
        numbers = [message.sequence_number or 0 for message in messages]
        found = receiver.receive_deferred_messages(numbers)
        assert bodies(found) == bodies(messages)
        assert [message.state for message in found] == [ServiceBusMessageState.DEFERRED] * 3
        receiver.complete_message(found[0])
        receiver.dead_letter_message(found[1], reason="late")
        receiver.abandon_message(found[2])
        [again] = receiver.receive_deferred_messages(numbers[2])
        assert again.delivery_count == 1
        receiver.complete_message(again)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(numbers[0])
