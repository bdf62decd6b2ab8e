"""The broker's own dead letters: too many deliveries, and time to live."""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage

from tests.compat.python.scenario import (
    Bus,
    body_of,
    gets_nothing,
    is_empty,
    numbered,
    receive,
    receive_all,
    scenario,
    until,
)


@pytest.mark.spec("R4")
@scenario(MaxDeliveryCount=3)
def a_message_abandoned_too_often_is_dead_lettered(bus: Bus) -> None:
    bus.send(*numbered(1))
    with bus.receiver() as receiver, bus.dead_letters() as dead_letters:
        for delivery in range(3):
            [message] = receive(receiver, 1)
            assert message.delivery_count == delivery
            receiver.abandon_message(message)
        [dead] = receive_all(dead_letters, 1)
        assert body_of(dead) == b"message 0"
        assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
        assert dead.dead_letter_error_description == (
            "Message could not be consumed after 3 delivery attempts."
        )
        assert dead.dead_letter_source == bus.queue
        assert is_empty(receiver)


@pytest.mark.spec("R4")
@scenario(MaxDeliveryCount=1, LockDuration="PT5S")
def a_message_whose_last_lock_ends_is_dead_lettered(bus: Bus) -> None:
    bus.send(*numbered(1))
    with bus.receiver() as receiver, bus.dead_letters() as dead_letters:
        [held] = receive(receiver, 1)
        [dead] = receive_all(dead_letters, 1)
        assert body_of(dead) == body_of(held)
        assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
        assert is_empty(receiver)


@pytest.mark.spec("R4")
@scenario(DeadLetteringOnMessageExpiration=True)
def an_expired_message_is_dead_lettered_where_the_queue_says_so(bus: Bus) -> None:
    bus.send(ServiceBusMessage(b"short", time_to_live=timedelta(seconds=1)))
    bus.send(ServiceBusMessage(b"long", time_to_live=timedelta(hours=1)))
    with bus.dead_letters() as dead_letters, bus.receiver() as receiver:
        [dead] = receive_all(dead_letters, 1)
        assert body_of(dead) == b"short"
        assert dead.dead_letter_reason == "TTLExpiredException"
        assert dead.dead_letter_error_description == "The message expired and was dead lettered."
        [message] = receive_all(receiver, 1)
        assert body_of(message) == b"long"
        assert is_empty(receiver)


@pytest.mark.spec("R4")
@scenario(DefaultMessageTimeToLive="PT1S")
def an_expired_message_is_dropped_by_default(bus: Bus) -> None:
    bus.send(ServiceBusMessage(b"own", time_to_live=timedelta(hours=1)), *numbered(1))
    with bus.receiver() as receiver, bus.dead_letters() as dead_letters:
        until(lambda: is_empty(receiver))
        assert gets_nothing(receiver)
        assert is_empty(dead_letters)


@scenario(DeadLetteringOnMessageExpiration=True, LockDuration="PT5S")
def a_message_does_not_expire_while_it_is_locked(bus: Bus) -> None:
    with bus.receiver() as receiver, bus.dead_letters() as dead_letters:
        bus.send(ServiceBusMessage(b"held", time_to_live=timedelta(seconds=3)))
        [held] = receive(receiver, 1)
        assert gets_nothing(dead_letters, 3.5)
        receiver.complete_message(held)
        assert is_empty(receiver)
        assert is_empty(dead_letters)
