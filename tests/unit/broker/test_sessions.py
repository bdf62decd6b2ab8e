"""sessions: accepted fairly, received from in order, lost in time, never in anybody's way (R4)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.broker.session_receiver import SessionReceiver
from bendybus.broker.sessions import (
    accept_session,
    release_session,
    renew_session,
    session_state,
)
from bendybus.broker.settle import settle
from bendybus.model.errors import (
    SessionCannotBeLocked,
    SessionLockLost,
    StoreUnavailable,
)
from bendybus.model.ids import SubQueue
from bendybus.model.outcome import Abandon, Complete, Release
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import LOCK_SECONDS, receive_all, verbs
from tests.unit.broker.session_verbs import (
    FEED,
    FEEDS,
    LEDGER,
    LEDGERS,
    PEEK_LOCK,
    PLAIN,
    QUEUES,
    accept,
    contents,
    post,
    settled,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock, [LEDGER, LEDGERS, PLAIN, FEED, FEEDS]) as running:
        yield running


@pytest.mark.spec("R3.6")
@QUEUES
async def test_a_session_is_received_in_order_and_an_abandoned_message_is_next(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    for number in range(6):
        await post(queue, clock, "s", b"%d" % number)
        await post(queue, clock, "t", b"other")
    receiver = await accept(queue, clock, "s")

    [first, second] = await receiver.receive(2)
    assert await settle(queue.main, [first.lock], Abandon(), clock) == {}

    assert contents(await receiver.receive(2)) == [b"0", b"2"]
    assert await settle(queue.main, [second.lock], Release(), clock) == {}
    assert contents(await receiver.receive(10)) == [b"1", b"3", b"4", b"5"]


@QUEUES
async def test_the_store_is_not_asked_again_for_a_session_that_had_nothing_more(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1", b"2")
    receiver = await accept(queue, clock, "s")
    [first, _] = await receiver.receive(10)

    with pytest.raises(StopIteration) as ended:  # it did not even have to wait
        receiver.receive(10).send(None)
    assert ended.value.value == []

    assert await settle(queue.main, [first.lock], Abandon(), clock) == {}
    assert contents(await receiver.receive(10)) == [b"1"]
    await post(queue, clock, "s", b"3")
    assert contents(await receiver.receive(10)) == [b"3"]


@QUEUES
async def test_long_messages_that_do_not_come_at_once_come_one_after_the_other(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    long = [bytes([number]) * 250_000 for number in range(12)]
    for each in long:
        await post(queue, clock, "s", each)
    receiver = await accept(queue, clock, "s")
    taken: list[bytes] = []
    while messages := await receiver.receive(100):
        assert len(messages) < len(long)
        taken += contents(messages)
    assert taken == long


@QUEUES
async def test_the_next_session_is_another_each_time_until_none_is_left(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    for number in range(20):
        await post(queue, clock, f"s{number}", b"x")

    held = [(await accept(queue, clock)).held.session_id for _ in range(20)]

    assert sorted(held) == sorted(f"s{number}" for number in range(20))


async def test_a_hot_session_cannot_starve_the_others(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("ledger")
    for session_id in ("hot", "a", "b"):
        clock.advance(0.001)
        await post(queue, clock, session_id, b"1")
    order: list[str] = []
    for _ in range(6):
        clock.advance(0.001)
        receiver = await accept(queue, clock)
        order.append(receiver.held.session_id)
        await post(queue, clock, "hot", b"more")
        clock.advance(0.001)
        await receiver.close()

    assert order == ["hot", "a", "b", "hot", "a", "b"]


@QUEUES
async def test_who_waits_for_a_session_is_woken_by_a_message_of_a_free_one_alone(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    holder = await accept(queue, clock, "held")
    assert await holder.receive(1) == []
    hint = holder.waiting.join()
    waiter = asyncio.ensure_future(accept_session(queue.main, None, clock))
    await settled(waiter)

    await post(queue, clock, "held", b"1")

    assert hint.done()
    await settled(waiter)
    assert not waiter.done()
    await post(queue, clock, "free", b"2")
    assert (await asyncio.wait_for(waiter, 10)).session_id == "free"


@QUEUES
async def test_a_session_given_back_goes_to_who_waits(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1")
    first = await accept(queue, clock)
    await first.receive(1)
    waiter = asyncio.ensure_future(accept_session(queue.main, None, clock))
    await settled(waiter)

    await first.close()

    held = await asyncio.wait_for(waiter, 10)
    second = SessionReceiver(queue.main, held, PEEK_LOCK, clock)
    assert [(each.content, each.delivery_count) for each in await second.receive(9)] == [(b"1", 0)]


@QUEUES
async def test_a_named_session_that_is_held_is_refused(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    first = await accept(queue, clock, "s")

    with pytest.raises(SessionCannotBeLocked, match="requested session 's' cannot be accepted"):
        await accept(queue, clock, "s")

    await first.close()
    await accept(queue, clock, "s")


@pytest.mark.spec("R3.3")
@QUEUES
async def test_a_session_whose_lock_ended_is_lost_and_its_messages_are_counted(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1", b"2")
    lost = await accept(queue, clock)
    [message] = await lost.receive(1)
    waiter = asyncio.ensure_future(accept_session(queue.main, None, clock))
    await settled(waiter)
    clock.advance(LOCK_SECONDS)

    await broker.sweep.sweep_all()

    held = await asyncio.wait_for(waiter, 10)
    again = await SessionReceiver(queue.main, held, PEEK_LOCK, clock).receive(9)
    assert [(each.content, each.delivery_count) for each in again] == [(b"1", 1), (b"2", 0)]
    failures = await settle(queue.main, [message.lock], Complete(), clock)
    assert isinstance(failures[message.sequence], SessionLockLost)
    assert await lost.receive(1) == []
    with pytest.raises(SessionLockLost):
        await renew_session(queue.main, lost.held, clock)
    with pytest.raises(SessionLockLost):
        await session_state(queue.main, lost.held, clock)
    await lost.close()
    assert (await settle(queue.main, [each.lock for each in again], Complete(), clock)) == {}


@QUEUES
async def test_a_message_for_a_session_that_was_lost_wakes_who_waits_and_not_who_lost_it(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await accept(queue, clock, "s")
    waiter = asyncio.ensure_future(accept_session(queue.main, None, clock))
    clock.advance(LOCK_SECONDS)
    await broker.sweep.sweep_all()
    await settled(waiter)

    await post(queue, clock, "s", b"1")

    assert (await asyncio.wait_for(waiter, 10)).session_id == "s"


@QUEUES
async def test_a_named_session_that_has_lapsed_is_had_after_the_next_sweep(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1")
    lost = await accept(queue, clock, "s")
    await lost.receive(1)
    clock.advance(LOCK_SECONDS)
    waiter = asyncio.ensure_future(accept_session(queue.main, "s", clock))
    await settled(waiter)
    assert not waiter.done()

    await broker.sweep.sweep_all()

    assert (await asyncio.wait_for(waiter, 10)).session_id == "s"


async def test_a_session_lost_too_often_with_a_message_moves_it_to_the_dead_letters(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("ledger")
    await post(queue, clock, "s", b"1")
    for _ in range(3):
        receiver = await accept(queue, clock, "s")
        assert len(await receiver.receive(1)) == 1
        clock.advance(LOCK_SECONDS)
        await broker.sweep.sweep_all()

    assert await receive_all(queue, clock, sub_queue=SubQueue.DEAD_LETTER) == [(b"1", 3)]


@QUEUES
async def test_a_renewed_session_keeps_its_messages(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1")
    receiver = await accept(queue, clock, "s")
    [message] = await receiver.receive(1)
    clock.advance(LOCK_SECONDS - 1)

    until = await renew_session(queue.main, receiver.held, clock)

    assert until == receiver.held.locked_until == clock.now() + LOCK_SECONDS * 1000
    clock.advance(LOCK_SECONDS - 1)
    await broker.sweep.sweep_all()
    assert await settle(queue.main, [message.lock], Complete(), clock) == {}


@QUEUES
async def test_a_wait_that_is_given_up_leaves_no_session_locked(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1")
    for turns in range(12):
        waiter = asyncio.ensure_future(accept_session(queue.main, None, clock))
        for _ in range(turns):
            await asyncio.sleep(0)
        if waiter.done():
            await release_session(queue.main, waiter.result(), clock)
        waiter.cancel()
        await asyncio.wait([waiter])

    receiver = await accept(queue, clock)

    assert receiver.held.session_id == "s"
    assert len(await receiver.receive(1)) == 1


async def test_a_wake_that_a_quitter_got_goes_to_the_next(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("ledger")
    quitter = asyncio.ensure_future(accept_session(queue.main, None, clock))
    stayer = asyncio.ensure_future(accept_session(queue.main, None, clock))
    await settled(quitter)
    await settled(stayer)

    await post(queue, clock, "s", b"1")
    quitter.cancel()

    assert (await asyncio.wait_for(stayer, 10)).session_id == "s"


@pytest.mark.spec("R1.2")
async def test_while_a_store_is_away_the_sessions_of_others_are_given(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("ledgers")
    names = [f"s{number}" for number in range(12)]
    for session_id in names:
        await post(queue, clock, session_id, b"x")
    gone = broker.stores[0]
    away = [each for each in names if queue.main.source_of_session(each).store is gone]
    kept = await accept(queue, clock, away[0])
    [message] = await kept.receive(1)
    await gone.take_offline("drill")

    held = [(await accept(queue, clock)).held.session_id for _ in range(len(names) - len(away))]

    assert sorted([*held, *away]) == sorted(names)
    with pytest.raises(StoreUnavailable):
        await accept(queue, clock, away[1])
    assert await kept.receive(1) == []
    hint = kept.waiting.join()
    waiter = asyncio.ensure_future(accept_session(queue.main, None, clock))
    await settled(waiter)
    assert not waiter.done()
    await gone.bring_online()
    await broker.sweep.sweep_all()
    assert hint.done()
    assert (await asyncio.wait_for(waiter, 10)).session_id in away[1:]
    assert await settle(queue.main, [message.lock], Complete(), clock) == {}
