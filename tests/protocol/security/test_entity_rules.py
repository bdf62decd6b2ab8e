"""Keys of single queues and topics over AMQP: what they open, and every action by its right."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from bendybus.amqp.outcomes import Accepted
from bendybus.broker.access_keys import new_key
from bendybus.broker.access_rules import renew_key
from bendybus.broker.open_transactions import OpenTransactions
from bendybus.model.access import AccessRule, Right
from bendybus.model.access_rules import KeyKind
from bendybus.model.actions import RIGHTS_NEEDED, Action
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic, TopicProperties
from bendybus.model.transaction import TransactionLimits
from bendybus.server.listener import AmqpListener
from bendybus.server.management_node import ManagementNode
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, listening, local_broker
from bendybus.testing.wire_client import WireClient, connected, receiving, sending
from tests.protocol.messaging.requesting import Requests, put_token, requests_to, token_for
from tests.protocol.messaging.sample_messages import message

RULES = {
    right: AccessRule(
        f"only-{right.value.lower()}",
        new_key(),
        frozenset(Right) if right is Right.MANAGE else frozenset({right}),
        new_key(),
    )
    for right in Right
}
ACCESS = tuple(RULES.values())
ENTITIES = (
    Queue("orders", QueueProperties(authorization_rules=ACCESS)),
    Queue("parts", QueueProperties(authorization_rules=ACCESS, enable_partitioning=True)),
    Queue("orders/special"),
    Topic("news", TopicProperties(authorization_rules=ACCESS), (Subscription("all"),)),
    Topic(
        "feed",
        TopicProperties(authorization_rules=ACCESS, enable_partitioning=True),
        (Subscription("all"),),
    ),
)
# Where messages come out, and the entity whose keys open that.
SOURCES = {
    "orders": "orders",
    "parts": "parts",
    "news/Subscriptions/all": "news",
    "feed/Subscriptions/all/$DeadLetterQueue": "feed",
}
NO_OPERATIONS = {
    Action.SEND,
    Action.RECEIVE,
    Action.SETTLE,
    Action.RENEW,
    Action.MANAGE_ENTITY,
    Action.MANAGE_ACCESS,
    Action.MANAGE_STORES,
    Action.MANAGE_NAMESPACES,
    Action.READ_METRICS,
    Action.DESCRIBE_QUEUE,
    Action.READ_MESSAGES,
    Action.RESERVE_MESSAGES,
    Action.RELEASE_READER,
    Action.STAGE_MESSAGES,
}
OPERATIONS = [action for action in Action if action not in NO_OPERATIONS]


@dataclass(slots=True)
class Guarded:
    """A broker whose entities have keys, and clients that connect to it."""

    broker: LocalBroker
    listener: AmqpListener
    clock: ManualClock
    clients: AsyncExitStack

    async def client(self) -> tuple[WireClient, Requests]:
        """Connect without proving anything, with links to `$cbs`."""
        client = await self.clients.enter_async_context(connected(self.listener.port))
        await client.log_in()
        await client.begin()
        return client, await requests_to(client, "$cbs", handle=100)

    def tick(self) -> None:
        """Let the connections look at the clock."""
        for connection in list(self.listener.connections):
            connection.tick(self.clock.now())


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    clock = ManualClock()
    async with (
        local_broker(tmp_path, ENTITIES, clock, stores=2) as broker,
        listening(broker) as listener,
        AsyncExitStack() as clients,
    ):
        yield Guarded(broker, listener, clock, clients)


async def _put(
    tokens: Requests,
    entity: str,
    rule: AccessRule,
    *,
    key: str | None = None,
    seconds: int = 3600,
) -> int:
    """Put a token for an entity; return the status of the answer."""
    resource = f"sb://localhost/{entity}"
    token = token_for(resource, rule=rule, key=key, seconds=seconds)
    return int((await put_token(tokens, resource, token))["status-code"])


@pytest.mark.parametrize("right", Right)
@pytest.mark.parametrize("entity", ["orders", "parts", "news", "feed"])
async def test_a_link_that_sends_needs_send(guarded: Guarded, entity: str, right: Right) -> None:
    client, tokens = await guarded.client()
    assert await _put(tokens, entity, RULES[right]) == 202

    link = await client.attach(sending(entity, handle=1))

    if right is Right.LISTEN:
        error = (await link.detached()).error
        assert error is not None
        assert error.condition == "amqp:unauthorized-access"
        assert "'Send' claim(s) are required" in str(error.description)
    else:
        assert await link.sent(message(), 0) == Accepted()


@pytest.mark.parametrize("right", Right)
@pytest.mark.parametrize("source", SOURCES)
async def test_a_link_that_receives_needs_listen(
    guarded: Guarded, source: str, right: Right
) -> None:
    client, tokens = await guarded.client()
    assert await _put(tokens, SOURCES[source], RULES[right]) == 202

    link = await client.attach(receiving(source, handle=1))

    if right is Right.SEND:
        error = (await link.detached()).error
        assert error is not None
        assert error.condition == "amqp:unauthorized-access"
        assert "'Listen' claim(s) are required" in str(error.description)
    else:
        assert link.answer.source is not None


@pytest.mark.parametrize("right", Right)
@pytest.mark.parametrize("source", SOURCES)
async def test_every_operation_of_management_needs_the_right_of_the_table(
    guarded: Guarded, source: str, right: Right
) -> None:
    client, tokens = await guarded.client()
    await _put(tokens, SOURCES[source], RULES[right])
    requests = await requests_to(client, f"{source}/$management", handle=20)

    refused = [
        action
        for action in OPERATIONS
        if (await requests.ask(_operation(action), {})).status == 401
    ]

    allowed = {Right.MANAGE: set(Right)}.get(right, {right})
    assert refused == [each for each in OPERATIONS if RIGHTS_NEEDED[each] not in allowed]


async def test_every_operation_of_management_is_in_the_table(guarded: Guarded) -> None:
    sub_queue = guarded.broker.queue("orders").main
    catalog, clock = guarded.broker.catalog, guarded.clock
    transactions = OpenTransactions(TransactionLimits(), clock)
    node = ManagementNode(sub_queue, catalog, clock, transactions, lambda *_: None, lambda _: None)
    assert set(node._operations) == {action.value for action in OPERATIONS}


async def test_a_key_of_one_entity_opens_no_other(guarded: Guarded) -> None:
    client, tokens = await guarded.client()
    rule = RULES[Right.MANAGE]
    alien = AccessRule("alien", new_key(), frozenset({Right.SEND}))

    assert await _put(tokens, "orders", rule) == 202
    assert await _put(tokens, "orders/special", rule) == 401
    assert await _put(tokens, "", rule) == 401
    assert await _put(tokens, "orders", alien) == 401

    # A token for `orders` would cover what is below it, but its key is of `orders` alone.
    for handle, address in enumerate(("orders/special", "parts", "news")):
        link = await client.attach(sending(address, handle=handle))
        error = (await link.detached()).error
        assert error is not None
        assert error.condition == "amqp:unauthorized-access"


async def test_a_key_of_an_entity_does_not_log_in(guarded: Guarded) -> None:
    rule = RULES[Right.MANAGE]
    client = await guarded.clients.enter_async_context(connected(guarded.listener.port))
    with pytest.raises(PermissionError, match="SASL code 1"):
        await client.log_in("PLAIN", f"\0{rule.name}\0{rule.primary_key}".encode())


@pytest.mark.parametrize("entity", ["orders", "parts"])
async def test_links_live_on_when_their_key_is_replaced_until_their_token_ends(
    guarded: Guarded, entity: str
) -> None:
    client, tokens = await guarded.client()
    rule = RULES[Right.SEND]
    await _put(tokens, entity, rule, seconds=60)
    sender = await client.sender(entity, handle=1)

    renewed = await renew_key(
        guarded.broker.catalog, entity, rule.name, KeyKind.PRIMARY, now=guarded.clock.now()
    )

    assert await _put(tokens, entity, rule) == 401
    guarded.tick()
    assert await sender.sent(message(), 0) == Accepted()
    assert await _put(tokens, entity, rule, key=rule.secondary_key, seconds=70) == 202
    assert await _put(tokens, entity, renewed, seconds=80) == 202
    guarded.clock.advance(79)
    guarded.tick()
    assert await sender.sent(message(), 1) == Accepted()
    guarded.clock.advance(2)
    guarded.tick()
    error = (await sender.detached()).error
    assert error is not None
    assert "ExpiredToken" in str(error.description)


def _operation(action: Action) -> str:
    name = action.value
    return name if name.startswith("bendybus:") else f"com.microsoft:{name}"
