"""Transactions with topics, subscriptions and sessions: the home is the topic (R5)."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bendybus.amqp.outcomes import Accepted, Modified
from bendybus.amqp.terminus import Source
from bendybus.amqp.values import Symbol
from bendybus.model.entity import (
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.ids import SubQueue
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import listening, local_broker
from bendybus.testing.wire_client import WireClient, WireLink, receiving
from tests.protocol.messaging.requesting import request, requests_to
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import Served
from tests.protocol.messaging.test_cross_entity import everything_forwarded
from tests.protocol.messaging.test_transactions import NOT_ALLOWED, ROLLBACK, condition_of
from tests.protocol.messaging.transacting import (
    ACCEPTED,
    controller_of,
    part_of,
    send_part,
    settle_part,
)

pytestmark = pytest.mark.spec("R5.4")
KINDS = pytest.mark.parametrize("kind", ["plain", "split"], ids=["conventional", "partitioned"])
SESSION_FILTER = Symbol("com.microsoft:session-filter")

ENTITIES = [
    entity
    for kind, is_partitioned in (("plain", False), ("split", True))
    for entity in (
        Queue(f"{kind}-queue", QueueProperties(enable_partitioning=is_partitioned)),
        Queue(
            f"{kind}-sessions",
            QueueProperties(enable_partitioning=is_partitioned, requires_session=True),
        ),
        Topic(
            f"{kind}-topic",
            TopicProperties(enable_partitioning=is_partitioned),
            (
                Subscription("a", SubscriptionProperties()),
                Subscription("b", SubscriptionProperties()),
            ),
        ),
    )
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of stores that know the entities and hold no messages."""
    folder = tmp_path_factory.mktemp("template")

    async def make() -> None:
        async with local_broker(folder, ENTITIES, ManualClock(), stores=2):
            pass

    asyncio.run(make())
    return folder


@pytest.fixture
async def served(template: Path, tmp_path: Path) -> AsyncIterator[Served]:
    """A running broker with topics, on virtual time."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    clock = ManualClock()
    async with (
        local_broker(tmp_path, [], clock, stores=2) as broker,
        listening(broker) as listener,
        AsyncExitStack() as clients,
    ):
        yield Served(broker, listener, clock, clients)


async def _held(client: WireClient, topic: str, subscription: str) -> tuple[WireLink, Any]:
    sender = await client.sender(topic, handle=80)
    await sender.sent(message(b"in", partition_key="k"), 1)
    receiver = await client.receiver(f"{topic}/Subscriptions/{subscription}", handle=81)
    receiver.flow(link_credit=1)
    return receiver, await receiver.receive()


@KINDS
async def test_what_is_sent_to_a_topic_reaches_its_subscriptions_at_the_commit(
    served: Served, kind: str
) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender(f"{kind}-topic")
    kept, dropped = await controller.declare(), await controller.declare()
    await send_part(sender, 1, kept)
    await send_part(sender, 2, dropped)

    assert await controller.roll_back(dropped) == Accepted()
    assert await controller.commit(kept) == Accepted()

    for name in "ab":
        assert await served.count(f"{kind}-topic/Subscriptions/{name}") == 1


@KINDS
async def test_a_subscription_and_its_topic_are_one_home(served: Served, kind: str) -> None:
    client = await served.client()
    topic = f"{kind}-topic"
    receiver, delivery = await _held(client, topic, "a")
    controller = await controller_of(client)
    sender = await client.sender(topic, handle=3)
    transaction = await controller.declare()

    assert await settle_part(receiver, delivery, transaction) == part_of(transaction, ACCEPTED)
    payload = message(b"out", partition_key="k")
    assert await send_part(sender, 100, transaction, payload) == part_of(transaction, ACCEPTED)
    assert await controller.commit(transaction) == Accepted()

    # At once: nothing had to be taken anywhere.
    assert await served.count(topic, SubQueue.TRANSFER) == 0
    assert await served.count(f"{topic}/Subscriptions/a") == 1
    assert await served.count(f"{topic}/Subscriptions/b") == 2


@KINDS
async def test_messages_of_two_subscriptions_are_settled_together(
    served: Served, kind: str
) -> None:
    client = await served.client()
    topic = f"{kind}-topic"
    first, one = await _held(client, topic, "a")
    second = await client.receiver(f"{topic}/Subscriptions/b", handle=82)
    second.flow(link_credit=1)
    other = await second.receive()
    controller = await controller_of(client)
    transaction = await controller.declare()

    await settle_part(first, one, transaction)
    assert await settle_part(second, other, transaction) == part_of(transaction, ACCEPTED)
    assert await controller.commit(transaction) == Accepted()

    for name in "ab":
        assert await served.count(f"{topic}/Subscriptions/{name}") == 0


@pytest.mark.spec("R5.6")
@KINDS
async def test_a_topic_can_be_sent_to_by_way_of_a_queue_and_the_reverse(
    served: Served, kind: str
) -> None:
    client = await served.client()
    queue, topic = f"{kind}-queue", f"{kind}-topic"
    controller = await controller_of(client)
    senders = [await client.sender(name, handle=at) for at, name in enumerate((queue, topic))]
    for number, order in enumerate((senders, senders[::-1])):
        transaction = await controller.declare()
        for at, sender in enumerate(order):
            await send_part(sender, 10 * number + at, transaction)
        assert await controller.commit(transaction) == Accepted()

    assert await served.count(queue, SubQueue.TRANSFER) == 1
    assert await served.count(topic, SubQueue.TRANSFER) == 1
    async with everything_forwarded(served, queue, topic):
        pass
    assert await served.count(queue) == 2
    for name in "ab":
        assert await served.count(f"{topic}/Subscriptions/{name}") == 2


# Rules


@pytest.mark.spec("R5.5")
@KINDS
@pytest.mark.parametrize("operation", ["add-rule", "remove-rule"])
async def test_rules_do_not_change_in_a_transaction(
    served: Served, kind: str, operation: str
) -> None:
    client = await served.client()
    controller = await controller_of(client)
    transaction = await controller.declare()
    requests = await requests_to(client, f"{kind}-topic/Subscriptions/a/$management")
    body = {"rule-name": "$Default", "rule-description": {"true-filter": {}}}
    payload = request(f"com.microsoft:{operation}", body)

    requests.to_node.send(payload, 500, state=part_of(transaction))
    answer = await requests.answered()

    condition = NOT_ALLOWED if kind == "split" else "amqp:not-implemented"
    assert answer.properties["errorCondition"] == condition
    assert condition_of(await controller.commit(transaction)) == ROLLBACK


# Sessions


async def _accepted(client: WireClient, queue: str, session: str, *, handle: int) -> WireLink:
    """Accept a session and give credit for one message."""
    link = await client.attach(
        receiving(
            queue, handle=handle, source=Source(address=queue, filter={SESSION_FILTER: session})
        )
    )
    link.flow(link_credit=1)
    return link


@pytest.mark.spec("R5.2")
@KINDS
async def test_a_message_of_a_session_is_settled_and_the_next_one_sent(
    served: Served, kind: str
) -> None:
    client = await served.client()
    queue = f"{kind}-sessions"
    sender = await client.sender(queue)
    await sender.sent(message(b"in", session_id="s"), 1)
    session = await _accepted(client, queue, "s", handle=5)
    delivery = await session.receive()
    controller = await controller_of(client)
    transaction = await controller.declare()

    assert await settle_part(session, delivery, transaction) == part_of(transaction, ACCEPTED)
    await send_part(sender, 2, transaction, message(b"out", session_id="s"))
    assert await controller.commit(transaction) == Accepted()

    assert await served.count(queue) == 1
    session.flow(link_credit=1)
    assert see((await session.receive()).payload).body == b"out"


@KINDS
async def test_a_message_abandoned_at_the_commit_comes_again_in_its_session(
    served: Served, kind: str
) -> None:
    client = await served.client()
    queue = f"{kind}-sessions"
    await (await client.sender(queue)).sent(message(session_id="s"), 1)
    session = await _accepted(client, queue, "s", handle=5)
    delivery = await session.receive()
    controller = await controller_of(client)
    transaction = await controller.declare()
    await settle_part(session, delivery, transaction, Modified(True, False, None))

    assert await controller.commit(transaction) == Accepted()

    session.flow(link_credit=1)
    assert see((await session.receive()).payload).delivery_count == 1


@KINDS
async def test_a_session_whose_lock_ended_before_the_commit_rolls_everything_back(
    served: Served, kind: str
) -> None:
    client = await served.client()
    queue = f"{kind}-sessions"
    await (await client.sender(queue)).sent(message(session_id="s"), 1)
    session = await _accepted(client, queue, "s", handle=5)
    delivery = await session.receive()
    controller = await controller_of(client)
    transaction = await controller.declare()
    await settle_part(session, delivery, transaction)

    served.clock.advance(61)

    assert condition_of(await controller.commit(transaction)) == ROLLBACK
    assert await served.count(queue) == 1


@pytest.mark.spec("R5.2")
@KINDS
async def test_a_session_queue_takes_nothing_without_a_session_id(
    served: Served, kind: str
) -> None:
    client = await served.client()
    sender = await client.sender(f"{kind}-sessions")
    controller = await controller_of(client)

    for payload in (message(partition_key="k"), message(session_id="s", partition_key="k")):
        transaction = await controller.declare()
        answer = await send_part(sender, controller.next_id + 5000, transaction, payload)
        assert condition_of(answer) == NOT_ALLOWED
        assert condition_of(await controller.commit(transaction)) == ROLLBACK


@pytest.mark.spec("R5.3")
@KINDS
async def test_several_sessions_are_sent_to_only_on_a_conventional_queue(
    served: Served, kind: str
) -> None:
    client = await served.client()
    sender = await client.sender(f"{kind}-sessions")
    controller = await controller_of(client)
    transaction = await controller.declare()
    await send_part(sender, 1, transaction, message(session_id="one"))

    answer = await send_part(sender, 2, transaction, message(session_id="two"))

    if kind == "plain":
        assert answer == part_of(transaction, ACCEPTED)
        assert await controller.commit(transaction) == Accepted()
    else:
        assert condition_of(answer) == NOT_ALLOWED
        assert condition_of(await controller.commit(transaction)) == ROLLBACK
