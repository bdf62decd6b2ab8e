"""Messages that come later or were there before: schedules, cancelling, duplicates."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import MessageNotFoundError, MessageSizeExceededError

from tests.compat.python.scenario import (
    FIRST,
    Bus,
    bodies,
    body_of,
    gets_nothing,
    is_empty,
    numbered,
    numbered_bodies,
    receive_all,
    scenario,
)

DELAY = timedelta(seconds=6)
TOMORROW = timedelta(days=1)


def soon(delay: timedelta = DELAY) -> datetime:
    """Return a time that comes within the scenario, to the millisecond."""
    at = datetime.now(UTC) + delay
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


@pytest.mark.spec("R4")
@scenario()
def scheduled_messages_come_when_their_time_has_come(bus: Bus) -> None:
    at = soon()
    with bus.sender() as sender, bus.receiver() as receiver:
        numbers = sender.schedule_messages(numbered(3), at)
        assert len(set(numbers)) == 3
        [shown] = receiver.peek_messages(1, sequence_number=FIRST)
        assert shown.state is ServiceBusMessageState.SCHEDULED
        assert shown.sequence_number in numbers
        assert gets_nothing(receiver)
        came = receive_all(receiver, 3)
        assert datetime.now(UTC) >= at
        assert sorted(bodies(came)) == numbered_bodies(3)
        assert [each.state for each in came] == [ServiceBusMessageState.ACTIVE] * 3
        assert {each.enqueued_time_utc for each in came} == {at}
        assert not set(numbers) & {each.sequence_number for each in came}
        assert is_empty(receiver)


@pytest.mark.spec("R4")
@scenario()
def an_ordinary_send_schedules_too(bus: Bus) -> None:
    at = soon()
    with bus.sender() as sender, bus.receiver() as receiver:
        batch = sender.create_message_batch()
        batch.add_message(ServiceBusMessage(b"at once"))
        batch.add_message(ServiceBusMessage(b"batched", scheduled_enqueue_time_utc=at))
        sender.send_messages(batch)
        sender.send_messages(ServiceBusMessage(b"alone", scheduled_enqueue_time_utc=at))
        assert bodies(receive_all(receiver, 1)) == [b"at once"]
        came = receive_all(receiver, 2)
        assert sorted(bodies(came)) == [b"alone", b"batched"]
        assert {each.scheduled_enqueue_time_utc for each in came} == {at}


@scenario()
def a_time_in_the_past_means_at_once(bus: Bus) -> None:
    with bus.sender() as sender, bus.receiver() as receiver:
        sender.schedule_messages(ServiceBusMessage(b"late"), datetime.now(UTC) - TOMORROW)
        assert bodies(receive_all(receiver, 1)) == [b"late"]


@pytest.mark.spec("R4")
@scenario()
def cancelled_messages_never_come(bus: Bus) -> None:
    with bus.sender() as sender, bus.receiver() as receiver:
        numbers = sender.schedule_messages(numbered(5), soon(TOMORROW))
        numbers += sender.schedule_messages(ServiceBusMessage(b"another"), soon(TOMORROW))
        sender.cancel_scheduled_messages(numbers[1:])
        [left] = receiver.peek_messages(10, sequence_number=FIRST)
        assert body_of(left) == b"message 0"
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers)
        sender.cancel_scheduled_messages(numbers[0])
        assert is_empty(receiver)
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers[0])


@scenario()
def what_is_too_large_is_not_scheduled(bus: Bus) -> None:
    with bus.sender() as sender, bus.receiver() as receiver:
        with pytest.raises(MessageSizeExceededError):
            sender.schedule_messages(ServiceBusMessage(b"x" * 300_000), soon(TOMORROW))
        assert is_empty(receiver)


@pytest.mark.spec("R4")
@scenario(RequiresDuplicateDetection=True)
def a_message_that_is_sent_twice_comes_once(bus: Bus) -> None:
    first = [ServiceBusMessage(b"%d" % n, message_id=f"id {n}") for n in range(10)]
    again = [ServiceBusMessage(b"again", message_id=f"id {n}") for n in range(10)]
    with bus.sender() as sender, bus.receiver() as receiver:
        sender.send_messages(first[0])
        sender.send_messages(first)
        sender.send_messages(again[3])
        sender.send_messages(again)
        assert sender.schedule_messages(again[4], soon(TOMORROW)) == [0]
        came = receive_all(receiver, 10)
        assert sorted(bodies(came)) == [b"%d" % n for n in range(10)]
        sender.send_messages(again)
        assert is_empty(receiver)


@scenario(RequiresDuplicateDetection=True)
def messages_without_an_id_are_no_duplicates(bus: Bus) -> None:
    with bus.sender() as sender, bus.receiver() as receiver:
        sender.send_messages(numbered(5))
        sender.send_messages(numbered(5))
        assert len(receive_all(receiver, 10)) == 10
        assert is_empty(receiver)
