"""sweep: what is due is dealt with, in bounded turns, and who waits is told (R3.3, R4)."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.broker.send import send
from bendybus.broker.sweep import Sweep, sweep_once
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.ids import FragmentIndex, SubQueue
from bendybus.model.message import Message
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import (
    LOCK_SECONDS,
    receive_all,
    receiver,
    send_each,
    verbs,
)

PATIENCE = 10.0
KEEPING = Queue(
    "keeping",
    QueueProperties(
        lock_duration=timedelta(seconds=LOCK_SECONDS),
        dead_lettering_on_message_expiration=True,
        max_delivery_count=2,
    ),
)
DROPPING = Queue("dropping", QueueProperties(default_message_time_to_live=timedelta(seconds=5)))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock, [KEEPING, DROPPING]) as running:
        yield running


async def _count(broker: LocalBroker, name: str, sub_queue: SubQueue = SubQueue.MAIN) -> int:
    [source] = broker.queue(name).sub_queues[sub_queue].sources
    return (await source.store.counts(source.number)).messages


@pytest.mark.spec("R3.3")
async def test_an_ended_lock_makes_the_message_free_and_counted(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("keeping")
    await send_each(queue, clock, 1)
    await receive_all(queue, clock)
    clock.advance(LOCK_SECONDS + 1)

    await broker.sweep.sweep_all()

    assert await receive_all(queue, clock) == [(b"0", 1)]


async def test_a_lock_that_has_not_ended_is_left_alone(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("keeping")
    await send_each(queue, clock, 1)
    await receive_all(queue, clock)
    clock.advance(LOCK_SECONDS - 1)

    await broker.sweep.sweep_all()

    assert await receive_all(queue, clock) == []


@pytest.mark.spec("R4")
async def test_the_last_ended_lock_moves_the_message_to_the_dead_letters(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("keeping")
    await send_each(queue, clock, 1)
    for _ in range(2):
        await receive_all(queue, clock)
        clock.advance(LOCK_SECONDS + 1)
        await broker.sweep.sweep_all()

    assert await _count(broker, "keeping") == 0
    assert await receive_all(queue, clock, sub_queue=SubQueue.DEAD_LETTER) == [(b"0", 2)]


@pytest.mark.spec("R4")
@pytest.mark.parametrize(("name", "dead"), [("keeping", 1), ("dropping", 0)])
async def test_an_expired_message_is_dead_lettered_or_dropped_as_its_queue_says(
    broker: LocalBroker, clock: ManualClock, name: str, dead: int
) -> None:
    message = Message(b"x", time_to_live_ms=1000)
    await send(broker.queue(name), [message], FragmentIndex(0), clock)
    clock.advance(2)

    await broker.sweep.sweep_all()

    assert await _count(broker, name) == 0
    assert await _count(broker, name, SubQueue.DEAD_LETTER) == dead


@pytest.mark.spec("R4")
async def test_dead_letters_do_not_expire(broker: LocalBroker, clock: ManualClock) -> None:
    message = Message(b"x", time_to_live_ms=1000)
    await send(broker.queue("keeping"), [message], FragmentIndex(0), clock)
    clock.advance(2)
    await broker.sweep.sweep_all()

    clock.advance(1_000_000)
    await broker.sweep.sweep_all()

    assert await _count(broker, "keeping", SubQueue.DEAD_LETTER) == 1


@pytest.mark.spec("R3.3")
async def test_a_receiver_that_waits_is_told_of_ended_locks(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("keeping")
    await send_each(queue, clock, 1)
    await receive_all(queue, clock)
    hint = receiver(queue, clock).waiting.join()
    clock.advance(LOCK_SECONDS + 1)

    await broker.sweep.sweep_all()

    assert hint.done()


async def test_a_turn_is_bounded_and_the_rest_follows(
    broker: LocalBroker, clock: ManualClock
) -> None:
    count_max, count = 100, 110
    messages = [Message(b"x", time_to_live_ms=1000) for _ in range(count)]
    await send(broker.queue("dropping"), messages, FragmentIndex(0), clock)
    clock.advance(2)
    [source] = broker.queue("dropping").main.sources
    places = broker.namespaces.holdings.places[source.store.status().number]

    assert await sweep_once(source.store, places, clock, count_max)
    assert await _count(broker, "dropping") == 10

    await broker.sweep.sweep_all()
    assert await _count(broker, "dropping") == 0


async def test_an_offline_store_is_passed_over(broker: LocalBroker, clock: ManualClock) -> None:
    await send_each(broker.queue("keeping"), clock, 1)
    await broker.stores[0].take_offline("drill")

    await Sweep(broker.namespaces.holdings, clock).sweep_all()

    await broker.stores[0].bring_online()
    assert await _count(broker, "keeping") == 1


@pytest.mark.spec("R2.5")
async def test_a_store_that_came_back_between_two_sweeps_wakes_who_waits(
    broker: LocalBroker, clock: ManualClock
) -> None:
    hint = receiver(broker.queue("keeping"), clock).waiting.join()
    await broker.stores[0].take_offline("drill")
    await broker.stores[0].bring_online()

    await broker.sweep.sweep_all()

    assert hint.done()


@pytest.mark.parametrize("names", [("keeping", "dropping"), ("dropping", "keeping")])
async def test_a_store_that_hangs_does_not_keep_another_from_being_swept(
    broker: LocalBroker, clock: ManualClock, names: tuple[str, str]
) -> None:
    [hanging], [working] = (broker.queue(name).main.sources for name in names)
    assert hanging.store is not working.store
    message = [Message(b"x", time_to_live_ms=1000)]
    await send(broker.queue(names[0]), message, FragmentIndex(0), clock)
    await send(broker.queue(names[1]), message, FragmentIndex(0), clock)
    clock.advance(2)
    may_go_on = threading.Event()
    [store] = [each for each in broker.stores if each is hanging.store]
    stuck = store._lane.submit(lambda _: may_go_on.wait(PATIENCE), is_synced=False)

    sweeping = asyncio.create_task(broker.sweep.run())
    try:
        async with asyncio.timeout(PATIENCE):
            while await _count(broker, names[1]):  # noqa: ASYNC110 - a store knows no events
                await asyncio.sleep(0.01)
        assert not stuck.done()
    finally:
        may_go_on.set()
        sweeping.cancel()
        await asyncio.wait([sweeping])
        await stuck
