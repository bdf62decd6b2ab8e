"""A broker for one test: a few queues and topics, virtual time, and clients that connect to it.

The stores are made once and copied for every test: creating the queues costs many syncs.
"""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bendybus.broker.served_queue import ServedQueue
from bendybus.model.access import AccessRule
from bendybus.model.entity import (
    EntityStatus,
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.ids import SubQueue
from bendybus.server.listener import AmqpListener
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import (
    ROOT_RULE,
    LocalBroker,
    StartedStore,
    listening,
    local_broker,
)
from bendybus.testing.wire_client import WAIT_SECONDS, WireClient, connected

LOCK_SECONDS = 30
STORES = 2
ROOT_LOGIN = f"\0{ROOT_RULE.name}\0{ROOT_RULE.primary_key}".encode()
_LOCK = timedelta(seconds=LOCK_SECONDS)

QUEUES = (
    Queue("orders", QueueProperties(lock_duration=_LOCK, max_delivery_count=3)),
    Queue(
        "parts",
        QueueProperties(lock_duration=_LOCK, max_delivery_count=3, enable_partitioning=True),
    ),
    Queue("depot/Spare-Parts", QueueProperties(lock_duration=_LOCK)),
    Queue("spare"),
    Queue("no-sends", QueueProperties(status=EntityStatus.SEND_DISABLED)),
    Queue("no-receives", QueueProperties(status=EntityStatus.RECEIVE_DISABLED)),
    Queue("off", QueueProperties(status=EntityStatus.DISABLED)),
    Queue("sessions", QueueProperties(lock_duration=_LOCK, requires_session=True)),
    Queue(
        "session-parts",
        QueueProperties(lock_duration=_LOCK, requires_session=True, enable_partitioning=True),
    ),
    Queue("once", QueueProperties(requires_duplicate_detection=True)),
    Queue(
        "once-parts", QueueProperties(requires_duplicate_detection=True, enable_partitioning=True)
    ),
)

SUBSCRIPTIONS = (
    Subscription("all", SubscriptionProperties(lock_duration=_LOCK, max_delivery_count=3)),
    Subscription("ruled", SubscriptionProperties(lock_duration=_LOCK), ()),
)
SESSION_SUBSCRIPTIONS = (
    Subscription("all", SubscriptionProperties(lock_duration=_LOCK, requires_session=True)),
)
TOPICS = (
    Topic("news", subscriptions=SUBSCRIPTIONS),
    Topic("feed", TopicProperties(enable_partitioning=True), SUBSCRIPTIONS),
    Topic("session-news", subscriptions=SESSION_SUBSCRIPTIONS),
    Topic("session-feed", TopicProperties(enable_partitioning=True), SESSION_SUBSCRIPTIONS),
    Topic("no-news", TopicProperties(status=EntityStatus.SEND_DISABLED), SUBSCRIPTIONS),
)
ENTITIES = (*QUEUES, *TOPICS)


@dataclass(slots=True)
class Served:
    """A running broker, its clock, and its clients."""

    broker: LocalBroker
    listener: AmqpListener
    clock: ManualClock
    _clients: AsyncExitStack = field(repr=False)

    async def client(self, **fields: Any) -> WireClient:
        """Connect, log in by name and key, open and begin a session; fields are the Open's."""
        client = await self.stranger()
        await client.log_in("PLAIN", ROOT_LOGIN, **fields)
        await client.begin()
        return client

    async def stranger(self, *, receive_bytes: int | None = None) -> WireClient:
        """Connect and say nothing."""
        return await self._clients.enter_async_context(
            connected(self.listener.port, receive_bytes=receive_bytes)
        )

    def queue(self, name: str) -> ServedQueue:
        """Return a queue."""
        return self.broker.queue(name)

    async def count(self, name: str, sub_queue: SubQueue = SubQueue.MAIN) -> int:
        """Count the messages that are in the stores."""
        sources = self.queue(name).sub_queues[sub_queue].sources
        counts = [await each.store.counts(each.number) for each in sources if each.store.is_online]
        return sum(each.messages for each in counts)

    async def counts_by_fragment(self, name: str) -> list[int]:
        """Count the messages of every fragment."""
        sources = self.queue(name).main.sources
        return [(await each.store.counts(each.number)).messages for each in sources]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of stores that know the queues and hold no messages."""
    folder = tmp_path_factory.mktemp("template")

    async def make() -> None:
        async with local_broker(folder, ENTITIES, ManualClock(), stores=STORES):
            pass

    asyncio.run(make())
    return folder


@pytest.fixture
async def served(template: Path, tmp_path: Path) -> AsyncIterator[Served]:
    """A running broker with a few queues, on virtual time."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    async with serving(tmp_path) as running:
        yield running


@asynccontextmanager
async def serving(
    folder: Path,
    *,
    stores: int = STORES,
    rules: tuple[AccessRule, ...] = (ROOT_RULE,),
    clock: ManualClock | None = None,
) -> AsyncIterator[Served]:
    """Serve the queues from stores in a folder; a second time finds what the first left."""
    clock = clock or ManualClock()
    async with (
        local_broker(folder, ENTITIES, clock, stores=stores) as broker,
        listening(broker, rules) as listener,
        AsyncExitStack() as clients,
    ):
        yield Served(broker, listener, clock, clients)


@asynccontextmanager
async def stalled(*stores: StartedStore) -> AsyncIterator[None]:
    """Keep stores busy, as a slow disk would: what they are told meanwhile waits."""
    gate = threading.Event()
    begun = [threading.Event() for _ in stores]

    def hold(entered: threading.Event, _: object) -> None:
        entered.set()
        gate.wait(WAIT_SECONDS)

    held = [
        store._lane.submit(partial(hold, entered), is_synced=False)
        for store, entered in zip(stores, begun, strict=True)
    ]
    for entered in begun:
        await asyncio.to_thread(entered.wait, WAIT_SECONDS)
    try:
        yield
    finally:
        gate.set()
        await asyncio.gather(*held)
