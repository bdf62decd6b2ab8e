"""Entities that are changed or deleted while clients have links to them (R7.1, CONTRACT 11.6)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bendybus.amqp.outcomes import Accepted, Modified
from bendybus.amqp.performatives import Attach, Detach
from bendybus.broker.create import create
from bendybus.broker.delete import delete
from bendybus.broker.removal import Removal
from bendybus.broker.rules import add_rule
from bendybus.broker.update import update
from bendybus.model.entity import EntityStatus, Queue, Subscription
from bendybus.model.ids import SubQueue
from bendybus.model.rule import Rule
from bendybus.testing.local_broker import forwarding
from bendybus.testing.wire_client import WireClient
from tests.protocol.messaging.requesting import requests_to
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import Served
from tests.protocol.messaging.session_links import asking, post

QUEUES = pytest.mark.parametrize("queue", ["orders", "parts"])
SUBSCRIPTIONS = pytest.mark.parametrize("topic", ["news", "feed"])


async def change(served: Served, name: str, **properties: Any) -> None:
    """Change some properties of a queue."""
    catalog = served.broker.catalog
    known = catalog.record(name).entity
    assert isinstance(known, Queue)
    changed = Queue(known.name, replace(known.properties, **properties))
    await update(catalog, changed, now=served.clock.now())


async def filled(client: WireClient, queue: str, count: int = 1) -> None:
    sender = await client.sender(queue, handle=80)
    for number in range(count):
        assert await sender.sent(message(b"%d" % number), number) == Accepted()
    client.say(Detach(handle=80, closed=True))
    await sender.detached()


def condition(detach: Detach) -> str:
    assert detach.closed
    assert detach.error is not None
    return str(detach.error.condition)


@QUEUES
async def test_links_to_a_queue_that_is_deleted_end_as_not_found(
    served: Served, queue: str
) -> None:
    client, other = await served.client(), await served.client()
    sender, receiver = await client.sender(queue), await other.receiver(queue, handle=1)
    await client.receiver(f"{queue}/$DeadLetterQueue", handle=2)
    receiver.flow(link_credit=10)
    kept = await client.sender("spare", handle=3)

    await delete(served.broker.catalog, queue)

    ended = await sender.detached()
    assert condition(ended) == "amqp:not-found"
    assert ended.error is not None
    # The words by which the clients know it.
    text = f"The messaging entity 'sb://sbemulatorns/{queue}' could not be found"
    assert text in (ended.error.description or "")
    assert condition(await receiver.detached()) == "amqp:not-found"
    await client.hear(Detach, where=lambda each: each.body.handle == 2)
    assert await kept.sent(message(b"x"), 0) == Accepted()
    refused = await client.attach(Attach(**{**vars_of(sender.answer), "handle": 7}))
    assert condition(await refused.detached()) == "amqp:not-found"


def vars_of(attach: Attach) -> dict[str, Any]:
    """Return the Attach that a client would send to have a link again."""
    return {
        "name": "again",
        "role": False,
        "source": attach.source,
        "target": attach.target,
        "initial_delivery_count": 0,
    }


@QUEUES
async def test_what_a_deleted_queue_held_is_gone_and_the_store_goes_on(
    served: Served, queue: str
) -> None:
    client = await served.client()
    await filled(client, queue, 20)
    receiver = await client.receiver(queue)
    receiver.flow(link_credit=5)
    held = [await receiver.receive() for _ in range(5)]
    await delete(served.broker.catalog, queue)
    await receiver.detached()
    await Removal(served.broker.namespaces, served.clock).look()
    assert len(held) == 5
    assert not served.broker.namespaces.records.retired()
    await create(served.broker.catalog, Queue(queue), now=served.clock.now())
    await filled(client, queue, 1)
    assert await served.count(queue) == 1


async def test_requests_to_a_deleted_queue_end_too(served: Served) -> None:
    client = await served.client()
    requests = await requests_to(client, "orders/$management")
    await delete(served.broker.catalog, "orders")
    assert condition(await requests.to_node.detached()) == "amqp:not-found"
    assert condition(await requests.from_node.detached()) == "amqp:not-found"


@pytest.mark.parametrize("queue", ["sessions", "session-parts"])
async def test_who_holds_or_waits_for_a_session_of_a_deleted_queue_is_told(
    served: Served, queue: str
) -> None:
    client, other = await served.client(), await served.client()
    await post(client, queue, "one", b"a")
    holder = await client.attach(asking(queue, "one"))
    other.say(asking(queue, None, handle=5))
    await other.written()
    await delete(served.broker.catalog, queue)
    assert condition(await holder.detached()) == "amqp:not-found"
    refused = await other.hear(Detach, where=lambda each: each.body.handle == 5)
    assert condition(refused.body) == "amqp:not-found"


@SUBSCRIPTIONS
async def test_a_topic_takes_its_subscriptions_links_along(served: Served, topic: str) -> None:
    client = await served.client()
    sender = await client.sender(topic)
    receiver = await client.receiver(f"{topic}/Subscriptions/all")
    await delete(served.broker.catalog, f"{topic}/Subscriptions/all")
    assert condition(await receiver.detached()) == "amqp:not-found"
    assert await sender.sent(message(b"x"), 0) == Accepted()
    other = await client.receiver(f"{topic}/Subscriptions/ruled", handle=4)
    await delete(served.broker.catalog, topic)
    assert condition(await other.detached()) == "amqp:not-found"
    assert condition(await sender.detached()) == "amqp:not-found"


STATUSES = {
    EntityStatus.DISABLED: (True, True),
    EntityStatus.SEND_DISABLED: (True, False),
    EntityStatus.RECEIVE_DISABLED: (False, True),
}


@QUEUES
@pytest.mark.parametrize("status", STATUSES, ids=lambda status: status.value)
async def test_a_status_closes_the_links_that_it_forbids_and_no_others(
    served: Served, queue: str, status: EntityStatus
) -> None:
    client = await served.client()
    sender, receiver = await client.sender(queue), await client.receiver(queue)
    await change(served, queue, status=status)
    for link, is_closed in zip((sender, receiver), STATUSES[status], strict=True):
        if is_closed:
            assert condition(await link.detached()) == "com.microsoft:entity-disabled"
    if status is EntityStatus.SEND_DISABLED:
        receiver.flow(link_credit=1)
    if status is EntityStatus.RECEIVE_DISABLED:
        assert await sender.sent(message(b"x"), 0) == Accepted()
    await change(served, queue, status=EntityStatus.ACTIVE)
    again = await client.sender(queue, handle=9)
    assert await again.sent(message(b"x"), 7) == Accepted()


@QUEUES
async def test_a_lock_lasts_as_long_as_the_queue_says_when_it_is_taken(
    served: Served, queue: str
) -> None:
    client = await served.client()
    receiver = await client.receiver(queue)
    await filled(client, queue, 2)
    receiver.flow(link_credit=1)
    before = see((await receiver.receive()).payload).annotations["x-opt-locked-until"]
    await change(served, queue, lock_duration=timedelta(minutes=5))
    later = await client.receiver(queue, handle=6)
    later.flow(link_credit=1)
    after = see((await later.receive()).payload).annotations["x-opt-locked-until"]
    assert after - before == (300 - 30) * 1000


async def test_the_most_deliveries_are_those_that_the_queue_has_now(served: Served) -> None:
    client = await served.client()
    receiver = await client.receiver("orders")
    await filled(client, "orders")
    await change(served, "orders", max_delivery_count=1)
    receiver.flow(link_credit=1)
    receiver.settle(await receiver.receive(), Modified(True, False, None))
    dead = await client.receiver("orders/$DeadLetterQueue", handle=5)
    dead.flow(link_credit=1)
    assert see((await dead.receive()).payload).application_properties["DeadLetterReason"] == (
        "MaxDeliveryCountExceeded"
    )


@QUEUES
async def test_forwarding_starts_for_what_is_there_and_stops_for_what_comes(
    served: Served, queue: str
) -> None:
    client = await served.client()
    receiver = await client.receiver(queue)
    await filled(client, queue, 3)
    async with forwarding(served.broker):
        await change(served, queue, forward_to="spare")
        assert condition(await receiver.detached()) == "amqp:not-allowed"
        spare = await client.receiver("spare", handle=3)
        spare.flow(link_credit=9)
        for _ in range(3):
            await spare.receive()
        await change(served, queue, forward_to=None)
        again = await client.receiver(queue, handle=4)
        again.flow(link_credit=9)
        await filled(client, queue, 2)
        for _ in range(2):
            await again.receive()
    assert await served.count(queue, SubQueue.DEAD_LETTER) == 0


async def test_messages_that_wait_to_be_forwarded_are_for_receivers_when_it_stops(
    served: Served,
) -> None:
    """The destination is full, so they are held; then nobody wants them there any more."""
    client = await served.client()
    served.queue("spare").fragment_bytes_max = 1
    async with forwarding(served.broker):
        await change(served, "orders", forward_to="spare")
        await filled(client, "orders", 3)
        source = served.queue("orders").main.sources[0]
        while (await source.store.locked()).get(source.number, 0) < 3:
            continue
        await change(served, "orders", forward_to=None)
        receiver = await client.receiver("orders", handle=4)
        receiver.flow(link_credit=9)
        for _ in range(3):
            await receiver.receive()


@SUBSCRIPTIONS
async def test_a_new_subscription_and_a_new_rule_hold_for_the_next_message(
    served: Served, topic: str
) -> None:
    client = await served.client()
    sender = await client.sender(topic)
    catalog, now = served.broker.catalog, served.clock.now()
    ruled = await client.receiver(f"{topic}/Subscriptions/ruled", handle=3)
    ruled.flow(link_credit=9)
    await sender.sent(message(b"before"), 0)
    await create(catalog, Subscription("new"), topic=topic, now=now)
    await add_rule(catalog, catalog.subscription(topic, "ruled"), Rule("all"), now=now)
    await sender.sent(message(b"after"), 1)
    new = await client.receiver(f"{topic}/Subscriptions/new", handle=4)
    new.flow(link_credit=9)
    for link in (ruled, new):
        assert see((await link.receive()).payload).body == b"after"


async def test_links_that_have_ended_are_forgotten_by_the_queue(served: Served) -> None:
    client = await served.client()
    await post(client, "sessions", "one", b"a")
    for handle in range(5, 9):
        link = await client.attach(asking("sessions", "one", handle=handle))
        client.say(Detach(handle=handle, closed=True))
        await link.detached()
    assert not served.queue("sessions").is_used
