"""Operations by request and response: what is asked and how answers are read. In memory."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bendybus.amqp.sections import SectionCode, encode_section
from bendybus.amqp.values import AmqpArray, Int, Long, Symbol, Timestamp, Uint
from bendybus.client.errors import (
    ClientError,
    ConnectionLost,
    MessageNotFound,
    NotServed,
    ServerBusy,
    ServerFailed,
)
from bendybus.client.managing import LAST_MOMENT, DeleteWish, ManagedEntity
from bendybus.client.message import Message, MessageState, ReceivedMessage
from bendybus.client.receiving import Receiving
from bendybus.model.ids import sequence_number
from tests.client.memory_shell import MemoryShell
from tests.client.scripted_broker import ScriptedBroker

LATER = 30.0
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stored(number: int, *, enqueued_at: datetime = NOON, state: int = 0) -> bytes:
    """Encode a message as a broker hands it out."""
    annotations: dict[object, object] = {
        Symbol("x-opt-sequence-number"): Long(number),
        Symbol("x-opt-enqueued-time"): Timestamp(int(enqueued_at.timestamp() * 1000)),
        Symbol("x-opt-message-state"): state,
    }
    return encode_section(SectionCode.MESSAGE_ANNOTATIONS, annotations) + Message(b"x").encode()


def asking(broker: ScriptedBroker) -> tuple[MemoryShell, ManagedEntity]:
    shell = MemoryShell(broker)
    return shell, ManagedEntity(shell.connector, "orders")


def test_scheduling_sends_whole_messages_and_returns_their_numbers() -> None:
    shell, entity = asking(broker := ScriptedBroker())
    broker.operations["schedule-message"] = lambda _: (
        200,
        {"sequence-numbers": AmqpArray(Long, (Long(7), Long(8)))},
    )
    messages = [
        Message(b"a", message_id="m1", scheduled_time=NOON, session_id="s"),
        Message(b"b", message_id="m2", scheduled_time=NOON, partition_key="k"),
    ]
    assert shell.run(entity.schedule(messages, LATER)) == [7, 8]
    [(_, body)] = broker.requests
    assert body == {
        "messages": [
            {"message-id": "m1", "session-id": "s", "message": messages[0].encode()},
            {"message-id": "m2", "partition-key": "k", "message": messages[1].encode()},
        ]
    }


def test_cancelling_names_numbers_and_reports_one_that_is_not_there() -> None:
    shell, entity = asking(broker := ScriptedBroker())
    unknown = Symbol("com.microsoft:message-not-found")
    broker.operations["cancel-scheduled-message"] = lambda _: (404, unknown)
    with pytest.raises(MessageNotFound, match="as scripted"):
        shell.run(entity.cancel([7, 8], LATER))
    numbers = AmqpArray(Long, (Long(7), Long(8)))
    assert broker.requests == [("cancel-scheduled-message", {"sequence-numbers": numbers})]


@pytest.mark.parametrize(
    ("state", "more"),
    [
        (MessageState.ACTIVE, {}),
        (MessageState.SCHEDULED, {"message-state": Int(2)}),
    ],
)
def test_deleting_another_state_than_the_protocol_knows_has_a_name_of_our_own(
    state: MessageState, more: dict[str, object]
) -> None:
    shell, entity = asking(broker := ScriptedBroker())
    name = "bendybus:delete-messages" if more else "batch-delete-messages"
    broker.operations[name] = lambda _: (200, {"message-count": Int(7)})
    wish = DeleteWish.of(state, NOON, NOON)
    assert shell.run(entity.delete(wish, 10, LATER, "s")) == 7
    at = Timestamp(int(NOON.timestamp() * 1000))
    body = {"message-count": Int(10), "enqueued-time-utc": at, "session-id": "s"}
    assert broker.requests == [(name, body | more)]


def test_deleting_nothing_returns_nothing() -> None:
    shell, entity = asking(broker := ScriptedBroker())
    broker.operations["batch-delete-messages"] = lambda _: (204, None)
    wish = DeleteWish.of(MessageState.ACTIVE, None, NOON)
    assert wish.until == NOON
    assert shell.run(entity.delete(wish, 10, LATER, None)) == 0


def test_all_scheduled_messages_are_meant_when_no_time_is_named() -> None:
    assert DeleteWish.of(MessageState.SCHEDULED, None, NOON).until == LAST_MOMENT


@pytest.mark.parametrize(("is_deleting", "mode"), [(False, 1), (True, 0)])
def test_deferred_messages_come_by_number_and_bring_their_tokens(
    is_deleting: bool, mode: int
) -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    token = None if is_deleting else uuid.uuid4()
    broker.operations["receive-by-sequence-number"] = lambda _: (
        200,
        {"messages": [{"message": stored(7, state=1), "lock-token": token}]},
    )
    receiving = Receiving(shell.connector, "orders", is_deleting=is_deleting, prefetch=0)
    [message] = shell.run(receiving.receive_deferred([7], LATER))
    assert (message.sequence_number, message.state) == (7, MessageState.DEFERRED)
    assert message.lock_token == token
    [(_, body)] = broker.requests
    assert body == {
        "sequence-numbers": AmqpArray(Long, (Long(7),)),
        "receiver-settle-mode": Uint(mode),
    }


def test_renewing_a_lock_moves_its_end_on_the_message() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    at = Timestamp(int(NOON.timestamp() * 1000))
    broker.operations["renew-lock"] = lambda _: (200, {"expirations": AmqpArray(Timestamp, (at,))})
    receiving = Receiving(shell.connector, "orders", is_deleting=False, prefetch=0)
    message = ReceivedMessage(b"", lock_token=uuid.uuid4())
    assert shell.run(receiving.renew_lock(message, LATER)) == NOON
    assert message.locked_until == NOON


def test_peeking_into_nothing_returns_nothing() -> None:
    shell, entity = asking(broker := ScriptedBroker())
    broker.operations["peek-message"] = lambda _: (204, None)
    assert shell.run(entity.peek(0, 5, LATER)) == []


@pytest.mark.spec("R3.5")
def test_a_merged_peek_sees_all_fragments_by_the_time_messages_were_taken() -> None:
    shell, entity = asking(broker := ScriptedBroker())
    times = {(0, 1): 5, (0, 2): 9, (3, 1): 1, (3, 2): 7, (4, 1): 3}
    contents = {
        sequence_number(*place): stored(
            sequence_number(*place), enqueued_at=NOON + timedelta(seconds=second)
        )
        for place, second in times.items()
    }

    def peek(body: Any) -> tuple[int, object]:
        numbers = [each for each in sorted(contents) if each >= body["from-sequence-number"]]
        some = [{"message": contents[each]} for each in numbers[: body["message-count"]]]
        return (200, {"messages": some}) if some else (204, None)

    broker.operations["peek-message"] = peek
    found = shell.run(entity.peek_merged(4, LATER))
    places = [divmod(each.sequence_number or 0, 1 << 48) for each in found]
    assert places == [(3, 1), (4, 1), (0, 1), (3, 2)]


def merged(count: int, bodies_max: int, messages: dict[int, tuple[int, MessageState]]) -> list[int]:
    """Peek at messages given by number, with their time; return the numbers that were found."""
    shell, entity = asking(broker := ScriptedBroker())

    def peek(body: Any) -> tuple[int, object]:
        numbers = [each for each in sorted(messages) if each >= body["from-sequence-number"]]
        some = [
            {"message": stored(each, enqueued_at=NOON + timedelta(seconds=at), state=state.value)}
            for each in numbers[: min(bodies_max, body["message-count"])]
            for at, state in [messages[each]]
        ]
        return (200, {"messages": some}) if some else (204, None)

    broker.operations["peek-message"] = peek
    found = shell.run(entity.peek_merged(count, LATER))
    return [each.sequence_number or 0 for each in found]


@pytest.mark.spec("R3.5")
@pytest.mark.parametrize("bodies_max", [1, 2, 100])
def test_a_merged_peek_is_whole_however_little_an_answer_holds(bodies_max: int) -> None:
    active = MessageState.ACTIVE
    messages = {sequence_number(at % 3, at): (at, active) for at in range(1, 31)}
    oldest_first = sorted(messages, key=lambda number: messages[number][0])
    assert merged(30, bodies_max, messages) == oldest_first
    assert merged(7, bodies_max, messages) == oldest_first[:7]


@pytest.mark.spec("R3.5")
@pytest.mark.parametrize("bodies_max", [1, 100])
def test_what_is_scheduled_hides_nothing_that_is_there(bodies_max: int) -> None:
    later = {sequence_number(1, at): (1000 - at, MessageState.SCHEDULED) for at in range(1, 9)}
    there = {sequence_number(1, 9): (1, MessageState.ACTIVE)}
    other = {sequence_number(2, 1): (2, MessageState.ACTIVE)}
    oldest_first = [*there, *other, *sorted(later, reverse=True)]
    for count in (1, 2, 3, 20):
        assert merged(count, bodies_max, {**later, **there, **other}) == oldest_first[:count]


@pytest.mark.spec("R3.5")
def test_what_came_back_with_its_time_stands_by_that_time() -> None:
    messages = {sequence_number(1, at): (20 - at, MessageState.ACTIVE) for at in range(1, 9)}
    assert merged(3, 100, messages) == sorted(messages, reverse=True)[:3]


def test_a_question_is_asked_again_when_the_connection_is_lost() -> None:
    shell = MemoryShell(first := ScriptedBroker(), second := ScriptedBroker())
    for broker in (first, second):
        broker.operations["peek-message"] = lambda _: (200, {"messages": [{"message": stored(1)}]})
    shell.cut_when = lambda: bool(first.requests)
    [message] = shell.run(ManagedEntity(shell.connector, "orders").peek(0, 1, LATER))
    assert message.sequence_number == 1
    assert len(second.requests) == 1


def test_what_must_not_happen_twice_is_not_asked_again() -> None:
    shell = MemoryShell(first := ScriptedBroker(), second := ScriptedBroker())
    first.operations["schedule-message"] = lambda _: (200, {})
    shell.cut_when = lambda: bool(first.requests)
    entity = ManagedEntity(shell.connector, "orders")
    with pytest.raises(ConnectionLost):
        shell.run(entity.schedule([Message(b"a", scheduled_time=NOON)], LATER))
    assert not second.requests


@pytest.mark.parametrize(
    ("status", "condition", "kind", "is_retryable"),
    [
        (501, "amqp:not-implemented", NotServed, False),
        (503, "com.microsoft:server-busy", ServerBusy, True),
        (503, "", ServerBusy, True),
        (418, "", ClientError, False),
    ],
)
def test_a_refusal_becomes_the_error_of_its_condition_or_else_of_its_status(
    status: int, condition: str, kind: type[ClientError], is_retryable: bool
) -> None:
    shell, entity = asking(broker := ScriptedBroker())
    broker.operations["peek-message"] = lambda _: (status, Symbol(condition))
    with pytest.raises(kind) as failure:
        shell.run(entity.peek(0, 1, LATER))
    assert type(failure.value) is kind
    assert failure.value.is_retryable is is_retryable


@pytest.mark.parametrize("body", [None, {}, {"expirations": []}, {"expirations": ["soon"]}])
def test_an_answer_without_what_was_asked_for_is_the_brokers_failure(body: object) -> None:
    shell, entity = asking(broker := ScriptedBroker())
    broker.operations["renew-lock"] = lambda _: (200, body)
    with pytest.raises(ServerFailed):
        shell.run(entity.renew_lock(uuid.uuid4(), LATER))


def test_an_entry_that_is_no_message_is_the_brokers_failure() -> None:
    shell, entity = asking(broker := ScriptedBroker())
    broker.operations["peek-message"] = lambda _: (200, {"messages": ["text"]})
    with pytest.raises(ServerFailed):
        shell.run(entity.peek(0, 1, LATER))
