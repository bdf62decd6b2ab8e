"""Both clients redrive dead letters and delete by condition, against the real broker."""

from typing import Any

import pytest

from bendybus.client import Edit, Message, MessageState, Progress, Purge, Redrive, SubQueue
from bendybus.client.errors import EntityNotFound, Unauthorized
from bendybus.testing.local_broker import forwarding
from tests.client.conftest import LISTEN_RULE, Connect, Served

pytestmark = pytest.mark.spec("R8.2")
DEAD = SubQueue.DEAD_LETTER
SOON = 10.0


async def bury(client: Any, queue: str, count: int, **where: Any) -> None:
    """Send messages and dead-letter them."""
    messages = [
        Message(b"%d" % number, partition_key="k", application_properties={"number": number})
        for number in range(count)
    ]
    await client.sender(queue).send(messages)
    receiver = client.receiver(queue, **where)
    left = count
    while left:
        some = await receiver.receive(left, SOON)
        await receiver.dead_letter(some, "Rejected", "a test")
        left -= len(some)
    await receiver.close()


async def test_dead_letters_go_back_and_are_received_again(
    client: Any, queue: str, served: Served
) -> None:
    await bury(client, queue, 30)
    assert await client.count(queue, sub_queue=DEAD) == 30
    shown: list[int] = []

    progress = await client.redrive(
        queue, Redrive(), on_progress=lambda each: shown.append(each.done)
    )

    assert (progress.total, progress.done, progress.refused) == (30, 30, 0)
    assert shown[-1] == 30
    assert await served.count(queue, DEAD) == 0
    again = await client.receiver(queue).receive(30, SOON)
    assert [each.body for each in again] == [b"%d" % number for number in range(30)]
    assert {each.dead_letter_reason for each in again} == {None}
    assert {each.delivery_count for each in again} == {0}


async def test_some_are_chosen_changed_and_sent_elsewhere(
    client: Any, queue: str, served: Served
) -> None:
    await bury(client, queue, 10)
    wish = Redrive(filter="number < 3", edit="SET again = TRUE", to="ledger")
    refused = await client.redrive(queue, wish)
    assert (refused.done, refused.refused) == (0, 3)
    assert "SessionId" in refused.refusal
    other = "parts" if queue == "orders" else "orders"
    async with forwarding(served.broker):
        done = await client.redrive(queue, Redrive(filter="number < 3", edit=wish.edit, to=other))
        assert done.done == 3
        receiver = client.receiver(other)
        again: list[Any] = []
        while len(again) < 3:
            again += await receiver.receive(3, SOON)
    assert all(each.application_properties["again"] is True for each in again)
    assert await served.count(queue, DEAD) == 7


@pytest.mark.parametrize("topic", ["news", "feed"])
async def test_dead_letters_of_a_subscription_go_back_to_it_alone(
    client: Any, topic: str, served: Served
) -> None:
    await bury(client, topic, 4, subscription="all")
    done = await client.redrive(topic, subscription="all")
    assert done.done == 4
    assert await served.count(f"{topic}/Subscriptions/all") == 4


async def test_a_dry_run_only_counts(client: Any, queue: str, served: Served) -> None:
    await bury(client, queue, 5)
    dry = await client.redrive(queue, Redrive(dry_run=True, count=3))
    assert dry.done == 3
    assert await served.count(queue, DEAD) == 5


async def test_messages_are_deleted_by_a_condition(client: Any, queue: str, served: Served) -> None:
    await bury(client, queue, 6)
    wish = Purge(filter="number >= 4")
    dry = await client.purge(queue, Purge(filter=wish.filter, dry_run=True), sub_queue=DEAD)
    assert (dry.done, dry.looked_at) == (2, 6)
    done = await client.purge(queue, wish, sub_queue=DEAD)
    assert (done, await served.count(queue, DEAD)) == (
        Progress(total=6, looked_at=6, done=2),
        4,
    )
    assert (await client.purge(queue, Purge(state=MessageState.DEFERRED))).done == 0


async def test_named_messages_are_changed_redriven_and_deleted(
    client: Any, queue: str, served: Served
) -> None:
    await bury(client, queue, 9)
    receiver = client.receiver(queue, sub_queue=DEAD)
    dead = {each.body: each.sequence_number for each in await receiver.peek_merged(9)}
    edits = {
        dead[b"1"]: Edit(body=b"one", system={"Label": "first"}, properties={"number": "11"}),
        dead[b"3"]: Edit(removed=["number"]),
    }

    changed = await client.redrive(queue, Redrive(edits=edits))
    moved = await client.redrive(queue, Redrive(sequences=[dead[b"5"], dead[b"7"]]))
    deleted = await client.purge(queue, Purge(sequences=[dead[b"8"]]), sub_queue=DEAD)

    assert [each.done for each in (changed, moved, deleted)] == [2, 2, 1]
    assert await served.count(queue, DEAD) == 4
    again = await client.receiver(queue).receive(4, SOON)
    assert [(each.body, each.subject, each.application_properties) for each in again] == [
        (b"one", "first", {"number": 11}),
        (b"3", None, {}),
        (b"5", None, {"number": 5}),
        (b"7", None, {"number": 7}),
    ]


async def test_who_may_only_listen_moves_nothing(
    client: Any, queue: str, connect: Connect, served: Served
) -> None:
    await bury(client, queue, 1)
    listener = connect(served.connection_string(LISTEN_RULE))
    with pytest.raises(Unauthorized):
        await listener.redrive(queue)
    assert await served.count(queue, DEAD) == 1
    with pytest.raises(EntityNotFound):
        await client.redrive(queue, Redrive(to="nowhere"))
