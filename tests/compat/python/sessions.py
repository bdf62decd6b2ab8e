"""Sessions: accepted by name or as they come, in order, with a state, and lost when time is up."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    AutoLockRenewer,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSession,
)
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from tests.compat.python.scenario import (
    Bus,
    bodies,
    body_of,
    gets_nothing,
    numbered,
    numbered_bodies,
    receive,
    receive_all,
    scenario,
    until,
)


def messages_of(session_id: str, count: int) -> list[ServiceBusMessage]:
    """Numbered messages of one session."""
    return numbered(count, session_id=session_id)


def session_of(receiver: ServiceBusReceiver) -> ServiceBusSession:
    """The session that a receiver holds."""
    assert receiver.session is not None
    return receiver.session


@contextmanager
def accepted(bus: Bus, session_id: Any, **options: Any) -> Iterator[ServiceBusReceiver]:
    """Hold a session."""
    with bus.receiver(session_id=session_id, **options) as receiver:
        yield receiver


@pytest.mark.spec("R3.6")
@scenario(RequiresSession=True)
def a_named_session_yields_its_messages_in_order_and_no_others(bus: Bus) -> None:
    mine, others = messages_of("mine", 10), messages_of("other", 10)
    bus.send(*(each for pair in zip(mine, others, strict=True) for each in pair))
    with accepted(bus, "mine") as receiver:
        assert session_of(receiver).session_id == "mine"
        got = receive_all(receiver, 10)
        assert bodies(got) == numbered_bodies(10)
        assert {message.session_id for message in got} == {"mine"}
        assert receiver.receive_messages(1, max_wait_time=1) == []


@pytest.mark.spec("R4")
@scenario(RequiresSession=True)
def the_next_session_is_each_session_once(bus: Bus) -> None:
    for session_id in ("a", "b", "c"):
        bus.send(*messages_of(session_id, 2))
    held = set()
    with (
        accepted(bus, NEXT_AVAILABLE_SESSION, max_wait_time=20) as first,
        accepted(bus, NEXT_AVAILABLE_SESSION, max_wait_time=20) as second,
        accepted(bus, NEXT_AVAILABLE_SESSION, max_wait_time=20) as third,
    ):
        for receiver in (first, second, third):
            held.add(session_of(receiver).session_id)
            assert bodies(receive_all(receiver, 2)) == numbered_bodies(2)
    assert held == {"a", "b", "c"}


@scenario(RequiresSession=True)
def who_waits_for_any_session_gets_the_first_that_comes(bus: Bus) -> None:
    with bus.client() as client:
        receiver = client.get_queue_receiver(
            bus.queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=30
        )
        sender = client.get_queue_sender(bus.queue)
        timer = threading.Timer(1.0, lambda: sender.send_messages(messages_of("late", 1)))
        timer.start()
        with sender, receiver:
            assert session_of(receiver).session_id == "late"
            assert len(receive_all(receiver, 1)) == 1
        timer.join()


@scenario(RequiresSession=True)
def waiting_for_any_session_ends_when_the_time_is_up(bus: Bus) -> None:
    began = time.monotonic()
    with (
        bus.client(retry_total=0) as client,
        pytest.raises(OperationTimeoutError),
        client.get_queue_receiver(bus.queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=3),
    ):
        pass
    assert 1.5 < time.monotonic() - began < 20


@scenario(RequiresSession=True)
def a_session_that_somebody_holds_is_refused_until_it_is_given_back(bus: Bus) -> None:
    bus.send(*messages_of("s", 2))
    with accepted(bus, "s") as receiver:
        assert body_of(receive(receiver, 1)[0]) == b"message 0"
        with pytest.raises(SessionCannotBeLockedError), accepted(bus, "s"):
            pass
    with accepted(bus, "s") as receiver:
        got = receive_all(receiver, 2)
        assert bodies(got) == numbered_bodies(2)
        assert [message.delivery_count for message in got] == [0, 0]


@scenario(RequiresSession=True)
def a_session_without_messages_is_held_and_gets_what_comes(bus: Bus) -> None:
    with accepted(bus, "empty") as receiver:
        assert receiver.receive_messages(1, max_wait_time=1) == []
        bus.send(*messages_of("empty", 3))
        assert bodies(receive_all(receiver, 3)) == numbered_bodies(3)


@pytest.mark.spec("R4")
@scenario(RequiresSession=True)
def the_state_of_a_session_outlives_its_messages(bus: Bus) -> None:
    bus.send(*messages_of("s", 1))
    with accepted(bus, "s") as receiver:
        session = session_of(receiver)
        assert session.get_state() is None
        session.set_state(b"half done")
        assert session.get_state() == b"half done"
        receive_all(receiver, 1)
    with accepted(bus, "s") as receiver:
        session = session_of(receiver)
        assert session.get_state() == b"half done"
        session.set_state(None)
        assert session.get_state() is None


@pytest.mark.spec("R4")
@scenario(RequiresSession=True)
def within_a_session_messages_are_settled_in_every_way(bus: Bus) -> None:
    bus.send(*messages_of("s", 4))
    with accepted(bus, "s") as receiver:
        [first, second, third] = receive(receiver, 3)
        receiver.complete_message(first)
        receiver.dead_letter_message(second, reason="bad")
        receiver.defer_message(third)
        [fourth] = receive(receiver, 1)
        assert body_of(fourth) == b"message 3"
        receiver.abandon_message(fourth)
        [again] = receive(receiver, 1)
        assert (body_of(again), again.delivery_count) == (b"message 3", 1)
        receiver.complete_message(again)
        [deferred] = receiver.receive_deferred_messages(third.sequence_number or 0)
        assert body_of(deferred) == b"message 2"
        receiver.complete_message(deferred)
        assert receiver.peek_messages(10) == []
    with bus.dead_letters() as dead_letters:
        [dead] = receive_all(dead_letters, 1)
        assert (body_of(dead), dead.session_id) == (b"message 1", "s")


@scenario(RequiresSession=True)
def a_deferred_message_is_not_for_who_holds_another_session(bus: Bus) -> None:
    bus.send(*messages_of("s", 1))
    with accepted(bus, "s") as receiver:
        [message] = receive(receiver, 1)
        receiver.defer_message(message)
    with accepted(bus, "t") as receiver, pytest.raises(ServiceBusError):
        receiver.receive_deferred_messages(message.sequence_number or 0)
    with accepted(bus, "s") as receiver:
        [deferred] = receiver.receive_deferred_messages(message.sequence_number or 0)
        receiver.complete_message(deferred)


@scenario(RequiresSession=True)
def peeking_shows_the_session_alone(bus: Bus) -> None:
    bus.send(*messages_of("s", 3), *messages_of("t", 2))
    with accepted(bus, "t") as receiver:
        assert bodies(receiver.peek_messages(10, sequence_number=1)) == numbered_bodies(2)


@scenario(RequiresSession=True)
def messages_of_a_session_can_be_received_and_deleted(bus: Bus) -> None:
    bus.send(*messages_of("s", 5))
    with accepted(bus, "s", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert bodies(receive(receiver, 5)) == numbered_bodies(5)
    with accepted(bus, "s") as receiver:
        assert receiver.peek_messages(5) == []


@scenario(LockDuration="PT5S", RequiresSession=True)
def a_renewed_session_outlasts_its_first_end(bus: Bus) -> None:
    bus.send(*messages_of("s", 1))
    with accepted(bus, "s") as receiver:
        session = session_of(receiver)
        [message] = receive(receiver, 1)
        first_end = session.locked_until_utc
        assert first_end is not None
        assert 3 < (first_end - datetime.now(UTC)).total_seconds() <= 5.5
        assert gets_nothing(receiver, 2.5)
        renewed = session.renew_lock()
        assert renewed is not None
        assert renewed == session.locked_until_utc
        assert (renewed - first_end).total_seconds() > 1
        assert gets_nothing(receiver, (first_end - datetime.now(UTC)).total_seconds() + 1)
        receiver.complete_message(message)
        assert session.get_state() is None


@pytest.mark.spec("R3.3")
@scenario(LockDuration="PT5S", RequiresSession=True)
def a_session_whose_lock_ended_is_lost_and_its_messages_are_counted(bus: Bus) -> None:
    bus.send(*messages_of("s", 2))
    with accepted(bus, "s") as slow:
        session = session_of(slow)
        [lost] = receive(slow, 1)
        with accepted(bus, NEXT_AVAILABLE_SESSION, max_wait_time=30) as other:
            assert session_of(other).session_id == "s"
            got = receive(other, 2)
            assert bodies(got) == numbered_bodies(2)
            assert [message.delivery_count for message in got] == [1, 0]
            with pytest.raises(SessionLockLostError):
                session.renew_lock()
            with pytest.raises(SessionLockLostError):
                slow.complete_message(lost)
            for message in got:
                other.complete_message(message)


@scenario(LockDuration="PT10S", RequiresSession=True)
def a_renewer_keeps_a_session(bus: Bus) -> None:
    bus.send(*messages_of("s", 1))
    with AutoLockRenewer() as renewer, accepted(bus, "s") as receiver:
        session = session_of(receiver)
        first_end = session.locked_until_utc
        assert first_end is not None
        renewer.register(receiver, session, max_lock_renewal_duration=60)
        [message] = receive(receiver, 1)
        # The receiver rests meanwhile, as one does whose message is worked on: this client says
        # that a receiver is not for two threads at once, and its renewer is another.
        until(lambda: datetime.now(UTC) > first_end)
        assert session.auto_renew_error is None
        renewed = session.locked_until_utc
        assert renewed is not None
        assert renewed > first_end
        receiver.complete_message(message)


@scenario(RequiresSession=True)
def a_message_without_a_session_is_refused(bus: Bus) -> None:
    with bus.sender() as sender:
        with pytest.raises(ServiceBusError, match="SessionId was not set"):
            sender.send_messages(ServiceBusMessage(b"whose?"))
        sender.send_messages(messages_of("s", 1))
    with accepted(bus, "s") as receiver:
        assert len(receive_all(receiver, 1)) == 1


@scenario(RequiresSession=True)
def a_receiver_without_a_session_is_refused(bus: Bus) -> None:
    with (
        pytest.raises(ServiceBusError, match="non-sessionful message receiver"),
        bus.receiver() as receiver,
    ):
        receiver.receive_messages(1, max_wait_time=1)


@scenario()
def a_session_is_refused_where_there_are_none(bus: Bus) -> None:
    with (
        pytest.raises(ServiceBusError, match="does not require sessions"),
        accepted(bus, "s"),
    ):
        pass
    bus.send(*messages_of("s", 1))
    with bus.receiver() as receiver:
        [message] = receive_all(receiver, 1)
        assert message.session_id == "s"


@scenario(RequiresSession=True)
def a_batch_of_one_session_is_sent_as_one(bus: Bus) -> None:
    with bus.sender() as sender:
        sender.send_messages(messages_of("s", 20))
    with accepted(bus, NEXT_AVAILABLE_SESSION, max_wait_time=20, prefetch_count=10) as receiver:
        assert bodies(receive_all(receiver, 20)) == numbered_bodies(20)


# Older clients cannot list them.
@scenario(RequiresSession=True, is_for_newest=True)
def sessions_with_messages_or_a_state_are_listed(bus: Bus) -> None:
    names = {f"s{number}" for number in range(120)}
    with bus.client() as client:
        with client.get_queue_sender(bus.queue) as sender:
            for session_id in names:
                sender.send_messages(messages_of(session_id, 1))
        with accepted(bus, "early") as receiver:
            session_of(receiver).set_state(b"x")
        moment = datetime.now(UTC)
        with accepted(bus, "late") as receiver:
            session_of(receiver).set_state(b"x")
        assert set(client.list_queue_sessions(bus.queue)) == names | {"early", "late"}
        assert list(client.list_queue_sessions(bus.queue, state_updated_after=moment)) == ["late"]
