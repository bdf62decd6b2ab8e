"""Transactions over several entities: what is sent elsewhere goes by way of the first (R5.6)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bendybus.amqp.outcomes import Accepted, Rejected
from bendybus.amqp.values import Symbol, Timestamp
from bendybus.model.ids import SubQueue
from bendybus.testing.clock import NOON
from bendybus.testing.local_broker import forwarding
from bendybus.testing.wire_client import WAIT_SECONDS, WireClient, WireLink, sending
from tests.protocol.messaging.requesting import put_token, requests_to, token_for
from tests.protocol.messaging.sample_messages import BATCH_FORMAT, batch, message, see
from tests.protocol.messaging.serving import Served
from tests.protocol.messaging.test_transactions import NOT_ALLOWED, ROLLBACK, condition_of, text_of
from tests.protocol.messaging.transacting import (
    ACCEPTED,
    controller_of,
    held,
    part_of,
    send_part,
    settle_part,
)

pytestmark = pytest.mark.spec("R5.6")

DESTINATION = Symbol("com.microsoft:transfer-destination-address")
PAIRS = pytest.mark.parametrize(
    ("home", "other"),
    [("orders", "spare"), ("orders", "parts"), ("parts", "orders")],
    ids=["conventional", "to partitioned", "from partitioned"],
)


@asynccontextmanager
async def everything_forwarded(served: Served, *homes: str) -> AsyncIterator[None]:
    """Let what is in transfer queues be taken on, and wait at the end until nothing is."""
    async with forwarding(served.broker):
        yield
        async with asyncio.timeout(WAIT_SECONDS):
            while any([await served.count(each, SubQueue.TRANSFER) for each in homes]):  # noqa: ASYNC110 - the stores know nothing of events
                await asyncio.sleep(0.001)


async def via(client: WireClient, by_way_of: str, to: str, *, handle: int = 60) -> WireLink:
    """Attach a link that sends by way of another entity, whatever the answer."""
    return await client.attach(sending(by_way_of, handle=handle, properties={DESTINATION: to}))


async def received(client: WireClient, queue: str, *, handle: int = 70) -> Any:
    """Receive one message."""
    receiver = await client.receiver(queue, handle=handle)
    receiver.flow(link_credit=1)
    return see((await receiver.receive()).payload)


@pytest.mark.spec("R5.4")
@PAIRS
async def test_a_message_is_settled_here_and_sent_there_by_one_commit(
    served: Served, home: str, other: str
) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, home)
    controller = await controller_of(client)
    sender = await client.sender(other, handle=3)
    transaction = await controller.declare()
    await settle_part(receiver, delivery, transaction)
    payload = message(b"onward", partition_key="elsewhere", properties={"a": 1})
    assert await send_part(sender, 100, transaction, payload) == part_of(transaction, ACCEPTED)

    assert await controller.commit(transaction) == Accepted()

    # In one commit of one store: gone here, and on its way.
    assert await served.count(home) == 0
    assert await served.count(home, SubQueue.TRANSFER) == 1
    async with everything_forwarded(served, home):
        found = await received(client, other)
    assert (found.body, found.application_properties) == (b"onward", {"a": 1})
    assert found.annotations["x-opt-partition-key"] == "elsewhere"
    assert await served.count(other) == 1


@PAIRS
async def test_nothing_is_sent_there_when_it_is_rolled_back(
    served: Served, home: str, other: str
) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, home)
    controller = await controller_of(client)
    sender = await client.sender(other, handle=3)
    transaction = await controller.declare()
    await settle_part(receiver, delivery, transaction)
    await send_part(sender, 100, transaction)

    await controller.roll_back(transaction)

    assert await served.count(home, SubQueue.TRANSFER) == 0
    assert await served.count(home) == 1


@PAIRS
async def test_a_message_goes_on_as_soon_as_it_is_committed(
    served: Served, home: str, other: str
) -> None:
    client = await served.client()
    controller = await controller_of(client)
    receiver = await client.receiver(other, handle=70)
    receiver.flow(link_credit=1)
    async with everything_forwarded(served, home):
        transaction = await controller.declare()
        await send_part(await client.sender(home, handle=1), 1, transaction)
        # Whoever moves messages on has looked, and found nothing yet.
        assert await served.count(home, SubQueue.TRANSFER) == 0
        await send_part(await client.sender(other, handle=2), 2, transaction)
        assert await controller.commit(transaction) == Accepted()

        assert see((await receiver.receive()).payload).body == b"hello"


async def test_sends_to_many_entities_arrive_in_their_order(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    transaction = await controller.declare()
    names = ["orders", "spare", "parts"]
    senders = [await client.sender(name, handle=at) for at, name in enumerate(names)]
    for number in range(9):
        sender = senders[number % 3]
        payload = message(b"%d" % number, partition_key="k")
        await send_part(sender, number, transaction, payload)

    assert await controller.commit(transaction) == Accepted()

    async with everything_forwarded(served, "orders"):
        pass
    for at, name in enumerate(names):
        receiver = await client.receiver(name, handle=20 + at)
        receiver.flow(link_credit=3)
        bodies = [see((await receiver.receive()).payload).body for _ in range(3)]
        assert bodies == [b"%d" % number for number in range(at, 9, 3)]


async def test_another_fragment_of_the_home_is_elsewhere_too(served: Served) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, "parts", key="k")
    controller = await controller_of(client)
    sender = await client.sender("parts", handle=3)
    transaction = await controller.declare()
    await settle_part(receiver, delivery, transaction)
    payload = message(b"other", partition_key="another")

    assert await send_part(sender, 100, transaction, payload) == part_of(transaction, ACCEPTED)
    assert await controller.commit(transaction) == Accepted()

    async with everything_forwarded(served, "parts"):
        pass
    assert (await received(client, "parts")).body == b"other"


async def test_a_dead_letter_goes_back_to_its_queue_by_one_commit(served: Served) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, "orders")
    receiver.settle(delivery, Rejected(None))
    await receiver.confirmed(delivery)
    dead_letters = await client.receiver("orders/$DeadLetterQueue", handle=71)
    dead_letters.flow(link_credit=1)
    dead = await dead_letters.receive()
    controller = await controller_of(client)
    transaction = await controller.declare()
    await settle_part(dead_letters, dead, transaction)
    await send_part(await client.sender("orders", handle=3), 100, transaction)

    assert await controller.commit(transaction) == Accepted()

    assert await served.count("orders", SubQueue.DEAD_LETTER) == 0
    assert await served.count("orders") == 1


async def test_a_scheduled_message_arrives_when_its_time_has_come(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    transaction = await controller.declare()
    await send_part(await client.sender("orders", handle=1), 1, transaction)
    later: dict[object, object] = {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(NOON + 60_000)}
    payload = message(b"later", annotations=later)
    await send_part(await client.sender("spare", handle=2), 2, transaction, payload)
    await controller.commit(transaction)

    async with everything_forwarded(served, "orders"):
        assert await served.count("spare") == 0
        served.clock.advance(61)
        await served.broker.sweep.sweep_all()
    assert (await received(client, "spare")).body == b"later"


async def test_the_home_must_have_room_for_what_is_sent_elsewhere(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    served.queue("orders").fragment_bytes_max = 1000
    transaction = await controller.declare()
    await send_part(await client.sender("orders", handle=1), 1, transaction)
    payload = message(bytes(2000))
    await send_part(await client.sender("spare", handle=2), 2, transaction, payload)

    answer = await controller.commit(transaction)

    assert condition_of(answer) == ROLLBACK
    assert "full" in text_of(answer)
    assert await served.count("orders") == 0
    assert await served.count("orders", SubQueue.TRANSFER) == 0


# By way of an entity that the client names


@PAIRS
async def test_a_link_by_way_of_another_entity_makes_that_one_the_home(
    served: Served, home: str, other: str
) -> None:
    client = await served.client()
    controller = await controller_of(client)
    link = await via(client, home, other)
    transaction = await controller.declare()
    annotations: dict[object, object] = {Symbol("x-opt-via-partition-key"): "k"}
    payload = message(b"via", partition_key="there", annotations=annotations)

    assert await send_part(link, 1, transaction, payload) == part_of(transaction, ACCEPTED)
    # The home is the one in between, so its own messages can be settled.
    receiver, [delivery] = await held(client, home)
    assert await settle_part(receiver, delivery, transaction) == part_of(transaction, ACCEPTED)
    assert await controller.commit(transaction) == Accepted()

    assert await served.count(home) == 0
    async with everything_forwarded(served, home):
        pass
    assert (await received(client, other)).body == b"via"


@pytest.mark.spec("R5.1")
async def test_a_partitioned_entity_in_between_needs_a_key(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    link = await via(client, "parts", "orders")
    transaction = await controller.declare()

    answer = await send_part(link, 1, transaction, message())

    assert condition_of(answer) == NOT_ALLOWED
    assert "TransactionPartitionKey" in text_of(answer)


@PAIRS
async def test_outside_of_transactions_messages_go_by_that_way_as_well(
    served: Served, home: str, other: str
) -> None:
    client = await served.client()
    link = await via(client, home, other)

    assert await link.sent(message(b"1", partition_key="k"), 1) == Accepted()
    payload = batch(message(b"2", partition_key="k"), message(b"3", partition_key="k"))
    assert await link.sent(payload, 2, message_format=BATCH_FORMAT) == Accepted()
    link.send(message(b"4", partition_key="k"), 3, settled=True)
    assert await link.sent(message(b"5", partition_key="k"), 4) == Accepted()

    assert await served.count(home, SubQueue.TRANSFER) == 5
    assert await served.count(other) == 0
    async with everything_forwarded(served, home):
        pass
    assert await served.count(other) == 5


async def test_what_cannot_be_read_is_refused_on_such_a_link(served: Served) -> None:
    client = await served.client()
    link = await via(client, "orders", "spare")

    answer = await link.sent(b"\xff", 1)

    assert condition_of(answer) == "com.microsoft:argument-error"


@pytest.mark.parametrize(
    ("to", "condition"),
    [
        pytest.param("nowhere", "amqp:not-found", id="missing"),
        pytest.param("no-sends", "com.microsoft:entity-disabled", id="disabled"),
        pytest.param("spare/$DeadLetterQueue", NOT_ALLOWED, id="dead letters"),
        pytest.param(7, "com.microsoft:argument-error", id="no address"),
    ],
)
async def test_a_destination_that_takes_nothing_is_refused_at_once(
    served: Served, to: Any, condition: str
) -> None:
    link = await via(await served.client(), "orders", to)

    error = (await link.detached()).error
    assert error is not None
    assert error.condition == condition


@pytest.mark.parametrize("missing", ["orders", "spare"])
async def test_both_entities_need_a_token(served: Served, missing: str) -> None:
    client = await served.stranger()
    await client.log_in()
    await client.begin()
    tokens = await requests_to(client, "$cbs")
    for name in ("orders", "spare"):
        if name != missing:
            resource = f"sb://localhost/{name}"
            await put_token(tokens, resource, token_for(resource))

    refused = await via(client, "orders", "spare")
    error = (await refused.detached()).error
    assert error is not None
    assert error.condition == "amqp:unauthorized-access"

    resource = f"sb://localhost/{missing}"
    await put_token(tokens, resource, token_for(resource))
    link = await via(client, "orders", "spare", handle=61)
    assert await link.sent(message(), 1) == Accepted()


@pytest.mark.parametrize("short", ["orders", "spare"])
async def test_a_link_ends_with_the_first_token_of_both(served: Served, short: str) -> None:
    client = await served.stranger()
    await client.log_in()
    await client.begin()
    tokens = await requests_to(client, "$cbs")
    for name in ("orders", "spare"):
        resource = f"sb://localhost/{name}"
        seconds = 30 if name == short else 3600
        await put_token(tokens, resource, token_for(resource, seconds=seconds))
    link = await via(client, "orders", "spare")
    assert await link.sent(message(), 1) == Accepted()

    served.clock.advance(31)
    [connection] = served.listener.connections
    connection.tick(served.clock.now())

    error = (await link.detached()).error
    assert error is not None
    assert error.condition == "amqp:unauthorized-access"
