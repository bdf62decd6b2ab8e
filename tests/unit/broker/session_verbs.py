"""Queues and subscriptions with sessions, and short verbs for them."""

import asyncio
from datetime import timedelta

import pytest

from bendybus.broker.held_sessions import HeldSession
from bendybus.broker.receive import ReceiveMode
from bendybus.broker.send import group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.served_topic import ServedSubscription
from bendybus.broker.session_receiver import SessionReceiver
from bendybus.broker.sessions import (
    accept_session,
)
from bendybus.model.entity import (
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.message import Message, StoredMessage
from bendybus.testing.clock import ManualClock
from tests.unit.broker.serving_verbs import LOCK_SECONDS

LOCK = timedelta(seconds=LOCK_SECONDS)
LEDGER = Queue(
    "ledger", QueueProperties(lock_duration=LOCK, requires_session=True, max_delivery_count=3)
)
LEDGERS = Queue(
    "ledgers",
    QueueProperties(lock_duration=LOCK, requires_session=True, enable_partitioning=True),
)
PLAIN = Queue("plain", QueueProperties(lock_duration=LOCK))
_SUBSCRIPTION = Subscription(
    "ledger", SubscriptionProperties(lock_duration=LOCK, requires_session=True)
)
FEED = Topic("feed", TopicProperties(), (_SUBSCRIPTION,))
FEEDS = Topic("feeds", TopicProperties(enable_partitioning=True), (_SUBSCRIPTION,))
QUEUES = pytest.mark.parametrize(
    "name", ["ledger", "ledgers", "feed/Subscriptions/ledger", "feeds/Subscriptions/ledger"]
)
PEEK_LOCK, DELETE = ReceiveMode.PEEK_LOCK, ReceiveMode.RECEIVE_AND_DELETE


async def post(queue: ServedQueue, clock: ManualClock, session_id: str, *contents: bytes) -> None:
    """Send messages of one session, to the topic if it is a subscription that has them."""
    if isinstance(queue, ServedSubscription):
        queue = queue.topic
    messages = [Message(each, session_id=session_id) for each in contents]
    [fragment] = group_by_fragment(queue, messages)
    await send(queue, messages, fragment, clock)


async def accept(
    queue: ServedQueue, clock: ManualClock, session_id: str | None = None
) -> SessionReceiver:
    """Hold a session."""
    held = await asyncio.wait_for(accept_session(queue.main, session_id, clock), 10)
    return SessionReceiver(queue.main, held, PEEK_LOCK, clock)


def contents(messages: list[StoredMessage]) -> list[bytes]:
    return [message.content for message in messages]


async def settled(work: "asyncio.Task[HeldSession]") -> None:
    """Let a task go on until it waits for something that does not come by itself."""
    for _ in range(200):
        await asyncio.sleep(0)
        if work.done():
            return
    await asyncio.wait([work], timeout=0.1)
