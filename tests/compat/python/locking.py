"""Locks: renewing them, by hand and by itself, and what happens when one ends."""

from datetime import UTC, datetime

import pytest
from azure.servicebus import AutoLockRenewer, ServiceBusReceivedMessage
from azure.servicebus.exceptions import MessageLockLostError

from tests.compat.python.scenario import (
    Bus,
    awaits_settlements,
    gets_nothing,
    is_empty,
    numbered,
    receive,
    scenario,
)


@pytest.mark.spec("R4")
@scenario(LockDuration="PT5S")
def a_renewed_lock_outlasts_its_first_end(bus: Bus) -> None:
    bus.send(*numbered(1))
    with bus.receiver() as receiver, bus.receiver() as other:
        [message] = receive(receiver, 1)
        first_end = _locked_until(message)
        assert gets_nothing(other, 2.5)
        renewed = receiver.renew_message_lock(message)
        assert renewed == _locked_until(message)
        assert (renewed - first_end).total_seconds() > 1
        assert gets_nothing(other, (first_end - datetime.now(UTC)).total_seconds() + 0.5)
        receiver.complete_message(message)
        assert is_empty(other)


@pytest.mark.spec("R3.3")
@scenario(LockDuration="PT5S")
def a_message_whose_lock_ended_is_lost_to_its_holder_and_comes_again(bus: Bus) -> None:
    bus.send(*numbered(1))
    with bus.receiver() as slow, bus.receiver() as other:
        [lost] = receive(slow, 1)
        [again] = receive(other, 1)
        assert again.sequence_number == lost.sequence_number
        assert again.delivery_count == 1
        assert datetime.now(UTC) >= _locked_until(lost)
        with pytest.raises(MessageLockLostError):
            slow.complete_message(lost)
        with pytest.raises(MessageLockLostError):
            slow.renew_message_lock(lost)
        other.complete_message(again)
        assert is_empty(other)


@scenario(LockDuration="PT5S")
def the_broker_itself_refuses_to_settle_under_a_lock_that_ended(bus: Bus) -> None:
    """Told a wrong time the client would not notice; the answer must come from the broker."""
    bus.send(*numbered(1))
    with bus.receiver() as slow, bus.receiver() as other:
        [lost] = receive(slow, 1)
        [again] = receive(other, 1)
        lost._expiry = datetime.max.replace(tzinfo=UTC)
        with pytest.raises(MessageLockLostError):
            slow.renew_message_lock(lost)
        lost._expiry = datetime.max.replace(tzinfo=UTC)
        if awaits_settlements():
            with pytest.raises(MessageLockLostError):
                slow.complete_message(lost)
        else:
            slow.complete_message(lost)
        other.renew_message_lock(again)
        other.complete_message(again)
        assert is_empty(other)


@pytest.mark.spec("R4")
@scenario(LockDuration="PT10S")
def the_auto_lock_renewer_holds_a_lock_while_work_goes_on(bus: Bus) -> None:
    bus.send(*numbered(2))
    failures: list[str] = []
    with AutoLockRenewer() as renewer, bus.receiver() as receiver, bus.receiver() as other:
        held = receive(receiver, 2)
        first_end = max(_locked_until(message) for message in held)
        for message in held:
            renewer.register(
                receiver,
                message,
                max_lock_renewal_duration=60,
                on_lock_renew_failure=lambda _, error: failures.append(repr(error)),
            )
        is_held = gets_nothing(other, 13)
        assert failures == []
        assert is_held
        assert all(_locked_until(message) > first_end for message in held)
        for message in held:
            receiver.complete_message(message)
        assert is_empty(other)


@scenario(LockDuration="PT5S")
def a_receiver_with_its_own_renewer_keeps_what_it_receives(bus: Bus) -> None:
    bus.send(*numbered(1))
    with AutoLockRenewer() as renewer, bus.receiver(auto_lock_renewer=renewer) as receiver:
        [message] = receive(receiver, 1)
        with bus.receiver() as other:
            assert gets_nothing(other, 7)
        receiver.complete_message(message)
        assert is_empty(receiver)


def _locked_until(message: ServiceBusReceivedMessage) -> datetime:
    locked_until = message.locked_until_utc
    assert locked_until is not None
    return locked_until
