"""Both clients schedule, cancel, delete and purge, against the real broker."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bendybus.client import Message, MessageState, SubQueue
from bendybus.client.errors import ArgumentInvalid, MessageNotFound
from tests.client.conftest import Served

pytestmark = pytest.mark.spec("R8.2")

SOON = 10.0


def at(served: Served, seconds: float) -> datetime:
    """Return a moment of the broker's time."""
    return datetime.fromtimestamp(served.clock.now() / 1000, UTC) + timedelta(seconds=seconds)


async def pass_time(served: Served, seconds: float) -> None:
    """Let time pass at the broker."""
    served.clock.advance(seconds)
    await served.broker.sweep.sweep_all()


async def test_a_scheduled_message_comes_in_time_unless_it_is_cancelled(
    client: Any, queue: str, served: Served
) -> None:
    sender, receiver = client.sender(queue), client.receiver(queue)
    time = at(served, 5)
    numbers = await sender.schedule(
        [Message(b"kept", scheduled_time=time), Message(b"cancelled", scheduled_time=time)]
    )
    [shown] = await receiver.peek(1)
    assert (shown.state, shown.sequence_number) == (MessageState.SCHEDULED, numbers[0])
    await sender.cancel_scheduled(numbers[1:])
    with pytest.raises(MessageNotFound):
        await sender.cancel_scheduled(numbers)
    assert await receiver.receive(1, 0) == []
    await pass_time(served, 5)
    [came] = await receiver.receive(10, SOON)
    assert came.body == b"kept"
    await receiver.complete(came)
    assert await served.count(queue) == 0


async def test_the_oldest_are_deleted_as_many_as_are_named(
    client: Any, queue: str, served: Served
) -> None:
    await client.sender(queue).send([Message(b"%d" % n) for n in range(30)])
    receiver = client.receiver(queue)
    assert await receiver.delete(10) == 10
    assert await served.count(queue) == 20
    assert await receiver.delete(100) == 20
    assert await receiver.delete(100) == 0


async def test_a_purge_takes_as_many_calls_as_it_needs_and_leaves_what_came_later(
    client: Any, queue: str, served: Served
) -> None:
    await client.sender(queue).send([Message(b"x")] * 9000)
    before = at(served, 0)
    await pass_time(served, 1)
    await client.sender(queue).send(Message(b"later"))
    receiver = client.receiver(queue)
    assert await receiver.purge(until=before) == 9000
    assert [each.body for each in await receiver.peek(10)] == [b"later"]


async def test_every_state_and_the_dead_letters_are_purged_apart(
    client: Any, queue: str, served: Served
) -> None:
    sender, receiver = client.sender(queue), client.receiver(queue)
    await sender.send([Message(b"deferred"), Message(b"dead")])
    for _ in range(2):
        [held] = await receiver.receive(1, SOON)
        if held.body == b"dead":
            await receiver.dead_letter(held)
        else:
            await receiver.defer(held)
    await sender.schedule(Message(b"scheduled", scheduled_time=at(served, 1000)))
    await sender.send(Message(b"active"))

    assert await receiver.purge() == 1
    assert await receiver.purge(state=MessageState.DEFERRED) == 1
    assert await receiver.purge(state=MessageState.SCHEDULED, until=at(served, 999)) == 0
    assert await receiver.purge(state=MessageState.SCHEDULED) == 1
    assert await client.receiver(queue, sub_queue=SubQueue.DEAD_LETTER).purge() == 1
    assert await served.count(queue) == 0


async def test_too_many_at_once_are_refused(client: Any, queue: str) -> None:
    with pytest.raises(ArgumentInvalid, match="between 1 and 4000"):
        await client.receiver(queue).delete(4001)
