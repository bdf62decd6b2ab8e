"""Scheduled messages: by annotation and by request, shown, cancelled, and coming in time."""

from typing import Any

import pytest

from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.values import AmqpArray, Int, Long, Symbol, Timestamp
from bendybus.model.ids import fragment_of
from bendybus.model.partitioning import fragment_for
from bendybus.testing.clock import NOON
from bendybus.testing.wire_client import WireClient
from tests.protocol.messaging.requesting import Answered, Requests, requests_to
from tests.protocol.messaging.sample_messages import BATCH_FORMAT, Seen, batch, message, see
from tests.protocol.messaging.serving import Served

QUEUES = pytest.mark.parametrize("queue", ["orders", "parts"])
SECONDS = 20
LATER = NOON + 1000 * SECONDS


def _later(body: bytes = b"later", *, at: int = LATER, **fields: Any) -> bytes:
    return message(
        body, annotations={Symbol("x-opt-scheduled-enqueue-time"): Timestamp(at)}, **fields
    )


def _entry(payload: object) -> dict[object, object]:
    return {"message-id": "an-id", "message": payload}


async def _schedule(requests: Requests, *payloads: bytes) -> Answered:
    body = {"messages": [_entry(payload) for payload in payloads]}
    return await requests.ask("com.microsoft:schedule-message", body)


async def _cancel(requests: Requests, *numbers: int) -> Answered:
    array = AmqpArray(Long, tuple(map(Long, numbers)))
    return await requests.ask("com.microsoft:cancel-scheduled-message", {"sequence-numbers": array})


async def _peek(requests: Requests) -> list[Seen]:
    body = {"from-sequence-number": Long(0), "message-count": Int(100)}
    response = await requests.ask("com.microsoft:peek-message", body)
    return [see(each["message"]) for each in response.body["messages"]]


async def _received(client: WireClient, queue: str, count: int) -> list[Seen]:
    receiver = await client.receiver(queue, handle=50)
    receiver.flow(link_credit=count)
    return [see((await receiver.receive()).payload) for _ in range(count)]


@pytest.mark.spec("R4")
@pytest.mark.spec("R7.4")
@QUEUES
async def test_the_answer_has_an_array_of_long_and_the_message_comes_in_time(
    served: Served, queue: str
) -> None:
    client = await served.client()
    requests = await requests_to(client, f"{queue}/$management")

    response = await _schedule(requests, _later(b"a"), _later(b"b"))

    assert response.status == 200
    numbers = response.body["sequence-numbers"]
    assert isinstance(numbers, AmqpArray)
    assert (numbers.item_type, len(numbers.items)) == (Long, 2)
    [shown, _] = await _peek(requests)
    assert shown.sequence == numbers.items[0]
    assert shown.annotations["x-opt-message-state"] == 2
    assert type(shown.annotations["x-opt-message-state"]) is Int
    assert shown.annotations["x-opt-scheduled-enqueue-time"] == LATER

    served.clock.advance(SECONDS)
    await served.broker.sweep.sweep_all()

    [a, b] = await _received(client, queue, 2)
    assert sorted([a.body, b.body]) == [b"a", b"b"]
    assert a.annotations["x-opt-message-state"] == 0
    assert a.annotations["x-opt-enqueued-time"] == LATER
    assert a.annotations["x-opt-scheduled-enqueue-time"] == LATER
    assert a.sequence not in numbers.items


@pytest.mark.spec("R4")
@QUEUES
async def test_an_annotation_on_an_ordinary_send_schedules(served: Served, queue: str) -> None:
    client = await served.client()
    sender = await client.sender(queue)
    requests = await requests_to(client, f"{queue}/$management")

    assert await sender.sent(_later(), 0) == Accepted()
    assert await sender.sent(_later(b"past", at=NOON - 1), 1) == Accepted()

    shown = {each.body: each.annotations["x-opt-message-state"] for each in await _all(requests)}
    assert shown == {b"later": 2, b"past": 0}
    served.clock.advance(SECONDS)
    await served.broker.sweep.sweep_all()
    assert sorted(each.body for each in await _received(client, queue, 2)) == [b"later", b"past"]


async def _all(requests: Requests) -> list[Seen]:
    """Peek through every fragment."""
    found: list[Seen] = []
    start = 0
    while True:
        body = {"from-sequence-number": Long(start), "message-count": Int(100)}
        response = await requests.ask("com.microsoft:peek-message", body)
        if response.status != 200:
            return found
        found += [see(each["message"]) for each in response.body["messages"]]
        start = found[-1].sequence + 1


@QUEUES
async def test_a_batch_may_hold_messages_for_now_and_for_later(served: Served, queue: str) -> None:
    client = await served.client()
    sender = await client.sender(queue)
    requests = await requests_to(client, f"{queue}/$management")
    payload = batch(message(b"now"), _later(b"later"), _later(b"much later", at=LATER + 1))

    assert await sender.sent(payload, 0, message_format=BATCH_FORMAT) == Accepted()

    states = [
        (each.body, each.annotations["x-opt-message-state"]) for each in await _peek(requests)
    ]
    assert states == [(b"now", 0), (b"later", 2), (b"much later", 2)]


@pytest.mark.spec("R4")
@QUEUES
async def test_a_cancelled_message_is_gone(served: Served, queue: str) -> None:
    client = await served.client()
    requests = await requests_to(client, f"{queue}/$management")
    numbers = (await _schedule(requests, _later(), _later())).body["sequence-numbers"].items

    response = await _cancel(requests, *numbers)

    assert response.status == 200
    assert await served.count(queue) == 0
    again = await _cancel(requests, numbers[0])
    assert again.status == 404
    assert again.properties["errorCondition"] == "com.microsoft:message-not-found"


@pytest.mark.spec("R4")
@QUEUES
async def test_one_number_that_is_not_scheduled_fails_the_whole_cancel(
    served: Served, queue: str
) -> None:
    client = await served.client()
    requests = await requests_to(client, f"{queue}/$management")
    [number] = (await _schedule(requests, _later())).body["sequence-numbers"].items

    for wrong in (number + 1, 999, -1, 2**62):
        assert (await _cancel(requests, number, wrong)).status == 404

    assert await served.count(queue) == 1


@pytest.mark.spec("R2.1")
async def test_keys_of_a_request_decide_the_fragments(served: Served) -> None:
    client = await served.client()
    requests = await requests_to(client, "parts/$management")
    keys = ["one", "two", "three"]

    response = await _schedule(requests, *(_later(partition_key=key) for key in keys))

    numbers = response.body["sequence-numbers"].items
    assert [fragment_of(number) for number in numbers] == [fragment_for(key, 16) for key in keys]


@pytest.mark.parametrize(
    ("messages", "condition"),
    [
        (None, "com.microsoft:argument-error"),
        ([], "com.microsoft:argument-error"),
        ("text", "com.microsoft:argument-error"),
        (["text"], "com.microsoft:argument-error"),
        ([{"message": "text"}], "com.microsoft:argument-error"),
        ([_entry(_later()), {"message-id": "an-id"}], "com.microsoft:argument-error"),
        ([_entry(b"\xff")], "com.microsoft:argument-error"),
        ([_entry(message())], "com.microsoft:argument-error"),
        ([_entry(_later(at=2**62))], "com.microsoft:argument-out-of-range"),
        ([_entry(_later(session_id="s", partition_key="k"))], "amqp:not-allowed"),
        ([_entry(_later(message_id="x" * 129))], "com.microsoft:argument-out-of-range"),
        ([_entry(_later(b"x" * 140_000))] * 2, "amqp:link:message-size-exceeded"),
    ],
)
async def test_what_cannot_be_scheduled_is_refused_and_nothing_is_kept(
    served: Served, messages: object, condition: str
) -> None:
    requests = await requests_to(await served.client(), "orders/$management")

    response = await requests.ask("com.microsoft:schedule-message", {"messages": messages})

    assert response.properties["errorCondition"] == condition
    assert response.status == (403 if "size" in condition else 400)
    assert await served.count("orders") == 0


@pytest.mark.parametrize(
    "body",
    [{}, {"sequence-numbers": []}, {"sequence-numbers": ["1"]}, {"sequence-numbers": Long(1)}],
)
async def test_a_cancel_without_numbers_is_refused(served: Served, body: object) -> None:
    requests = await requests_to(await served.client(), "orders/$management")

    response = await requests.ask("com.microsoft:cancel-scheduled-message", body)

    assert response.status == 400
    assert response.properties["errorCondition"] == "com.microsoft:argument-error"


@pytest.mark.parametrize("operation", ["schedule-message", "cancel-scheduled-message"])
async def test_nothing_is_scheduled_in_a_dead_letter_queue(served: Served, operation: str) -> None:
    node = "orders/$DeadLetterQueue/$management"
    requests = await requests_to(await served.client(), node)
    body = {
        "messages": [_entry(_later())],
        "sequence-numbers": AmqpArray(Long, (Long(1),)),
    }

    response = await requests.ask(f"com.microsoft:{operation}", body)

    assert response.status == 400
    assert response.properties["errorCondition"] == "amqp:not-allowed"
