"""Several namespaces in one broker, chosen by host name, share nothing but the stores."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bendybus.amqp.outcomes import Accepted, Rejected
from bendybus.amqp.performatives import Close
from bendybus.broker.authenticate import Authentication
from bendybus.broker.create import create
from bendybus.broker.delete import delete
from bendybus.broker.hosts import Hosts
from bendybus.broker.rate_limits import Rates
from bendybus.doors.door import Door
from bendybus.model.access import AccessRule, Right
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic
from bendybus.model.errors import EntityNotFound, QuotaExceeded
from bendybus.server import visitor
from bendybus.server.listener import listen
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, forwarding, listening, local_broker
from bendybus.testing.wire_client import WireClient, connected
from tests.protocol.messaging.sample_messages import message, see

NAMES = ("first", "second", "second.part")
KEYS = {name: f"the-key-of-{name}" for name in NAMES}


@dataclass(slots=True)
class Tenants:
    """A broker with several namespaces, each with the queues `orders` and `parts`."""

    broker: LocalBroker
    port: int
    clock: ManualClock
    _clients: AsyncExitStack = field(repr=False)

    async def stranger(self) -> WireClient:
        return await self._clients.enter_async_context(connected(self.port))

    async def client(
        self, name: str, host: str | None = None, login_host: str | None = None
    ) -> WireClient:
        """Connect with the key of a namespace, to its host unless another is said."""
        client = await self.stranger()
        host = host or f"{name}.servicebus.windows.net"
        login = f"\0Root\0{KEYS[name]}".encode()
        await client.log_in("PLAIN", login, login_host=login_host or host, hostname=host)
        await client.begin()
        return client


@pytest.fixture
async def tenants(tmp_path: Path) -> AsyncIterator[Tenants]:
    clock = ManualClock()
    async with (
        local_broker(tmp_path, [], clock, stores=2, names=NAMES) as broker,
        listening(broker) as listener,
        AsyncExitStack() as clients,
    ):
        for catalog in broker.namespaces.catalogs:
            key = KEYS[catalog.namespace]
            catalog.access.rules = (AccessRule("Root", key, frozenset({Right.MANAGE})),)
            parts = Queue("parts", QueueProperties(enable_partitioning=True))
            await catalog.declare([Queue("orders"), parts], now=clock.now())
        yield Tenants(broker, listener.port, clock, clients)


async def closed(client: WireClient) -> str:
    """Return why the broker closed the connection."""
    close = (await client.hear(Close)).body
    assert close.error is not None
    return str(close.error.condition)


@pytest.mark.parametrize("queue", ["orders", "parts"])
async def test_queues_of_the_same_name_hold_different_messages(
    tenants: Tenants, queue: str
) -> None:
    for name in NAMES:
        sender = await (await tenants.client(name)).sender(queue)
        assert await sender.sent(message(name.encode()), 0) == Accepted()
    for name in NAMES:
        receiver = await (await tenants.client(name)).receiver(queue)
        receiver.flow(link_credit=10)
        delivery = await receiver.receive()
        assert see(delivery.payload).body == name.encode()
        receiver.settle(delivery, Accepted())
        await receiver.confirmed(delivery)
        receiver.flow(link_credit=10, drain=True)
        await receiver.flowed(lambda flow: bool(flow.drain))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]:5672", "192.0.2.7", "FIRST:1"])
async def test_hosts_that_name_nobody_are_the_default_one(tenants: Tenants, host: str) -> None:
    sender = await (await tenants.client("first", host)).sender("orders")
    assert await sender.sent(message(b"x"), 0) == Accepted()


@pytest.mark.parametrize("host", ["third", "firsts.example", "example.first", "secondpart"])
async def test_a_host_of_no_namespace_is_refused_and_not_guessed(
    tenants: Tenants, host: str
) -> None:
    with pytest.raises(PermissionError):
        await tenants.client("first", host)
    client = await tenants.stranger()
    await client.log_in(hostname=host)
    assert await closed(client) == "amqp:not-found"


async def test_the_longest_name_that_fits_is_meant(tenants: Tenants) -> None:
    await tenants.client("second.part", "second.part.example")
    await tenants.client("second", "second.parts.example")


@pytest.mark.parametrize("name", NAMES)
async def test_a_key_opens_its_own_namespace_only(tenants: Tenants, name: str) -> None:
    for other in NAMES:
        if other != name:
            with pytest.raises(PermissionError):
                await tenants.client(name, other)


async def test_who_logged_in_to_one_cannot_open_another(tenants: Tenants) -> None:
    client = await tenants.stranger()
    login = f"\0Root\0{KEYS['first']}".encode()
    await client.log_in("PLAIN", login, login_host="first", hostname="second")
    assert await closed(client) == "amqp:unauthorized-access"


async def test_what_is_created_and_deleted_in_one_is_not_seen_in_others(tenants: Tenants) -> None:
    first, second, _ = tenants.broker.namespaces.catalogs
    now = tenants.clock.now()
    await create(first, Topic("news"), now=now)
    await create(first, Subscription("all"), topic="news", now=now)
    await create(second, Queue("news"), now=now)
    await delete(second, "orders")
    assert [record.name for record in first.listed(Queue)] == ["orders", "parts"]
    assert [record.name for record in second.listed(Queue)] == ["news", "parts"]
    assert second.listed(Topic) == []
    with pytest.raises(EntityNotFound, match="sb://second/orders"):
        second.queue("orders")
    with pytest.raises(EntityNotFound):
        await create(second, Subscription("all"), topic="news", now=now)
    receiver = await (await tenants.client("first")).receiver("orders")
    receiver.flow(link_credit=1)


@pytest.mark.spec("R1.5")
async def test_each_has_its_own_quota(tenants: Tenants) -> None:
    first, second, _ = tenants.broker.namespaces.catalogs
    properties = QueueProperties(enable_partitioning=True)
    now = tenants.clock.now()
    await first.declare([Queue(f"q{at}", properties) for at in range(99)], now=now)
    with pytest.raises(QuotaExceeded):
        await create(first, Queue("more", properties), now=now)
    await create(second, Queue("more", properties), now=now)


async def test_each_has_its_own_connections(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitor, "CONNECTIONS_MAX", 2)
    for _ in range(2):
        await tenants.client("first")
    one_more = await tenants.stranger()
    login = f"\0Root\0{KEYS['first']}".encode()
    await one_more.log_in("PLAIN", login, login_host="first", hostname="first")
    assert await closed(one_more) == "amqp:resource-limit-exceeded"
    sender = await (await tenants.client("second")).sender("orders")
    assert await sender.sent(message(b"x"), 0) == Accepted()


async def test_each_has_its_own_requests_a_second(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        local_broker(tmp_path, [], clock, stores=2, names=NAMES[:2]) as broker,
        AsyncExitStack() as clients,
    ):
        for catalog in broker.namespaces.catalogs:
            key = KEYS[catalog.namespace]
            catalog.access.rules = (AccessRule("Root", key, frozenset({Right.MANAGE})),)
            await catalog.declare([Queue("orders")], now=clock.now())
        hosts = Hosts(
            broker.namespaces,
            lambda catalog: Authentication(catalog, clock, rates=Rates(namespace=3)),
        )
        listener = await listen([Door("amqp", "127.0.0.1", 0)], hosts=hosts, clock=clock)
        clients.push_async_callback(listener.close)
        tenants = Tenants(broker, listener.port, clock, clients)

        flooding = await (await tenants.client("first")).sender("orders")
        outcomes = [await flooding.sent(message(b"x"), number) for number in range(3)]
        assert outcomes[:2] == [Accepted()] * 2, "the first request was the link"
        assert isinstance(outcomes[2], Rejected)
        quiet = await (await tenants.client("second")).sender("orders")
        assert [await quiet.sent(message(b"x"), at) for at in range(2)] == [Accepted()] * 2


async def test_messages_are_forwarded_within_their_namespace(tenants: Tenants) -> None:
    first, second, _ = tenants.broker.namespaces.catalogs
    now = tenants.clock.now()
    await create(first, Queue("inbox", QueueProperties(forward_to="orders")), now=now)
    await create(second, Queue("inbox", QueueProperties(forward_to="orders")), now=now)
    async with forwarding(tenants.broker):
        client = await tenants.client("second")
        sender = await client.sender("inbox")
        assert await sender.sent(message(b"x"), 0) == Accepted()
        receiver = await client.receiver("orders")
        receiver.flow(link_credit=1)
        assert see((await receiver.receive()).payload).body == b"x"
    source = first.queue("orders").main.sources[0]
    assert (await source.store.counts(source.number)).messages == 0
