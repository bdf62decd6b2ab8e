"""Namespaces that are created and deleted while clients are connected."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.performatives import Detach
from bendybus.broker.catalog import Catalog
from bendybus.broker.create import create
from bendybus.broker.create_namespace import create_namespace
from bendybus.broker.delete_namespace import delete_namespace
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.tier import Tier
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, listening, local_broker
from bendybus.testing.wire_client import WireClient, connected, sending
from tests.protocol.messaging.requesting import put_token, requests_to, token_for
from tests.protocol.messaging.sample_messages import message, see

HOST = "team-blue.example"
QUEUES = (Queue("orders"), Queue("parts", QueueProperties(enable_partitioning=True)))


@dataclass(slots=True)
class Growing:
    """A broker with one configured namespace, and its clients."""

    broker: LocalBroker
    port: int
    clock: ManualClock
    _clients: AsyncExitStack = field(repr=False)

    async def created(self) -> Catalog:
        namespaces, now = self.broker.namespaces, self.clock.now()
        made = await create_namespace(namespaces, "team-blue", Tier(), now=now)
        for queue in QUEUES:
            await create(made, queue, now=now)
        return made

    async def stranger(self) -> WireClient:
        return await self._clients.enter_async_context(connected(self.port))

    async def client(self, catalog: Catalog, host: str = HOST) -> WireClient:
        """Log in with the root key of a namespace."""
        client, [root] = await self.stranger(), catalog.access.rules
        login = f"\0{root.name}\0{root.primary_key}".encode()
        await client.log_in("PLAIN", login, login_host=host, hostname=host)
        await client.begin()
        return client


@pytest.fixture
async def growing(tmp_path: Path) -> AsyncIterator[Growing]:
    clock = ManualClock()
    async with (
        local_broker(tmp_path, QUEUES, clock, stores=2) as broker,
        listening(broker) as listener,
        AsyncExitStack() as clients,
    ):
        yield Growing(broker, listener.port, clock, clients)


def condition(detach: Detach) -> str:
    assert detach.error is not None
    return str(detach.error.condition)


@pytest.mark.parametrize("queue", ["orders", "parts"])
async def test_a_created_namespace_is_reached_at_once_by_its_host_and_key(
    growing: Growing, queue: str
) -> None:
    default = growing.broker.catalog
    kept = await (await growing.client(default, "machine.example")).sender(queue)
    made = await growing.created()
    client = await growing.client(made)
    sender = await client.sender(queue)
    assert await sender.sent(message(b"blue"), 0) == Accepted()
    assert await kept.sent(message(b"default"), 0) == Accepted()
    receiver = await client.receiver(queue, handle=1)
    receiver.flow(link_credit=10)
    assert see((await receiver.receive()).payload).body == b"blue"
    for catalog, host in ((default, HOST), (made, "localhost"), (made, "machine.example")):
        with pytest.raises(PermissionError):
            await growing.client(catalog, host)
    # Whoever came by another name of the machine still does.
    await growing.client(default, "machine.example")


@pytest.mark.parametrize("queue", ["orders", "parts"])
async def test_links_into_a_namespace_that_is_deleted_end_as_not_found(
    growing: Growing, queue: str
) -> None:
    default, made = growing.broker.catalog, await growing.created()
    kept = await (await growing.client(default, "localhost")).sender(queue)
    client = await growing.client(made)
    sender, receiver = await client.sender(queue), await client.receiver(queue, handle=1)
    receiver.flow(link_credit=10)

    await delete_namespace(growing.broker.namespaces, "team-blue", with_entities=True)

    assert condition(await sender.detached()) == "amqp:not-found"
    assert condition(await receiver.detached()) == "amqp:not-found"
    refused = await client.attach(sending(queue, handle=5))
    assert condition(await refused.detached()) == "amqp:not-found"
    assert await kept.sent(message(b"x"), 0) == Accepted()
    # Not even another of that name lets them in again.
    await growing.created()
    refused = await client.attach(sending(queue, handle=6))
    assert condition(await refused.detached()) == "amqp:not-found"


async def test_who_came_before_the_namespace_was_known_is_in_it_by_its_key(
    growing: Growing,
) -> None:
    client = await growing.stranger()
    await client.log_in(hostname=HOST)
    await client.begin()
    tokens = await requests_to(client, "$cbs")
    made = await growing.created()
    [root] = made.access.rules
    audience = "sb://team-blue.example/orders"
    answer = await put_token(tokens, audience, token_for(audience, rule=root))
    assert answer["status-code"] == 202
    sender = await client.sender("orders")
    assert await sender.sent(message(b"blue"), 0) == Accepted()
    receiver = await (await growing.client(made)).receiver("orders")
    receiver.flow(link_credit=1)
    assert see((await receiver.receive()).payload).body == b"blue"


async def test_who_has_proved_something_stays_where_that_was(growing: Growing) -> None:
    client = await growing.stranger()
    await client.log_in(hostname=HOST)
    await client.begin()
    tokens = await requests_to(client, "$cbs")
    audience = "sb://team-blue.example/orders"
    granted = await put_token(tokens, audience, token_for(audience))
    assert granted["status-code"] == 202
    [root] = (await growing.created()).access.rules
    refused = await put_token(tokens, audience, token_for(audience, rule=root))
    assert refused["status-code"] == 401
