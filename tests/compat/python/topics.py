"""Topics: every subscription gets what its rules let in, and is received from like a queue."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)

from tests.compat.cases import PARTITIONED
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

ALL: Final = {"Name": "all"}


def sql(name: str, expression: str, action: str | None = None) -> dict[str, Any]:
    """A rule as the configuration file has it."""
    properties: dict[str, Any] = {"FilterType": "Sql", "SqlFilter": {"SqlExpression": expression}}
    if action is not None:
        properties["Action"] = {"SqlExpression": action}
    return {"Name": name, "Properties": properties}


def correlation(name: str, **fields: Any) -> dict[str, Any]:
    """A rule with a correlation filter."""
    return {
        "Name": name,
        "Properties": {"FilterType": "Correlation", "CorrelationFilter": fields},
    }


RED: Final = {"Name": "red", "Rules": [sql("red", "colour = 'red' AND size > 3")]}
LABELLED: Final = {
    "Name": "labelled",
    "Rules": [correlation("label", Label="urgent", Properties={"colour": "red"})],
}


@pytest.mark.spec("R1.1", "R4", "R8.1")
@scenario(Subscriptions=[ALL, RED, LABELLED, {"Name": "none", "Rules": [sql("no", "1 = 0")]}])
def each_subscription_gets_what_its_rules_let_in(bus: Bus) -> None:
    red: dict[str | bytes, Any] = {"colour": "red", "size": 4}
    with bus.topic_sender() as sender:
        sender.send_messages(ServiceBusMessage(b"big", application_properties=red))
        sender.send_messages(
            ServiceBusMessage(b"urgent", subject="urgent", application_properties={"colour": "red"})
        )
        sender.send_messages(ServiceBusMessage(b"plain"))
    expected = {"all": [b"big", b"plain", b"urgent"], "red": [b"big"], "labelled": [b"urgent"]}
    for name, found in expected.items():
        with bus.subscription(name) as receiver:
            assert sorted(bodies(receive_all(receiver, len(found)))) == found
            assert is_empty(receiver)
    with bus.subscription("none") as receiver:
        assert is_empty(receiver)


@pytest.mark.spec("R4", "R8.1")
@scenario(
    Subscriptions=[
        {
            "Name": "acting",
            "Rules": [
                sql("plain", "colour = 'red'"),
                sql("paint", "colour = 'red'", "SET colour = 'blue'; SET sys.Label = 'painted'"),
                sql("count", "EXISTS(n)", "SET n = n + 1; REMOVE colour"),
            ],
        }
    ]
)
def every_action_makes_a_copy_of_its_own(bus: Bus) -> None:
    with bus.topic_sender() as sender:
        sender.send_messages(
            ServiceBusMessage(b"one", application_properties={"colour": "red", "n": 1})
        )
    with bus.subscription("acting") as receiver:
        copies = receive_all(receiver, 3)
    assert bodies(copies) == [b"one"] * 3
    found = {
        (each.subject, str(sorted((each.application_properties or {}).items()))) for each in copies
    }
    assert found == {
        (None, str([(b"colour", b"red"), (b"n", 1)])),
        ("painted", str([(b"colour", b"blue"), (b"n", 1)])),
        (None, str([(b"n", 2)])),
    }
    assert len({each.enqueued_sequence_number for each in copies}) == 1
    assert len({each.sequence_number for each in copies}) == 3


@pytest.mark.spec("R4", "R8.1")
@scenario(Subscriptions=[ALL, {"Name": "other", "Properties": {"MaxDeliveryCount": 1}}])
def subscriptions_settle_apart(bus: Bus) -> None:
    with bus.topic_sender() as sender:
        sender.send_messages(numbered(3))
    with bus.subscription("all") as receiver:
        first, second, third = receive(receiver, 3)
        receiver.complete_message(first)
        receiver.dead_letter_message(second, reason="why", error_description="because")
        receiver.defer_message(third)
        assert third.sequence_number is not None
        [deferred] = receiver.receive_deferred_messages([third.sequence_number])
        assert body_of(deferred) == body_of(third)
        receiver.complete_message(deferred)
        assert is_empty(receiver)
    with bus.subscription("all", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
        [dead] = receive_all(dead_letters, 1)
        assert dead.dead_letter_reason == "why"
        assert dead.dead_letter_source == f"{bus.queue}/Subscriptions/all"
    with bus.subscription("other") as receiver:
        for message in receive(receiver, 3):
            receiver.abandon_message(message)
        assert gets_nothing(receiver)
    with bus.subscription("other", sub_queue="deadletter") as dead_letters:
        dead_bodies = bodies(receive_all(dead_letters, 3))
        assert sorted(dead_bodies) == numbered_bodies(3)


@pytest.mark.spec("R4")
@scenario(
    Subscriptions=[
        {"Name": "failing", "Rules": [sql("bad", "n / zero = 1")]},
        {
            "Name": "silent",
            "Rules": [sql("bad", "n / zero = 1")],
            "Properties": {"DeadLetteringOnFilterEvaluationExceptions": False},
        },
    ]
)
def a_filter_that_fails_leads_to_the_dead_letters(bus: Bus) -> None:
    with bus.topic_sender() as sender:
        sender.send_messages(ServiceBusMessage(b"bad", application_properties={"n": 1, "zero": 0}))
    with bus.subscription("failing", sub_queue="deadletter") as dead_letters:
        [dead] = receive_all(dead_letters, 1)
        assert dead.dead_letter_reason == "FilterException"
        assert "divided by zero" in (dead.dead_letter_error_description or "")
    for name, options in (("failing", {}), ("silent", {}), ("silent", {"sub_queue": "deadletter"})):
        with bus.subscription(name, **options) as receiver:
            assert is_empty(receiver)


@pytest.mark.spec("R4", "R8.1")
@scenario(Subscriptions=[ALL, {"Name": "other"}])
def batches_and_lists_reach_every_subscription(bus: Bus) -> None:
    with bus.topic_sender() as sender:
        batch: ServiceBusMessageBatch = sender.create_message_batch()
        for message in numbered(20):
            batch.add_message(message)
        sender.send_messages(batch)
        sender.send_messages(numbered(5))
    for name in ("all", "other"):
        with bus.subscription(name, receive_mode="receiveanddelete") as receiver:
            expected = sorted(numbered_bodies(20) + numbered_bodies(5))
            assert sorted(bodies(receive(receiver, 25))) == expected


@pytest.mark.spec("R4", "R8.1")
@scenario(Subscriptions=[ALL])
def what_is_scheduled_at_a_topic_comes_in_time_or_is_cancelled(bus: Bus) -> None:
    due = datetime.now(UTC) + timedelta(seconds=2)
    with bus.topic_sender() as sender:
        numbers = sender.schedule_messages(numbered(2), due)
        sender.cancel_scheduled_messages(numbers[0])
    with bus.subscription("all") as receiver:
        [message] = receive_all(receiver, 1)
        assert body_of(message) == b"message 1"
        assert datetime.now(UTC) >= due
        assert is_empty(receiver)


@pytest.mark.spec("R4", "R8.1")
@scenario(Subscriptions=[{"Name": "sessions", "Properties": {"RequiresSession": True}}])
def a_subscription_may_have_sessions(bus: Bus) -> None:
    with bus.topic_sender() as sender:
        sender.send_messages([ServiceBusMessage(b"a", session_id="one")])
        sender.send_messages([ServiceBusMessage(b"b", session_id="two")])
        sender.send_messages(ServiceBusMessage(b"c"))
    for session_id, body in (("one", b"a"), ("two", b"b")):
        with bus.subscription("sessions", session_id=session_id) as receiver:
            [message] = receive_all(receiver, 1)
            assert body_of(message) == body
    with bus.subscription("sessions", sub_queue="deadletter") as dead_letters:
        [dead] = receive_all(dead_letters, 1)
        assert dead.dead_letter_reason == "Session id is null."


# Older clients cannot list them.
@pytest.mark.spec("R4", "R8.1")
@scenario(
    kinds=(PARTITIONED,),
    Subscriptions=[{"Name": "sessions", "Properties": {"RequiresSession": True}}],
    is_for_newest=True,
)
def sessions_of_a_subscription_are_listed_and_keep_a_state(bus: Bus) -> None:
    with bus.topic_sender() as sender:
        sender.send_messages(numbered(2, session_id="one"))
        sender.send_messages(numbered(1, session_id="two"))
    with bus.subscription("sessions", session_id="one") as receiver:
        assert receiver.session is not None
        receiver.session.set_state(b"so far")
        assert bodies(receive_all(receiver, 2)) == numbered_bodies(2)
        assert receiver.session.get_state() == b"so far"
    with bus.client() as client:
        assert set(client.list_subscription_sessions(bus.queue, "sessions")) == {"one", "two"}


@pytest.mark.spec("R8.1")
@scenario(Subscriptions=[ALL])
def topics_and_subscriptions_that_are_not_there_are_told_apart(bus: Bus) -> None:
    with bus.client(retry_total=0) as client:
        with (
            pytest.raises(ServiceBusAuthenticationError),
            client.get_topic_sender(f"{bus.queue}.none") as sender,
        ):
            sender.send_messages(ServiceBusMessage(b"x"))
        with (
            pytest.raises(MessagingEntityNotFoundError),
            client.get_subscription_receiver(bus.queue, "none") as receiver,
        ):
            receiver.receive_messages(max_wait_time=1)
        with (
            pytest.raises(ServiceBusError, match="subscriptions"),
            client.get_queue_receiver(bus.queue) as receiver,
        ):
            receiver.receive_messages(max_wait_time=1)
