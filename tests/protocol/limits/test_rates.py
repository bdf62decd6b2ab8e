"""Bounds on requests per second: what is too much is refused, and nobody else notices."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from bendybus.amqp.outcomes import Accepted, Rejected
from bendybus.amqp.values import Symbol
from bendybus.broker.authenticate import Authentication
from bendybus.broker.hosts import Hosts
from bendybus.broker.rate_limits import Rates
from bendybus.doors.door import Door
from bendybus.model.entity import Queue, QueueProperties
from bendybus.server.listener import listen
from bendybus.server.via_link import DESTINATION
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import ROOT_RULE, local_broker
from bendybus.testing.wire_client import WireClient, connected, sending
from tests.protocol.messaging.requesting import requests_to
from tests.protocol.messaging.sample_messages import message
from tests.protocol.messaging.serving import ROOT_LOGIN

QUEUES = (Queue("orders"), Queue("parts", QueueProperties(enable_partitioning=True)))


class Limited:
    """A broker with bounds, and clients that connect to it."""

    def __init__(self, port: int, clock: ManualClock, clients: AsyncExitStack) -> None:
        self.clock = clock
        self._port = port
        self._clients = clients

    async def client(self) -> WireClient:
        """Connect, and begin a session."""
        client = await self._clients.enter_async_context(connected(self._port))
        await client.log_in("PLAIN", ROOT_LOGIN)
        await client.begin()
        return client


@asynccontextmanager
async def limited(folder: Path, rates: Rates) -> AsyncIterator[Limited]:
    clock = ManualClock()
    async with (
        local_broker(folder, QUEUES, clock, stores=2) as broker,
        AsyncExitStack() as clients,
    ):
        broker.catalog.access.rules = (ROOT_RULE,)
        authentication = Authentication(broker.catalog, clock, rates=rates)
        listener = await listen(
            [Door("amqp", "127.0.0.1", 0)],
            hosts=Hosts(broker.namespaces, lambda _: authentication),
            clock=clock,
        )
        clients.push_async_callback(listener.close)
        yield Limited(listener.port, clock, clients)


def _is_busy(outcome: object) -> bool:
    return (
        isinstance(outcome, Rejected)
        and outcome.error is not None
        and outcome.error.condition == "com.microsoft:server-busy"
    )


@pytest.mark.parametrize("queue", ["orders", "parts"])
async def test_messages_beyond_the_bound_of_a_connection_are_rejected_as_busy(
    tmp_path: Path, queue: str
) -> None:
    async with limited(tmp_path, Rates(connection=3)) as broker:
        first, second = await broker.client(), await broker.client()
        sender = await first.sender(queue)
        outcomes = [await sender.sent(message(), number) for number in range(4)]

        assert outcomes[:2] == [Accepted()] * 2, "the third request was the link"
        assert [_is_busy(each) for each in outcomes[2:]] == [True, True]
        assert await (await second.sender(queue)).sent(message(), 0) == Accepted()
        broker.clock.advance(1)
        assert await sender.sent(message(), 4) == Accepted()


async def test_messages_by_way_of_another_entity_count_too(tmp_path: Path) -> None:
    async with limited(tmp_path, Rates(connection=3)) as broker:
        client = await broker.client()
        link = await client.attach(sending("orders", properties={Symbol(DESTINATION): "parts"}))
        outcomes = [await link.sent(message(), number) for number in range(4)]

        assert [_is_busy(each) for each in outcomes] == [False, False, True, True]


async def test_a_flood_keeps_its_credit_and_its_answers(tmp_path: Path) -> None:
    async with limited(tmp_path, Rates(connection=1)) as broker:
        client = await broker.client()
        sender = await client.sender("orders")
        for number in range(6000):
            sender.send(message(), number)
        outcomes = [await client.outcome(0, at, receiver=True) for at in (0, 2500, 5999)]
        assert all(_is_busy(each) for each in outcomes)
        broker.clock.advance(1)
        assert await sender.sent(message(), 6000) == Accepted()


async def test_the_bound_of_the_namespace_is_for_all_together(tmp_path: Path) -> None:
    async with limited(tmp_path, Rates(namespace=3)) as broker:
        first, second = await broker.client(), await broker.client()
        assert await (await first.sender("orders")).sent(message(), 0) == Accepted()
        sender = await second.sender("orders")
        assert _is_busy(await sender.sent(message(), 0))
        broker.clock.advance(0.4)
        assert await sender.sent(message(), 1) == Accepted()


async def test_links_and_management_count_too(tmp_path: Path) -> None:
    async with limited(tmp_path, Rates(connection=3)) as broker:
        client = await broker.client()
        requests = await requests_to(client, "orders/$management")
        body = {"from-sequence-number": 0, "message-count": 1}
        assert (await requests.ask("com.microsoft:peek-message", body)).status == 204

        busy = await requests.ask("com.microsoft:peek-message", body)
        assert busy.status == 503
        assert busy.properties["errorCondition"] == "com.microsoft:server-busy"
        link = await client.attach(sending("orders", handle=5))
        error = (await link.detached()).error
        assert error is not None
        assert error.condition == "com.microsoft:server-busy"

        broker.clock.advance(1)
        assert (await requests.ask("com.microsoft:peek-message", body)).status == 204
