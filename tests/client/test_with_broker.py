"""Both clients against the real broker, on a conventional and on a partitioned queue."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from bendybus.client import Message, ReceiveMode, SubQueue
from bendybus.client.errors import (
    ArgumentInvalid,
    EntityNotFound,
    InvalidOperation,
    MessageLockLost,
    MessageTooLarge,
    PartlyFailed,
    Unauthorized,
)
from tests.client.conftest import LISTEN_RULE, LOCK, LOCK_SECONDS, Connect, Served

pytestmark = pytest.mark.spec("R8.2")

SOON = 10.0


async def receive_all(receiver: Any, count: int) -> list[Any]:
    """Receive so many messages, in as many calls as it takes."""
    found: list[Any] = []
    while len(found) < count:
        some = await receiver.receive(count - len(found), SOON)
        assert some, f"{len(found)} of {count} messages came"
        found += some
    return found


async def test_a_message_arrives_with_all_that_its_sender_said(client: Any, queue: str) -> None:
    sent = Message(
        {"order": 7, "lines": ["a", "b"]},
        session_id="s1",
        partition_key="s1",
        subject="new",
        correlation_id="c1",
        content_type="application/x-order",
        to="somebody",
        reply_to="answers",
        time_to_live=timedelta(minutes=5),
        application_properties={"urgent": True, "weight": 1.5},
    )
    await client.sender(queue).send(sent)
    [found] = await client.receiver(queue).receive(1, SOON)
    assert found.to_message() == sent
    assert found.delivery_count == 0
    assert found.locked_until is not None
    assert found.locked_until - found.enqueued_time >= LOCK


async def test_many_messages_are_sent_side_by_side_and_each_is_received_once(
    client: Any, queue: str, served: Served
) -> None:
    messages = [Message(b"%d" % number) for number in range(6000)]
    await client.sender(queue).send(messages)
    assert await served.count(queue) == 6000
    receiver = client.receiver(queue, prefetch=1000)
    found = await receive_all(receiver, 6000)
    assert sorted(int(each.body) for each in found) == list(range(6000))
    await receiver.complete(found)
    assert await served.count(queue) == 0


async def test_completing_is_confirmed_when_the_call_returns(
    client: Any, queue: str, served: Served
) -> None:
    await client.sender(queue).send([Message(b"a"), Message(b"b")])
    receiver = client.receiver(queue)
    for left in (1, 0):
        [message] = await receiver.receive(1, SOON)
        await receiver.complete(message)
        assert await served.count(queue) == left


async def test_an_abandoned_message_comes_again_changed_and_counted(
    client: Any, queue: str
) -> None:
    await client.sender(queue).send(Message(b"a", application_properties={"tries": 0}))
    receiver = client.receiver(queue)
    [first] = await receiver.receive(1, SOON)
    await receiver.abandon(first, {"tries": 1})
    [second] = await receiver.receive(1, SOON)
    assert second.delivery_count == 1
    assert second.application_properties == {"tries": 1}
    assert second.sequence_number == first.sequence_number


async def test_a_dead_letter_is_in_its_own_queue_with_the_reason(client: Any, queue: str) -> None:
    await client.sender(queue).send(Message(b"a"))
    receiver = client.receiver(queue)
    [message] = await receiver.receive(1, SOON)
    await receiver.dead_letter(message, "late", "too late")
    dead = client.receiver(queue, sub_queue=SubQueue.DEAD_LETTER)
    [found] = await dead.receive(1, SOON)
    assert (found.dead_letter_reason, found.dead_letter_description) == ("late", "too late")
    await dead.complete(found)


async def test_a_lock_lasts_as_long_as_it_is_renewed(
    client: Any, queue: str, served: Served
) -> None:
    await client.sender(queue).send(Message(b"a"))
    receiver = client.receiver(queue)
    [message] = await receiver.receive(1, SOON)
    for _ in range(3):
        served.clock.advance(LOCK_SECONDS - 1)
        assert await receiver.renew_lock(message) == message.locked_until
    await receiver.complete(message)


async def test_settling_after_the_lock_ended_is_refused(
    client: Any, queue: str, served: Served
) -> None:
    await client.sender(queue).send([Message(b"a"), Message(b"b")])
    receiver = client.receiver(queue)
    late = await receive_all(receiver, 2)
    served.clock.advance(LOCK_SECONDS + 1)
    with pytest.raises(MessageLockLost) as lost:
        await receiver.complete(late[0])
    assert lost.value.condition == "com.microsoft:message-lock-lost"
    with pytest.raises(MessageLockLost):
        await receiver.renew_lock(late[1])


async def test_of_several_settlements_the_refused_ones_are_named(
    client: Any, queue: str, served: Served
) -> None:
    sender, receiver = client.sender(queue), client.receiver(queue)
    await sender.send(Message(b"old"))
    [old] = await receiver.receive(1, SOON)
    served.clock.advance(LOCK_SECONDS - 1)
    await sender.send(Message(b"new"))
    [new] = await receiver.receive(1, SOON)
    served.clock.advance(2)
    with pytest.raises(PartlyFailed) as failure:
        await receiver.complete([old, new])
    assert failure.value.done == [1]
    assert isinstance(failure.value.refused[0], MessageLockLost)


async def test_receive_and_delete_leaves_nothing_behind(
    client: Any, queue: str, served: Served
) -> None:
    await client.sender(queue).send([Message(b"a")] * 3)
    receiver = client.receiver(queue, mode=ReceiveMode.RECEIVE_AND_DELETE)
    found = await receive_all(receiver, 3)
    assert [each.lock_token for each in found] == [None] * 3
    assert await served.count(queue) == 0


@pytest.mark.spec("R3.4")
async def test_a_receive_that_does_not_wait_never_misses_what_is_there(
    client: Any, queue: str
) -> None:
    sender = client.sender(queue)
    for prefetch in (0, 5):
        receiver = client.receiver(queue, prefetch=prefetch)
        assert await receiver.receive(1, 0) == []
        for _ in range(20):
            await sender.send(Message(b"a"))
            [message] = await receiver.receive(1, 0)
            await receiver.complete(message)


async def test_a_receiver_that_waits_gets_what_is_sent_meanwhile(
    connect: Connect, queue: str
) -> None:
    receiver = connect().receiver(queue)
    waiting = asyncio.ensure_future(receiver.receive(1, None))
    await connect().sender(queue).send(Message(b"a"))
    async with asyncio.timeout(SOON):
        [message] = await waiting
    assert message.body == b"a"


async def test_iterating_ends_when_nothing_comes(client: Any, queue: str) -> None:
    await client.sender(queue).send(
        [Message(b"a", partition_key="k"), Message(b"b", partition_key="k")]
    )
    receiver = client.receiver(queue)
    bodies = []
    async for message in receiver.messages(0.1):
        bodies.append(message.body)
        await receiver.complete(message)
    assert bodies == [b"a", b"b"]


@pytest.mark.spec("R3.5")
async def test_peeking_walks_over_every_message_and_locks_none(client: Any, queue: str) -> None:
    await client.sender(queue).send([Message(b"%d" % number) for number in range(50)])
    receiver = client.receiver(queue)
    seen: list[int] = []
    at = 0
    while some := await receiver.peek(7, at):
        seen += [int(each.body) for each in some]
        at = some[-1].sequence_number + 1
    assert sorted(seen) == list(range(50))
    assert len(await receive_all(receiver, 50)) == 50


@pytest.mark.spec("R3.5")
async def test_a_merged_peek_shows_the_oldest_first_whatever_the_fragment(
    client: Any, queue: str, served: Served
) -> None:
    sender = client.sender(queue)
    for number in range(10):
        await sender.send(Message(b"%d" % number, partition_key=f"key-{number}"))
        served.clock.advance(1)
    merged = await client.receiver(queue).peek_merged(6)
    assert [int(each.body) for each in merged] == [0, 1, 2, 3, 4, 5]


async def test_a_batch_is_stored_as_a_whole(client: Any, queue: str, served: Served) -> None:
    sender = client.sender(queue)
    await sender.send_batch([Message(b"a"), Message("b"), Message(None)])
    assert await served.count(queue) == 3
    with pytest.raises(InvalidOperation):
        await sender.send_batch([Message(b"a"), Message(b"b", session_id="s", partition_key="k")])
    assert await served.count(queue) == 3


async def test_a_message_of_many_frames_goes_both_ways(client: Any, queue: str) -> None:
    body = bytes(range(256)) * 800
    await client.sender(queue).send([Message(body), Message(body)])
    found = await receive_all(client.receiver(queue), 2)
    assert [each.body for each in found] == [body, body]


async def test_of_several_messages_the_refused_ones_are_named_and_the_others_stored(
    client: Any, queue: str, served: Served
) -> None:
    sender = client.sender(queue)
    messages = [Message(b"a"), Message(b"x" * 300_000), Message(b"b")]
    with pytest.raises(PartlyFailed) as failure:
        await sender.send(messages)
    assert failure.value.done == [0, 2]
    assert isinstance(failure.value.refused[1], MessageTooLarge)
    with pytest.raises(MessageTooLarge):
        await sender.send(messages[1])
    await sender.send(messages[0])
    assert await served.count(queue) == 3


async def test_a_message_that_amqp_cannot_say_is_refused_and_the_others_are_stored(
    client: Any, queue: str, served: Served
) -> None:
    sender = client.sender(queue)
    with pytest.raises(PartlyFailed) as failure:
        await sender.send([Message(b"a"), Message(object()), Message(b"b")])
    assert failure.value.done == [0, 2]
    assert isinstance(failure.value.refused[1], ArgumentInvalid)
    with pytest.raises(ArgumentInvalid, match="object has no AMQP encoding"):
        await sender.send_batch([Message(b"a"), Message(object())])
    assert await served.count(queue) == 2


async def test_an_entity_that_is_not_there_is_not_found(client: Any) -> None:
    with pytest.raises(EntityNotFound, match="could not be found"):
        await client.sender("nowhere").send(Message(b"a"))
    with pytest.raises(EntityNotFound):
        await client.receiver("nowhere").receive(1, SOON)
    with pytest.raises(EntityNotFound):
        await client.receiver("nowhere").peek()


async def test_a_wrong_key_is_refused(connect: Connect, served: Served) -> None:
    client = connect(served.connection_string(key="wrong"))
    with pytest.raises(Unauthorized, match="InvalidSignature"):
        await client.sender("orders").send(Message(b"a"))


async def test_a_rule_without_the_right_is_refused(connect: Connect, served: Served) -> None:
    client = connect(served.connection_string(LISTEN_RULE))
    with pytest.raises(Unauthorized, match="'Send' claim"):
        await client.sender("orders").send(Message(b"a"))
    assert await client.receiver("orders").receive(1, 0) == []


@pytest.mark.spec("R3.2")
@pytest.mark.parametrize("closes_client", [True, False])
async def test_what_was_fetched_ahead_is_free_again_uncounted_after_closing(
    connect: Connect, queue: str, closes_client: bool
) -> None:
    first = connect()
    await first.sender(queue).send([Message(b"a")] * 10)
    receiver = first.receiver(queue, prefetch=20)
    [taken] = await receiver.receive(1, SOON)
    await (first if closes_client else receiver).close()
    found = await receive_all(connect().receiver(queue), 9)
    assert {each.delivery_count for each in found} == {0}
    assert taken.sequence_number not in {each.sequence_number for each in found}


async def test_one_client_has_senders_and_receivers_of_many_entities(client: Any) -> None:
    for name in ("orders", "parts", "orders"):
        await client.sender(name).send(Message(name))
    bodies = [each.body for each in await receive_all(client.receiver("orders"), 2)]
    bodies += [each.body for each in await receive_all(client.receiver("parts"), 1)]
    assert bodies == ["orders", "orders", "parts"]
