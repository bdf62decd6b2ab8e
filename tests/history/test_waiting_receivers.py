"""A receiver that waits is told of every message that becomes free, however it does."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.send import send
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker

FIRST = FragmentIndex(0)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    queue = Queue("queue", QueueProperties(lock_duration=timedelta(seconds=5)))
    async with local_broker(tmp_path, [queue], ManualClock(), stores=1) as running:
        yield running


def receiver_of(broker: LocalBroker) -> Receiver:
    return Receiver(broker.queue("queue").main, ReceiveMode.PEEK_LOCK, broker.clock)


@pytest.mark.spec("R3.3")
async def test_a_lock_that_ends_wakes_who_waits(broker: LocalBroker) -> None:
    queue, clock = broker.queue("queue"), broker.clock
    assert isinstance(clock, ManualClock)
    await send(queue, [Message(b"one")], FIRST, clock)
    assert await receiver_of(broker).receive(1)
    assert await receiver_of(broker).receive(1) == []
    hint = receiver_of(broker).waiting.join()
    await broker.sweep.sweep_all()
    assert not hint.done()
    clock.advance(5)
    await broker.sweep.sweep_all()
    assert hint.done()


@pytest.mark.spec("R1.2")
@pytest.mark.parametrize("is_swept_meanwhile", [True, False])
async def test_a_store_that_comes_back_wakes_who_waits(
    broker: LocalBroker, is_swept_meanwhile: bool
) -> None:
    [store] = broker.stores
    await send(broker.queue("queue"), [Message(b"one")], FIRST, broker.clock)
    await store.take_offline("a drill")
    assert await receiver_of(broker).receive(1) == []
    hint = receiver_of(broker).waiting.join()
    if is_swept_meanwhile:
        await broker.sweep.sweep_all()
    await store.bring_online()
    await broker.sweep.sweep_all()
    assert hint.done(), "the store has a message, and nobody told the receiver"


@pytest.mark.spec("R3.4")
async def test_a_receiver_that_leaves_passes_its_wake_on(broker: LocalBroker) -> None:
    leaving, staying = receiver_of(broker), receiver_of(broker)
    first, second = leaving.waiting.join(), staying.waiting.join()
    await send(broker.queue("queue"), [Message(b"one")], FIRST, broker.clock)
    assert (first.done(), second.done()) == (True, False)
    broker.queue("queue").main.waiting.leave(first)
    async with asyncio.timeout(5):
        await second
