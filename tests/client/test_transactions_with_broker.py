"""Transactions of both clients against the real broker (R5)."""

from typing import Any

import pytest

from bendybus.client import Message
from bendybus.client.errors import (
    InvalidOperation,
    MessageLockLost,
    TransactionFailed,
)
from bendybus.model.ids import SubQueue
from tests.client.conftest import LOCK_SECONDS, Connect, Served
from tests.client.test_with_broker import SOON

pytestmark = [pytest.mark.spec("R8.2"), pytest.mark.spec("R5.4")]

TRANSACTION_SECONDS = 120


class Mishap(Exception):
    """What a program may stumble over in the midst of a transaction."""


async def _received(client: Any, queue: str) -> tuple[Any, Any]:
    await client.sender(queue).send(Message(b"in", partition_key="k"))
    receiver = client.receiver(queue)
    [message] = await receiver.receive(1, SOON)
    return receiver, message


async def test_a_block_that_ends_well_settles_and_sends(
    client: Any, queue: str, served: Served
) -> None:
    receiver, message = await _received(client, queue)

    async with client.transaction() as transaction:
        await transaction.send(client.sender(queue), Message(b"out", partition_key="k"))
        await transaction.complete(receiver, message)
        assert await served.count(queue) == 1

    [found] = await receiver.receive(1, SOON)
    assert found.body == b"out"
    await receiver.complete(found)
    assert await served.count(queue) == 0


async def test_a_block_that_raises_leaves_everything_as_it_was(
    client: Any, queue: str, served: Served
) -> None:
    receiver, message = await _received(client, queue)

    async def block() -> None:
        async with client.transaction() as transaction:
            await transaction.send(client.sender(queue), Message(b"out", partition_key="k"))
            await transaction.complete(receiver, message)
            raise Mishap

    with pytest.raises(Mishap):
        await block()

    [peeked] = await receiver.peek(10)
    assert (peeked.body, peeked.delivery_count) == (b"in", 0)
    assert await served.count(queue) == 1


async def test_every_settlement_can_be_part_of_a_transaction(
    client: Any, queue: str, served: Served
) -> None:
    messages = [Message(b"%d" % number, partition_key="k") for number in range(4)]
    await client.sender(queue).send(messages)
    receiver = client.receiver(queue)
    found: list[Any] = []
    while len(found) < 4:
        found += await receiver.receive(4 - len(found), SOON)

    async with client.transaction() as transaction:
        await transaction.complete(receiver, found[0])
        await transaction.abandon(receiver, found[1], {"tried": True})
        await transaction.defer(receiver, found[2])
        await transaction.dead_letter(receiver, found[3], "why", "because")

    [again] = await receiver.receive(1, SOON)
    assert again.application_properties == {"tried": True}
    [deferred] = await receiver.receive_deferred([found[2].sequence_number])
    assert deferred.body == found[2].body
    [dead] = await client.receiver(queue, sub_queue=SubQueue.DEAD_LETTER).receive(1, SOON)
    assert dead.dead_letter_reason == "why"
    assert await served.count(queue) == 2


async def test_a_lock_that_ends_within_the_block_fails_the_transaction(
    client: Any, queue: str, served: Served
) -> None:
    receiver, message = await _received(client, queue)

    async def block() -> None:
        async with client.transaction() as transaction:
            await transaction.complete(receiver, message)
            served.clock.advance(LOCK_SECONDS + 1)

    with pytest.raises(TransactionFailed, match="lock") as failure:
        await block()

    assert failure.value.condition == "amqp:transaction:rollback"
    assert await served.count(queue) == 1


async def test_a_part_that_is_refused_and_forgiven_fails_the_transaction_all_the_same(
    client: Any, queue: str, served: Served
) -> None:
    receiver, message = await _received(client, queue)
    served.clock.advance(LOCK_SECONDS + 1)

    async def block() -> None:
        async with client.transaction() as transaction:
            await transaction.send(client.sender(queue), Message(b"out", partition_key="k"))
            with pytest.raises(MessageLockLost):
                await transaction.complete(receiver, message)

    with pytest.raises(TransactionFailed):
        await block()

    assert await served.count(queue) == 1


async def test_a_transaction_that_takes_too_long_has_not_happened(
    client: Any, queue: str, served: Served
) -> None:
    async def block() -> None:
        async with client.transaction() as transaction:
            await transaction.send(client.sender(queue), Message(b"out", partition_key="k"))
            served.clock.advance(TRANSACTION_SECONDS)

    with pytest.raises(TransactionFailed) as failure:
        await block()

    assert failure.value.condition == "amqp:transaction:timeout"
    assert await served.count(queue) == 0


@pytest.mark.spec("R5.1")
@pytest.mark.parametrize("keys", [[None], ["x", "y"]], ids=["no key", "two keys"])
async def test_a_partitioned_queue_wants_one_key(client: Any, keys: list[str | None]) -> None:
    messages = [Message(b"a", partition_key=key) for key in keys]

    async def block() -> None:
        async with client.transaction() as transaction:
            await transaction.send_batch(client.sender("parts"), messages)

    with pytest.raises(InvalidOperation):
        await block()


async def test_two_clients_have_transactions_side_by_side(
    connect: Connect, queue: str, served: Served
) -> None:
    one, other = connect(), connect()

    async def block() -> None:
        async with other.transaction() as second:
            await second.send(other.sender(queue), Message(b"2", partition_key="k"))
            raise Mishap

    async with one.transaction() as first:
        await first.send(one.sender(queue), Message(b"1", partition_key="k"))
        with pytest.raises(Mishap):
            await block()

    assert await served.count(queue) == 1


async def test_a_client_that_goes_away_rolls_back(
    connect: Connect, queue: str, served: Served
) -> None:
    client = connect()
    context = client.transaction()
    transaction = await context.__aenter__()
    await transaction.send(client.sender(queue), Message(b"out", partition_key="k"))

    await client.close()

    [found] = await _drained(connect(), queue, [Message(b"next", partition_key="k")])
    assert found.body == b"next"
    assert await served.count(queue) == 1


async def _drained(client: Any, queue: str, messages: list[Message]) -> list[Any]:
    """Send messages and receive all that is there."""
    await client.sender(queue).send(messages)
    found: list[Any] = await client.receiver(queue).receive(10, SOON)
    return found
