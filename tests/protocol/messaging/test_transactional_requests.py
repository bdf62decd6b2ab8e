"""Requests to `$management` that are part of a transaction."""

import uuid
from typing import Any

import pytest

from bendybus.amqp.outcomes import Accepted, Modified
from bendybus.amqp.values import AmqpArray, Long, Symbol, Timestamp
from bendybus.model.ids import SubQueue
from bendybus.testing.clock import NOON
from bendybus.testing.wire_client import WireClient
from tests.protocol.messaging.requesting import Answered, Requests, request, requests_to
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import Served
from tests.protocol.messaging.test_transactions import ROLLBACK, condition_of
from tests.protocol.messaging.transacting import (
    ACCEPTED,
    Controller,
    controller_of,
    held,
    part_of,
    send_part,
    settle_part,
)

QUEUES = pytest.mark.parametrize("queue", ["orders", "parts"])


async def _ask(requests: Requests, transaction: bytes, operation: str, body: Any) -> Answered:
    """Make a request that is part of a transaction."""
    requests.asked += 1
    payload = request(f"com.microsoft:{operation}", body, message_id=f"part-{requests.asked}")
    requests.to_node.send(payload, 500 + requests.asked, state=part_of(transaction))
    return await requests.answered()


async def _begun(client: WireClient, queue: str) -> tuple[Controller, bytes, Requests]:
    controller = await controller_of(client)
    return controller, await controller.declare(), await requests_to(client, f"{queue}/$management")


async def _deferred(client: WireClient, queue: str) -> tuple[Requests, Any]:
    """Defer a message and lock it again; return its token."""
    receiver, [delivery] = await held(client, queue)
    receiver.settle(delivery, Modified(None, True, None))
    await receiver.confirmed(delivery)
    requests = await requests_to(client, f"{queue}/$management", handle=20)
    numbers = AmqpArray(Long, (Long(see(delivery.payload).sequence),))
    answer = await requests.ask(
        "com.microsoft:receive-by-sequence-number", {"sequence-numbers": numbers}
    )
    return requests, answer.body["messages"][0]["lock-token"]


@pytest.mark.spec("R5.4")
@QUEUES
@pytest.mark.parametrize(
    ("status", "left", "dead"), [("completed", 0, 0), ("suspended", 0, 1), ("abandoned", 1, 0)]
)
async def test_a_deferred_message_is_settled_at_the_commit(
    served: Served, queue: str, status: str, left: int, dead: int
) -> None:
    client = await served.client()
    requests, token = await _deferred(client, queue)
    controller = await controller_of(client)
    transaction = await controller.declare()

    body = {"disposition-status": status, "lock-tokens": AmqpArray(uuid.UUID, (token,))}
    assert (await _ask(requests, transaction, "update-disposition", body)).status == 200

    assert await served.count(queue) == 1
    assert await controller.commit(transaction) == Accepted()
    assert await served.count(queue) == left
    assert await served.count(queue, SubQueue.DEAD_LETTER) == dead


@QUEUES
async def test_a_deferred_message_stays_locked_after_a_roll_back(
    served: Served, queue: str
) -> None:
    client = await served.client()
    requests, token = await _deferred(client, queue)
    controller = await controller_of(client)
    transaction = await controller.declare()
    body = {"disposition-status": "completed", "lock-tokens": AmqpArray(uuid.UUID, (token,))}
    await _ask(requests, transaction, "update-disposition", body)

    await controller.roll_back(transaction)

    assert await served.count(queue) == 1
    assert (await requests.ask("com.microsoft:update-disposition", body)).status == 200
    assert await served.count(queue) == 0


@QUEUES
async def test_a_message_that_its_link_has_settled_is_not_settled_again_by_its_token(
    served: Served, queue: str
) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, queue)
    controller, transaction, requests = await _begun(client, queue)
    await settle_part(receiver, delivery, transaction, ACCEPTED)
    token = AmqpArray(uuid.UUID, (see(delivery.payload).token,))

    answer = await _ask(
        requests,
        transaction,
        "update-disposition",
        {"disposition-status": "abandoned", "lock-tokens": token},
    )

    assert answer.properties["errorCondition"] == "amqp:not-allowed"
    assert condition_of(await controller.commit(transaction)) == ROLLBACK
    assert await served.count(queue) == 1


async def _scheduled(client: WireClient, queue: str) -> Any:
    requests = await requests_to(client, f"{queue}/$management", handle=30)
    answer = await requests.ask("com.microsoft:schedule-message", _schedule())
    return answer.body["sequence-numbers"]


@pytest.mark.spec("R5.4")
@QUEUES
@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "rolled back"])
async def test_a_scheduled_message_is_cancelled_at_the_commit(
    served: Served, queue: str, is_committed: bool
) -> None:
    client = await served.client()
    numbers = await _scheduled(client, queue)
    controller, transaction, requests = await _begun(client, queue)

    answer = await _ask(
        requests, transaction, "cancel-scheduled-message", {"sequence-numbers": numbers}
    )

    assert answer.status == 200
    assert await served.count(queue) == 1
    discharge = controller.commit if is_committed else controller.roll_back
    assert await discharge(transaction) == Accepted()
    assert await served.count(queue) == (0 if is_committed else 1)


@QUEUES
async def test_a_message_that_comes_due_before_the_commit_rolls_everything_back(
    served: Served, queue: str
) -> None:
    client = await served.client()
    numbers = await _scheduled(client, queue)
    controller, transaction, requests = await _begun(client, queue)
    await _ask(requests, transaction, "cancel-scheduled-message", {"sequence-numbers": numbers})

    served.clock.advance(61)

    assert condition_of(await controller.commit(transaction)) == ROLLBACK
    assert await served.count(queue) == 1


@QUEUES
@pytest.mark.parametrize(
    ("operation", "body", "status"),
    [
        pytest.param(
            "cancel-scheduled-message",
            {"sequence-numbers": AmqpArray(Long, (Long(77),))},
            404,
            id="no such message",
        ),
        pytest.param(
            "update-disposition",
            {
                "disposition-status": "completed",
                "lock-tokens": AmqpArray(uuid.UUID, (uuid.UUID(int=1),)),
            },
            410,
            id="no such lock",
        ),
        pytest.param("update-disposition", {}, 400, id="no tokens"),
        pytest.param("batch-delete-messages", {"message-count": 1}, 501, id="not served"),
    ],
)
async def test_a_request_that_is_refused_dooms_the_rest(
    served: Served, queue: str, operation: str, body: Any, status: int
) -> None:
    client = await served.client()
    controller, transaction, requests = await _begun(client, queue)
    sender = await client.sender(queue, handle=3)

    assert (await _ask(requests, transaction, operation, body)).status == status
    await send_part(sender, 1, transaction)

    assert condition_of(await controller.commit(transaction)) == ROLLBACK
    assert await served.count(queue) == 0


async def test_a_request_of_an_unknown_transaction_changes_nothing(served: Served) -> None:
    client = await served.client()
    requests, token = await _deferred(client, "orders")
    body = {"disposition-status": "completed", "lock-tokens": AmqpArray(uuid.UUID, (token,))}

    answer = await _ask(requests, b"nobody's", "update-disposition", body)

    assert answer.properties["errorCondition"] == "amqp:transaction:unknown-id"
    assert await served.count("orders") == 1


async def test_looking_is_not_part_of_a_transaction(served: Served) -> None:
    client = await served.client()
    await (await client.sender("orders")).sent(message(), 1)
    _, transaction, requests = await _begun(client, "orders")

    answer = await _ask(requests, transaction, "peek-message", {"message-count": 1})

    assert answer.status == 200
    assert len(answer.body["messages"]) == 1


@pytest.mark.spec("R5.4")
@QUEUES
@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "rolled back"])
async def test_a_message_is_scheduled_at_the_commit_under_the_number_that_was_told(
    served: Served, queue: str, is_committed: bool
) -> None:
    client = await served.client()
    controller, transaction, requests = await _begun(client, queue)

    answer = await _ask(requests, transaction, "schedule-message", _schedule())

    assert answer.status == 200
    numbers = answer.body["sequence-numbers"]
    assert await served.count(queue) == 0
    discharge = controller.commit if is_committed else controller.roll_back
    assert await discharge(transaction) == Accepted()
    cancelled = await requests.ask(
        "com.microsoft:cancel-scheduled-message", {"sequence-numbers": numbers}
    )
    assert cancelled.status == (200 if is_committed else 404)
    assert await served.count(queue) == 0


@QUEUES
async def test_a_scheduled_message_comes_when_its_time_has(served: Served, queue: str) -> None:
    client = await served.client()
    controller, transaction, requests = await _begun(client, queue)
    await _ask(requests, transaction, "schedule-message", _schedule())
    assert await controller.commit(transaction) == Accepted()
    receiver = await client.receiver(queue, handle=40)
    receiver.flow(link_credit=1)

    served.clock.advance(60)
    await served.broker.sweep.sweep_all()

    assert see((await receiver.receive()).payload).body == b"later"


@QUEUES
async def test_a_message_whose_time_has_come_before_the_commit_is_sent(
    served: Served, queue: str
) -> None:
    client = await served.client()
    controller, transaction, requests = await _begun(client, queue)
    await _ask(requests, transaction, "schedule-message", _schedule())
    served.clock.advance(61)

    assert await controller.commit(transaction) == Accepted()

    receiver = await client.receiver(queue, handle=40)
    receiver.flow(link_credit=1)
    assert see((await receiver.receive()).payload).body == b"later"


async def test_a_message_is_not_scheduled_by_way_of_another_entity(served: Served) -> None:
    client = await served.client()
    controller, transaction, requests = await _begun(client, "spare")
    await send_part(await client.sender("orders", handle=3), 1, transaction)

    answer = await _ask(requests, transaction, "schedule-message", _schedule())

    assert answer.properties["errorCondition"] == "amqp:not-allowed"
    assert condition_of(await controller.commit(transaction)) == ROLLBACK


def _schedule() -> dict[str, Any]:
    """Return the body of a request for a message a minute later."""
    later: dict[object, object] = {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(NOON + 60_000)}
    payload = message(b"later", partition_key="k", annotations=later)
    return {"messages": [{"message": payload, "message-id": "an-id"}]}
