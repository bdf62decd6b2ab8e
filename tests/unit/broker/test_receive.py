"""receive: what is asked of fragments, kept, and given back (R3)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.broker.receive import ReceiveMode, Receiver, check_open_for_receive
from bendybus.broker.settle import settle
from bendybus.model.entity import EntityStatus, Queue, QueueProperties
from bendybus.model.errors import EntityDisabled
from bendybus.model.message import StoredMessage
from bendybus.model.outcome import Complete, Release
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker
from bendybus.testing.wire_client import WAIT_SECONDS
from tests.protocol.messaging.serving import stalled
from tests.unit.broker.serving_verbs import (
    LOCK_SECONDS,
    receive_all,
    receiver,
    send_each,
    verbs,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock) as running:
        yield running


async def _cached(taker: Receiver, broker: LocalBroker, count: int) -> int:
    """Let a receiver lock messages that it does not take, and return how many."""
    async with stalled(*broker.stores), asyncio.timeout(WAIT_SECONDS):
        task = asyncio.create_task(taker.receive(count))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    async with asyncio.timeout(WAIT_SECONDS):
        while taker._asking:  # a receive that was cancelled leaves what it asked for
            await asyncio.wait(list(taker._asking.values()))
    return len(taker._cache)


async def _keep(taker: Receiver, count: int) -> None:
    """Let a receiver take messages of all fragments, which it cannot hand out."""
    taken: list[StoredMessage] = []
    while len(taken) < count:
        taken += await taker.receive(count - len(taken))
    await taker.take_back(taken)


async def _receiving(taker: Receiver, count: int) -> asyncio.Task[list[StoredMessage]]:
    """Start a receive, and let it ask."""
    task = asyncio.create_task(taker.receive(count))
    for _ in range(2):
        await asyncio.sleep(0)
    return task


@pytest.mark.spec("R3.1")
@pytest.mark.parametrize("name", ["orders", "parts"])
async def test_a_receive_returns_at_most_what_was_asked_for(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 20)
    taker = receiver(queue, clock)

    counts = []
    while messages := await taker.receive(3):
        counts.append(len(messages))

    assert max(counts) <= 3
    assert sum(counts) == 20


@pytest.mark.parametrize("name", ["orders", "parts"])
async def test_a_receive_of_nothing_returns_nothing_and_asks_only_once(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    taker = receiver(queue, clock)

    assert await taker.receive(10) == []

    assert not any(source.may_have_messages for source in queue.main.sources)
    await send_each(queue, clock, 1)
    assert sum(source.may_have_messages for source in queue.main.sources) == 1


@pytest.mark.spec("R3.2")
async def test_what_comes_beyond_the_need_serves_the_next_receive(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 16, key="k")
    taker = receiver(queue, clock)
    while not (cached := await _cached(taker, broker, 16)):
        continue

    first = await taker.receive(1)

    assert cached > 1
    assert len(first) == 1
    assert len(taker._cache) >= cached - 1


@pytest.mark.spec("R3.2")
@pytest.mark.parametrize("name", ["orders", "parts"])
async def test_closing_gives_back_what_is_cached_uncounted(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 16)
    taker = receiver(queue, clock)
    cached = await _cached(taker, broker, 16)

    await taker.close()

    assert cached > 0
    assert sorted(await receive_all(queue, clock)) == sorted((b"%d" % n, 0) for n in range(16))


@pytest.mark.spec("R3.2")
async def test_closing_waits_for_what_is_on_its_way(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    await send_each(queue, clock, 3)
    taker = receiver(queue, clock)
    async with stalled(broker.stores[0]):
        task = asyncio.create_task(taker.receive(3))
        await asyncio.sleep(0)
        task.cancel()
        closing = asyncio.create_task(taker.close())
        await asyncio.sleep(0)
        assert not closing.done()

    await closing
    assert await receive_all(queue, clock) == [(b"0", 0), (b"1", 0), (b"2", 0)]


@pytest.mark.spec("R3.2")
async def test_a_receive_and_delete_that_is_cancelled_leaves_no_locks(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    await send_each(queue, clock, 3)
    taker = receiver(queue, clock, mode=ReceiveMode.RECEIVE_AND_DELETE)
    assert await _cached(taker, broker, 3) == 3
    async with stalled(broker.stores[0]):
        task = asyncio.create_task(taker.receive(3))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    await taker.close()
    left = await receive_all(queue, clock)
    # Either they were removed for a client that is gone, or they are free: never locked.
    assert left in ([], [(b"0", 0), (b"1", 0), (b"2", 0)])
    source = queue.main.sources[0]
    assert (await source.store.counts(source.number)).messages == len(left)


@pytest.mark.spec("R3.3")
@pytest.mark.parametrize("name", ["orders", "parts"])
async def test_what_was_cached_until_its_locks_are_nearly_over_is_handed_out_under_longer_ones(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 3)
    taker = receiver(queue, clock)
    await _keep(taker, 3)

    clock.advance(LOCK_SECONDS - 1)
    seen = await taker.receive(3)

    assert sorted(message.content for message in seen) == [b"0", b"1", b"2"]
    assert {message.locked_until for message in seen} == {clock.now() + LOCK_SECONDS * 1000}
    assert {message.delivery_count for message in seen} == {0}
    clock.advance(LOCK_SECONDS - 1)
    locks = [message.lock for message in seen]
    assert await settle(queue.main, locks, Complete(), clock) == {}


@pytest.mark.spec("R3.3")
async def test_what_was_cached_until_its_locks_are_over_is_not_handed_out(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    await send_each(queue, clock, 2)
    taker = receiver(queue, clock)
    assert await _cached(taker, broker, 2) == 2

    clock.advance(LOCK_SECONDS)
    assert await taker.receive(2) == []

    await broker.sweep.sweep_all()
    assert await receive_all(queue, clock) == [(b"0", 1), (b"1", 1)]


@pytest.mark.spec("R1.2")
async def test_of_what_was_cached_for_too_long_a_store_that_went_away_keeps_only_its_own(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 16)
    taker = receiver(queue, clock)
    await _keep(taker, 16)

    await broker.stores[0].take_offline("drill")
    clock.advance(LOCK_SECONDS - 1)
    some = await taker.receive(16)
    clock.advance(1)
    await broker.stores[0].bring_online()
    await broker.sweep.sweep_all()
    rest = await receive_all(queue, clock)

    assert (len(some), len(rest)) == (8, 8)
    assert {count for _, count in rest} == {1}


@pytest.mark.spec("R3.6")
async def test_what_comes_late_from_a_store_keeps_its_place(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    await send_each(queue, clock, 6)
    early, late = receiver(queue, clock), receiver(queue, clock)
    async with stalled(broker.stores[0]), asyncio.timeout(WAIT_SECONDS):
        first = await _receiving(early, 2)
        clock.advance(LOCK_SECONDS - 1)
        second = await _receiving(late, 2)

    seen = await second + await late.receive(2)

    assert [message.content for message in seen] == [b"2", b"3", b"4", b"5"]
    assert [message.content for message in await first] == [b"0", b"1"]
    assert {message.delivery_count for message in await first} == {0}
    assert {message.locked_until for message in await first} == {clock.now() + LOCK_SECONDS * 1000}
    assert (
        await settle(queue.main, [message.lock for message in await first], Complete(), clock) == {}
    )


@pytest.mark.spec("R3.3")
async def test_what_comes_from_a_store_after_its_lock_has_ended_is_not_handed_out(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    await send_each(queue, clock, 2)
    taker = receiver(queue, clock)
    async with stalled(broker.stores[0]), asyncio.timeout(WAIT_SECONDS):
        task = await _receiving(taker, 2)
        clock.advance(LOCK_SECONDS + 1)

    assert await task == []


@pytest.mark.spec("R3.6")
async def test_what_was_cached_for_too_long_is_not_overtaken_by_what_comes_after_it(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    await send_each(queue, clock, 6)
    taker = receiver(queue, clock)
    assert await _cached(taker, broker, 2) == 2

    clock.advance(LOCK_SECONDS - 1)
    seen = [message for _ in range(2) for message in await taker.receive(6)]

    assert [message.content for message in seen] == [b"%d" % number for number in range(6)]


@pytest.mark.spec("R3.6")
async def test_what_was_cached_for_too_long_is_not_overtaken_by_what_was_asked_for_meanwhile(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    await send_each(queue, clock, 6)
    taker = receiver(queue, clock)
    assert await _cached(taker, broker, 2) == 2
    async with stalled(broker.stores[0]), asyncio.timeout(WAIT_SECONDS):
        await taker.take_back(await taker.receive(6))
        clock.advance(LOCK_SECONDS - 1)
        task = await _receiving(taker, 6)

    seen = await task + await taker.receive(6)

    assert [message.content for message in seen] == [b"%d" % number for number in range(6)]
    assert {message.locked_until for message in seen} == {clock.now() + LOCK_SECONDS * 1000}


@pytest.mark.spec("R1.2")
async def test_a_store_that_goes_away_stops_only_its_own_fragments(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 16)

    await broker.stores[0].take_offline("drill")
    some = await receive_all(queue, clock)
    await broker.stores[0].bring_online()
    rest = await receive_all(queue, clock)

    assert (len(some), len(rest)) == (8, 8)


@pytest.mark.spec("R3.1")
async def test_receivers_start_at_different_fragments(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 32)

    firsts = [(await receiver(queue, clock).receive(1))[0].sequence >> 48 for _ in range(8)]

    assert len(set(firsts)) > 1


@pytest.mark.spec("R3.1")
async def test_a_release_makes_the_fragment_worth_asking_again(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 1)
    taker = receiver(queue, clock)
    [message] = await taker.receive(1)
    assert await taker.receive(1) == []

    failures = await settle(queue.main, [message.lock], Release(), clock)

    assert failures == {}
    assert [each.sequence for each in await taker.receive(1)] == [message.sequence]


@pytest.mark.parametrize(
    ("properties", "refusal"),
    [
        (QueueProperties(status=EntityStatus.DISABLED), EntityDisabled),
        (QueueProperties(status=EntityStatus.RECEIVE_DISABLED), EntityDisabled),
        (QueueProperties(status=EntityStatus.SEND_DISABLED), None),
    ],
)
async def test_the_status_of_a_queue_decides_whether_it_can_be_received_from(
    tmp_path: Path,
    clock: ManualClock,
    properties: QueueProperties,
    refusal: type[Exception] | None,
) -> None:
    async with verbs(tmp_path, clock, [Queue("q", properties)]) as broker:
        served = broker.queue("q").main
        if refusal is None:
            check_open_for_receive(served)
        else:
            with pytest.raises(refusal):
                check_open_for_receive(served)
