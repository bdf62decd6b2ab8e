"""deferred: set aside, and received by sequence number."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.broker.deferred import SEQUENCES_MAX, receive_deferred
from bendybus.broker.receive import ReceiveMode
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.settle import settle
from bendybus.model.errors import ArgumentOutOfRange, MessageNotFound, ServerBusy, StoreUnavailable
from bendybus.model.message import StoredMessage
from bendybus.model.outcome import Complete, Defer
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.protocol.messaging.serving import stalled
from tests.unit.broker.serving_verbs import LOCK_SECONDS, receiver, send_each, verbs

QUEUES = pytest.mark.parametrize("name", ["orders", "parts"])
PEEK_LOCK, DELETE = ReceiveMode.PEEK_LOCK, ReceiveMode.RECEIVE_AND_DELETE


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock) as running:
        yield running


async def _deferred(queue: ServedQueue, clock: ManualClock, count: int) -> list[StoredMessage]:
    await send_each(queue, clock, count)
    taker = receiver(queue, clock)
    messages: list[StoredMessage] = []
    while found := await taker.receive(count):
        messages += found
    locks = [message.lock for message in messages]
    assert await settle(queue.main, locks, Defer(), clock) == {}
    return messages


@pytest.mark.spec("R4")
@QUEUES
async def test_deferred_messages_of_all_fragments_come_in_the_order_asked_for(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    messages = await _deferred(queue, clock, 20)
    assert await receiver(queue, clock).receive(20) == []
    wanted = [message.sequence for message in reversed(messages)]

    found = await receive_deferred(queue.main, wanted, PEEK_LOCK, clock)

    assert [message.sequence for message in found] == wanted
    locks = [message.lock for message in found]
    assert await settle(queue.main, locks, Complete(), clock) == {}


@QUEUES
async def test_one_number_that_is_not_deferred_refuses_all_and_locks_none(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    [message, *_] = await _deferred(queue, clock, 3)

    for absent in (message.sequence + 1000, 1 << 62):
        with pytest.raises(MessageNotFound):
            await receive_deferred(queue.main, [message.sequence, absent], PEEK_LOCK, clock)

    assert len(await receive_deferred(queue.main, [message.sequence], PEEK_LOCK, clock)) == 1


@QUEUES
async def test_a_deferred_message_can_be_deleted_on_receipt(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    [message] = await _deferred(queue, clock, 1)

    [found] = await receive_deferred(queue.main, [message.sequence], DELETE, clock)

    assert found.content == message.content
    with pytest.raises(MessageNotFound):
        await receive_deferred(queue.main, [message.sequence], PEEK_LOCK, clock)


@pytest.mark.spec("R4")
async def test_a_lock_that_ends_leaves_the_message_deferred_and_counted(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    [message] = await _deferred(queue, clock, 1)
    await receive_deferred(queue.main, [message.sequence], PEEK_LOCK, clock)

    clock.advance(LOCK_SECONDS)
    await broker.sweep.sweep_all()

    assert await receiver(queue, clock).receive(1) == []
    [again] = await receive_deferred(queue.main, [message.sequence], PEEK_LOCK, clock)
    assert again.delivery_count == 1


async def test_a_store_that_is_away_is_named_and_nothing_stays_locked(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    messages = await _deferred(queue, clock, 16)
    wanted = [message.sequence for message in messages]
    away = queue.main.source_of(wanted[-1])
    assert away is not None
    await away.store.take_offline("drill")

    with pytest.raises(StoreUnavailable, match="which holds fragment"):
        await receive_deferred(queue.main, wanted, PEEK_LOCK, clock)

    await away.store.bring_online()
    assert len(await receive_deferred(queue.main, wanted, PEEK_LOCK, clock)) == len(wanted)


async def test_a_request_names_a_bounded_number(broker: LocalBroker, clock: ManualClock) -> None:
    with pytest.raises(ArgumentOutOfRange):
        await receive_deferred(
            broker.queue("orders").main, range(SEQUENCES_MAX + 1), PEEK_LOCK, clock
        )


@pytest.mark.spec("R3.3")
@pytest.mark.parametrize("mode", list(ReceiveMode))
async def test_what_comes_from_a_store_after_its_lock_has_ended_is_not_handed_out(
    broker: LocalBroker, clock: ManualClock, mode: ReceiveMode
) -> None:
    queue = broker.queue("orders")
    [message] = await _deferred(queue, clock, 1)
    async with stalled(broker.stores[0]):
        task = asyncio.create_task(receive_deferred(queue.main, [message.sequence], mode, clock))
        await asyncio.sleep(0)
        clock.advance(LOCK_SECONDS)

    with pytest.raises(ServerBusy, match="'orders' came so late"):
        await task
    await broker.sweep.sweep_all()
    assert await receive_deferred(queue.main, [message.sequence], mode, clock) != []
