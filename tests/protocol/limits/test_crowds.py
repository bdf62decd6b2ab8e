"""Too many connections, too many strangers, too many receivers: refused, and room again after."""

import asyncio
from collections.abc import Callable

import pytest

from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.performatives import Close, Detach
from bendybus.broker import receives
from bendybus.server import visitor
from bendybus.testing.wire_client import WAIT_SECONDS, WireClient, receiving
from tests.protocol.messaging.sample_messages import message
from tests.protocol.messaging.serving import ROOT_LOGIN, Served
from tests.protocol.messaging.session_links import asking


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0)


async def _refusal(client: WireClient) -> str:
    """Return why the broker closed the connection."""
    error = (await client.hear(Close)).body.error
    assert error is not None
    return str(error.condition)


async def test_a_namespace_has_only_so_many_connections(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitor, "CONNECTIONS_MAX", 2)
    first, second = await served.client(), await served.client()
    third = await served.stranger()
    await third.log_in("PLAIN", ROOT_LOGIN)
    assert await _refusal(third) == "amqp:resource-limit-exceeded"
    assert await (await first.sender("orders")).sent(message(), 0) == Accepted()

    second.hang_up()
    await third.until_closed()
    await _until(lambda: len(served.listener.connections) == 1)
    fourth = await served.client()
    assert await (await fourth.sender("orders")).sent(message(), 0) == Accepted()


async def test_strangers_of_one_address_cannot_use_up_the_connections(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitor, "STRANGERS_MAX", 3)
    known = [await served.client() for _ in range(5)]
    strangers = [await served.stranger() for _ in range(3)]
    for each in strangers:
        await each.log_in()
    assert not any(each.unheard(Close) for each in (*known, *strangers))

    one_more = await served.stranger()
    await one_more.log_in()
    assert await _refusal(one_more) == "com.microsoft:server-busy"
    await one_more.until_closed()
    after = await served.client()
    assert await (await after.sender("orders")).sent(message(), 0) == Accepted()


@pytest.mark.parametrize("address", ["orders", "parts", "news/Subscriptions/all"])
async def test_an_entity_has_only_so_many_receivers_at_once(
    served: Served, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(receives, "RECEIVES_MAX", 2)
    client = await served.client()
    first = await client.receiver(address, handle=1)
    await client.receiver(address, handle=2)

    third = await client.attach(receiving(address, handle=3))
    error = (await third.detached()).error
    assert error is not None
    assert error.condition == "amqp:resource-limit-exceeded"
    await client.receiver("spare", handle=4)

    client.say(Detach(handle=first.handle, closed=True))
    await first.detached()
    await client.receiver(address, handle=5)


@pytest.mark.parametrize("queue", ["sessions", "session-parts"])
async def test_who_waits_for_a_session_counts_too_and_no_longer_when_it_is_over(
    served: Served, monkeypatch: pytest.MonkeyPatch, queue: str
) -> None:
    monkeypatch.setattr(receives, "RECEIVES_MAX", 1)
    waiting = await served.client()
    waiting.say(asking(queue, None))
    counted = served.queue(queue).main.receives
    await _until(lambda: counted.count == 1)

    other = await served.client()
    refused = await other.attach(asking(queue, None))
    error = (await refused.detached()).error
    assert error is not None
    assert error.condition == "amqp:resource-limit-exceeded"

    waiting.hang_up()
    await _until(lambda: counted.count == 0)


async def test_receivers_of_a_connection_that_ends_are_not_counted_any_more(
    served: Served,
) -> None:
    client = await served.client()
    counted = served.queue("orders").main.receives
    for handle in range(5):
        await client.receiver("orders", handle=handle)
    assert counted.count == 5
    client.hang_up()
    await _until(lambda: counted.count == 0)
