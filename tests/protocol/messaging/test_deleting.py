"""batch-delete-messages: the oldest up to a time, of any state and sub-queue."""

import pytest

from bendybus.amqp.outcomes import Accepted, Modified, Rejected
from bendybus.amqp.values import Int, Symbol, Timestamp
from bendybus.model.ids import SubQueue
from bendybus.testing.clock import NOON
from bendybus.testing.wire_client import WireClient
from tests.protocol.messaging.places import PLACES, sent_to
from tests.protocol.messaging.requesting import Answered, Requests, requests_to
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import Served

THEIRS = "com.microsoft:batch-delete-messages"
OURS = "bendybus:delete-messages"
QUEUES = pytest.mark.parametrize("queue", ["orders", "parts"])


async def _delete(
    requests: Requests, count: int = 100, *, until: int = NOON, **fields: object
) -> Answered:
    body = {"message-count": Int(count), "enqueued-time-utc": Timestamp(until)}
    more = {name.replace("_", "-"): value for name, value in fields.items()}
    operation = OURS if "message-state" in more else THEIRS
    return await requests.ask(operation, body | more)


async def _send(
    client: WireClient, queue: str, count: int, annotations: dict[object, object] | None = None
) -> None:
    sender = await client.sender(sent_to(queue), handle=90)
    for number in range(count):
        payload = message(b"%d" % number, annotations=annotations)
        assert await sender.sent(payload, number) == Accepted()


@pytest.mark.spec("R4")
@pytest.mark.spec("R7.4")
@PLACES
async def test_the_answer_says_how_many_and_then_that_there_are_none(
    served: Served, queue: str
) -> None:
    client = await served.client()
    await _send(client, queue, 30)
    requests = await requests_to(client, f"{queue}/$management")

    some = await _delete(requests, 10)
    rest = await _delete(requests)
    none = await _delete(requests)

    assert (some.status, some.body) == (200, {"message-count": 10})
    assert type(some.body["message-count"]) is Int
    assert (rest.status, rest.body) == (200, {"message-count": 20})
    assert (none.status, none.body) == (204, {"message-count": 0})
    assert none.properties["errorCondition"] == "com.microsoft:message-not-found"
    assert await served.count(queue) == 0


async def test_the_oldest_go_first_and_later_ones_stay(served: Served) -> None:
    client = await served.client()
    await _send(client, "orders", 3)
    served.clock.advance(1)
    requests = await requests_to(client, "orders/$management")

    assert (await _delete(requests, 2)).body == {"message-count": 2}

    receiver = await client.receiver("orders")
    receiver.flow(link_credit=1)
    assert see((await receiver.receive()).payload).body == b"2"
    assert (await _delete(requests, until=NOON + 1000)).status == 204


@PLACES
async def test_locked_and_deferred_messages_stay(served: Served, queue: str) -> None:
    client = await served.client()
    await _send(client, queue, 3)
    receiver = await client.receiver(queue)
    receiver.flow(link_credit=2)
    deferred = await receiver.receive()
    await receiver.receive()
    receiver.settle(deferred, Modified(None, True, None))
    await receiver.confirmed(deferred)
    requests = await requests_to(client, f"{queue}/$management")

    assert (await _delete(requests)).body == {"message-count": 1}
    assert (await _delete(requests, message_state=Int(1))).body == {"message-count": 1}
    assert await served.count(queue) == 1


@QUEUES
async def test_scheduled_messages_are_deleted_by_the_time_they_wait_for(
    served: Served, queue: str
) -> None:
    client = await served.client()
    at: dict[object, object] = {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(NOON + 5000)}
    await _send(client, queue, 2, at)
    requests = await requests_to(client, f"{queue}/$management")

    assert (await _delete(requests, until=NOON + 5000)).status == 204
    assert (await _delete(requests, message_state=Int(0))).status == 204
    early = await _delete(requests, until=NOON + 4999, message_state=Int(2))
    assert early.status == 204
    due = await _delete(requests, until=NOON + 5000, message_state=Int(2))
    assert due.body == {"message-count": 2}


@PLACES
async def test_dead_letters_are_deleted_at_their_own_address(served: Served, queue: str) -> None:
    client = await served.client()
    await _send(client, queue, 2)
    receiver = await client.receiver(queue)
    receiver.flow(link_credit=1)
    delivery = await receiver.receive()
    receiver.settle(delivery, Rejected(None))
    await receiver.confirmed(delivery)
    requests = await requests_to(client, f"{queue}/$DeadLetterQueue/$management")

    assert (await _delete(requests)).body == {"message-count": 1}
    assert await served.count(queue, SubQueue.DEAD_LETTER) == 0
    assert await served.count(queue) == 1


@PLACES
async def test_a_named_session_alone_is_deleted(served: Served, queue: str) -> None:
    client = await served.client()
    sender = await client.sender(sent_to(queue))
    for number in range(6):
        session = "ab"[number % 2]
        assert await sender.sent(message(session_id=session), number) == Accepted()
    requests = await requests_to(client, f"{queue}/$management")

    assert (await _delete(requests, session_id="a")).body == {"message-count": 3}
    assert await served.count(queue) == 3


@pytest.mark.parametrize(
    ("body", "condition"),
    [
        ({}, "com.microsoft:argument-out-of-range"),
        ({"message-count": "1"}, "com.microsoft:argument-error"),
        ({"message-count": Int(0)}, "com.microsoft:argument-out-of-range"),
        ({"message-count": Int(4001)}, "com.microsoft:argument-out-of-range"),
        ({"enqueued-time-utc": None}, "com.microsoft:argument-error"),
        ({"message-state": Int(3)}, "com.microsoft:argument-out-of-range"),
        ({"message-state": Int(9)}, "com.microsoft:argument-out-of-range"),
        ({"message-state": None}, "com.microsoft:argument-error"),
        ({"session-id": Int(9)}, "com.microsoft:argument-error"),
    ],
)
async def test_what_cannot_be_meant_is_refused_and_nothing_is_deleted(
    served: Served, body: dict[str, object], condition: str
) -> None:
    client = await served.client()
    await _send(client, "orders", 1)
    requests = await requests_to(client, "orders/$management")
    good = {"message-count": Int(1), "enqueued-time-utc": Timestamp(NOON)}

    operation = OURS if "message-state" in body else THEIRS

    response = await requests.ask(operation, good | body if body else {})

    assert response.status == 400
    assert response.properties["errorCondition"] == condition
    assert await served.count("orders") == 1


# The status of the entity


@pytest.mark.parametrize("queue", ["no-receives", "off"])
@pytest.mark.parametrize(
    "operation",
    [
        "com.microsoft:peek-message",
        "com.microsoft:receive-by-sequence-number",
        THEIRS,
        OURS,
    ],
)
async def test_an_entity_closed_for_receiving_shows_and_deletes_nothing(
    served: Served, queue: str, operation: str
) -> None:
    requests = await requests_to(await served.client(), f"{queue}/$management")

    response = await requests.ask(operation, {})

    assert response.status == 400
    assert response.properties["errorCondition"] == "com.microsoft:entity-disabled"
