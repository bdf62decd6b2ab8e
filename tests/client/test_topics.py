"""Both clients with topics: a subscription is received from like a queue."""

from typing import Any

import pytest

from bendybus.client import Message, SubQueue
from bendybus.client.errors import EntityNotFound, InvalidOperation
from tests.client.conftest import Connect, Served

pytestmark = pytest.mark.spec("R8.2")

SOON = 10.0
TOPICS = pytest.mark.parametrize("topic", ["news", "feed"])


@TOPICS
async def test_each_subscription_is_received_from_by_its_name(connect: Connect, topic: str) -> None:
    client = connect()
    sender = client.sender(topic)
    await sender.send(Message(b"red", application_properties={"colour": "red"}))
    await sender.send(Message(b"plain"))
    found: dict[str, list[Any]] = {}
    for name, count in (("all", 2), ("red", 1)):
        receiver = client.receiver(topic, subscription=name)
        messages: list[Any] = []
        while len(messages) < count:
            messages += await receiver.receive(count - len(messages), SOON)
        await receiver.complete(messages)
        found[name] = sorted(message.body for message in messages)
    assert found == {"all": [b"plain", b"red"], "red": [b"red"]}


@TOPICS
async def test_a_subscription_has_dead_letters_of_its_own(
    connect: Connect, topic: str, served: Served
) -> None:
    client = connect()
    await client.sender(topic).send(Message(b"bad"))
    receiver = client.receiver(topic, subscription="all")
    [message] = await receiver.receive(1, SOON)
    await receiver.dead_letter(message, reason="why")
    dead_letters = client.receiver(topic, subscription="all", sub_queue=SubQueue.DEAD_LETTER)
    [dead] = await dead_letters.receive(1, SOON)
    assert dead.body == b"bad"
    assert await served.count(f"{topic}/Subscriptions/all") == 0


async def test_what_is_not_there_or_not_for_receiving_is_refused(connect: Connect) -> None:
    client = connect()
    with pytest.raises(EntityNotFound, match=r"news\|none"):
        await client.receiver("news", subscription="none").receive(1, 1)
    with pytest.raises(InvalidOperation, match="subscriptions"):
        await client.receiver("news").receive(1, 1)
