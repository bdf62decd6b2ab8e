"""A broker in the test's loop, and clients of both kinds that connect to it."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bendybus.model.access import AccessRule, Right
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic, TopicProperties
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.rule import Rule, SqlFilter
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import ROOT_RULE, LocalBroker, listening, local_broker
from tests.client.both_shells import make_client

LOCK_SECONDS = 30
LOCK = timedelta(seconds=LOCK_SECONDS)
LISTEN_RULE = AccessRule("listener", "listen-key", frozenset({Right.LISTEN}))
QUEUES = [
    Queue("orders", QueueProperties(lock_duration=LOCK, max_delivery_count=3)),
    Queue(
        "parts", QueueProperties(lock_duration=LOCK, max_delivery_count=3, enable_partitioning=True)
    ),
    Queue("ledger", QueueProperties(lock_duration=LOCK, requires_session=True)),
    Queue(
        "ledgers",
        QueueProperties(lock_duration=LOCK, requires_session=True, enable_partitioning=True),
    ),
]
SUBSCRIPTIONS = (
    Subscription("all"),
    Subscription("red", rules=(Rule("red", SqlFilter("colour = 'red'")),)),
)
TOPICS = [
    Topic("news", subscriptions=SUBSCRIPTIONS),
    Topic("feed", TopicProperties(enable_partitioning=True), SUBSCRIPTIONS),
]

Connect = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Served:
    """A running broker on virtual time."""

    broker: LocalBroker
    clock: ManualClock
    port: int

    def connection_string(self, rule: AccessRule = ROOT_RULE, key: str | None = None) -> str:
        """Return what a client needs."""
        return (
            f"Endpoint=sb://127.0.0.1:{self.port};SharedAccessKeyName={rule.name};"
            f"SharedAccessKey={key or rule.primary_key};UseDevelopmentEmulator=true"
        )

    async def count(self, queue: str, sub_queue: SubQueue = SubQueue.MAIN) -> int:
        """Count the messages that are in the stores."""
        sources = self.broker.queue(queue).sub_queues[sub_queue].sources
        return sum([(await each.store.counts(each.number)).messages for each in sources])


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A running broker with conventional and partitioned queues, some with sessions."""
    # Clients sign tokens by the clock on the wall, so virtual time begins there.
    clock = ManualClock(Instant(round(time.time() * 1000)))
    async with (
        local_broker(tmp_path, [*QUEUES, *TOPICS], clock, stores=2) as broker,
        listening(broker, (ROOT_RULE, LISTEN_RULE)) as listener,
    ):
        yield Served(broker, clock, listener.port)


@pytest.fixture(params=["blocking", "asynchronous"])
def shell(request: pytest.FixtureRequest) -> str:
    """Which of the two clients a test uses."""
    return str(request.param)


@pytest.fixture(params=["orders", "parts"], ids=["conventional", "partitioned"])
def queue(request: pytest.FixtureRequest) -> str:
    """Which kind of queue a test uses."""
    return str(request.param)


@pytest.fixture
async def connect(shell: str, served: Served) -> AsyncIterator[Connect]:
    """Makes clients, which are closed when the test is over."""
    async with AsyncExitStack() as clients:

        def make(connection_string: str | None = None, **options: Any) -> Any:
            client = make_client(shell, connection_string or served.connection_string(), **options)
            clients.push_async_callback(client.close)
            return client

        yield make


@pytest.fixture
def client(connect: Connect) -> Any:
    """A client that may do everything."""
    return connect()
