"""Bearer tokens at `$cbs`: whose roles allow what."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from bendybus.amqp.outcomes import Accepted
from bendybus.broker.authenticate import Authentication
from bendybus.broker.hosts import Hosts
from bendybus.doors.door import Door
from bendybus.http.issuers import trusting
from bendybus.model.access import Right
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.token_issuer import SERVICE_ROLES, RoleRights
from bendybus.server.listener import AmqpListener, listen
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import local_broker
from bendybus.testing.wire_client import WireClient, connected, receiving, sending
from tests.http.local_issuer import LocalIssuer, local_issuer
from tests.protocol.messaging.requesting import Requests, put_token, requests_to
from tests.protocol.messaging.sample_messages import message

QUEUES = (Queue("orders"), Queue("parts", QueueProperties(enable_partitioning=True)))
DESK = RoleRights("desk", frozenset({Right.SEND}), "orders")
AN_HOUR = NOON // 1000 + 3600


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    with local_issuer() as issuer:
        issuer.add_key("first", "RS256")
        yield issuer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def listener(
    issuer: LocalIssuer, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[AmqpListener]:
    told = replace(issuer.trusted, roles=(*SERVICE_ROLES, DESK))
    async with (
        local_broker(tmp_path, QUEUES, clock, stores=2) as broker,
        trusting(told, clock) as bearer,
    ):
        listener = await listen(
            [Door("amqp", "127.0.0.1", 0)],
            hosts=Hosts(broker.namespaces, lambda catalog: Authentication(catalog, clock, bearer)),
            clock=clock,
        )
        yield listener
        await listener.close()


@pytest.fixture
async def client(listener: AmqpListener) -> AsyncIterator[tuple[WireClient, Requests]]:
    async with AsyncExitStack() as clients:
        client = await clients.enter_async_context(connected(listener.port))
        await client.log_in()
        await client.begin()
        yield client, await requests_to(client, "$cbs", handle=100)


def _role(word: str) -> list[str]:
    return [f"Azure Service Bus Data {word}"]


@pytest.mark.parametrize(
    ("roles", "may_send", "may_receive"),
    [
        (_role("Owner"), {"orders", "parts"}, {"orders", "parts"}),
        (_role("Sender"), {"orders", "parts"}, set()),
        (_role("Receiver"), set(), {"orders", "parts"}),
        (["desk"], {"orders"}, set()),
        (["nobody"], set(), set()),
    ],
)
async def test_the_roles_of_a_token_say_which_links_are_open(
    client: tuple[WireClient, Requests],
    issuer: LocalIssuer,
    roles: list[str],
    may_send: set[str],
    may_receive: set[str],
) -> None:
    wire, tokens = client
    token = issuer.token("first", expires=AN_HOUR, roles=roles)
    for name in ("orders", "parts"):
        answer = await put_token(tokens, f"sb://localhost/{name}", token, type="jwt")
        assert answer["status-code"] == 202

    for handle, name in enumerate(("orders", "parts")):
        to = await wire.attach(sending(name, handle=handle))
        assert (to.answer.target is not None) is (name in may_send)
        source = await wire.attach(receiving(name, handle=handle + 10))
        assert (source.answer.source is not None) is (name in may_receive)


async def test_a_link_ends_with_its_bearer_token_unless_that_is_renewed(
    client: tuple[WireClient, Requests],
    issuer: LocalIssuer,
    listener: AmqpListener,
    clock: ManualClock,
) -> None:
    wire, tokens = client

    def tick(seconds: float) -> None:
        clock.advance(seconds)
        for connection in list(listener.connections):
            connection.tick(clock.now())

    async def put(expires: int) -> None:
        token = issuer.token("first", expires=expires)
        await put_token(tokens, "sb://localhost/orders", token)

    await put(NOON // 1000 + 60)
    sender = await wire.sender("orders", handle=1)
    await put(NOON // 1000 + 600)
    tick(600 + 299)
    assert await sender.sent(message(), 0) == Accepted()
    tick(1)
    error = (await sender.detached()).error
    assert error is not None
    assert "ExpiredToken" in str(error.description)


async def test_a_token_of_nobody_we_know_is_answered_with_401(
    client: tuple[WireClient, Requests], issuer: LocalIssuer
) -> None:
    _, tokens = client
    with local_issuer() as other:
        other.add_key("first", "RS256")
        token = other.token("first", expires=AN_HOUR, iss=issuer.url)
    answer = await put_token(tokens, "sb://localhost/orders", token)
    assert answer["status-code"] == 401
    assert "InvalidSignature" in answer["status-description"]


async def test_a_missing_entity_is_still_answered_with_404(
    client: tuple[WireClient, Requests], issuer: LocalIssuer
) -> None:
    _, tokens = client
    token = issuer.token("first", expires=AN_HOUR)
    answer = await put_token(tokens, "sb://localhost/nowhere", token)
    assert answer["status-code"] == 404
    assert "could not be found" in answer["status-description"]
