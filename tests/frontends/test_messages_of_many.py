"""Messages and sessions through several front ends: one lock at a time, nobody waits for long."""

import asyncio
from collections.abc import Sequence
from time import perf_counter

import pytest

from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.send import send
from bendybus.broker.session_receiver import SessionReceiver
from bendybus.broker.sessions import accept_session, release_session
from bendybus.broker.settle import settle
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.errors import SessionCannotBeLocked
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import Message, StoredMessage
from bendybus.model.outcome import Complete
from bendybus.testing.clock import ManualClock
from tests.frontends.front_end import (
    LOCK,
    ORDERS,
    PARTS,
    FrontEnd,
    OpenStores,
    contents,
    front_end,
    numbered,
    received,
    until,
)

LEDGER = Queue("ledger", QueueProperties(lock_duration=LOCK, requires_session=True))
COUNT = 60
# Less than the time in which a queue is looked at without a hint.
HINT_SECONDS = 0.8


def deaf(queues: Sequence[QueueNumber]) -> None:
    """Hear nothing: hints are lost."""


@pytest.mark.spec("R3.1")
@pytest.mark.parametrize("queue", [ORDERS, PARTS], ids=["conventional", "partitioned"])
async def test_a_receiver_that_waits_gets_what_comes_through_another_front_end(
    open_stores: OpenStores, clock: ManualClock, queue: Queue
) -> None:
    async with (
        front_end(open_stores, clock, [queue]) as one,
        front_end(open_stores, clock) as other,
    ):
        waiting = asyncio.create_task(received(await other.receiver(queue.name), 3))
        await until(lambda: other.catalog.queue(queue.name).main.waiting.count > 0)
        begun = perf_counter()
        await one.send(queue.name, *numbered(3))
        assert sorted(contents(await waiting)) == [b"0", b"1", b"2"]
        assert perf_counter() - begun < HINT_SECONDS


@pytest.mark.spec("R3.1")
async def test_a_crowd_that_waits_gets_all_that_one_hint_was_for(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with (
        front_end(open_stores, clock, [ORDERS]) as one,
        front_end(open_stores, clock) as other,
    ):
        crowd = [
            asyncio.create_task(received(await other.receiver("orders"), 1)) for _ in range(20)
        ]
        await until(lambda: other.catalog.queue("orders").main.waiting.count == 20)
        await send(await one.queue("orders"), numbered(20), None, clock)
        taken = [message for each in await asyncio.gather(*crowd) for message in each]
        assert sorted(contents(taken)) == sorted(contents_of(20))


async def all_free(receiver: Receiver) -> list[StoredMessage]:
    """Receive, a few at a time, until nothing is left."""
    taken: list[StoredMessage] = []
    while messages := await receiver.receive(5):
        taken += messages
    return taken


def contents_of(count: int) -> list[bytes]:
    return [message.content for message in numbered(count)]


@pytest.mark.spec("R3.1")
async def test_a_lost_hint_delays_a_receiver_by_a_look(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with (
        front_end(open_stores, clock, [PARTS, LEDGER]) as one,
        front_end(open_stores, clock) as other,
    ):
        for store in other.stores:
            store.listen(deaf)
        waiting = asyncio.create_task(received(await other.receiver("parts"), 1))
        ledger = (await other.queue("ledger")).main
        accepting = asyncio.create_task(accept_session(ledger, None, clock))
        await until(lambda: other.catalog.queue("parts").main.waiting.count > 0)
        await until(lambda: ledger.waiting.count > 0)
        await one.send("parts", Message(b"late"))
        await one.send("ledger", Message(b"late", session_id="s"))
        assert contents(await waiting) == [b"late"]
        assert (await accepting).session_id == "s"


@pytest.mark.spec("R3.1")
async def test_a_message_is_received_through_one_front_end_and_settled_through_any(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with (
        front_end(open_stores, clock, [PARTS]) as one,
        front_end(open_stores, clock) as other,
    ):
        await one.send("parts", *numbered(COUNT))
        receivers = [await each.receiver("parts") for each in (one, other)]
        first = [await each.receive(5) for each in receivers]
        assert all(first)
        rest = await asyncio.gather(*map(all_free, receivers))
        taken = [message for share in (*first, *rest) for message in share]
        assert sorted(contents(taken)) == sorted(contents_of(COUNT))
        locks = [message.lock for message in taken]
        there = (await other.queue("parts")).main
        assert await settle(there, locks, Complete(), clock) == {}
        here = (await one.queue("parts")).main
        assert len(await settle(here, locks, Complete(), clock)) == COUNT


@pytest.mark.spec("R5.3")
async def test_a_session_is_held_through_one_front_end_at_a_time(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with (
        front_end(open_stores, clock, [LEDGER]) as one,
        front_end(open_stores, clock) as other,
    ):
        here, there = (await one.queue("ledger")).main, (await other.queue("ledger")).main
        await one.send("ledger", Message(b"1", session_id="s"))
        held = await accept_session(here, "s", clock)
        with pytest.raises(SessionCannotBeLocked):
            await accept_session(there, "s", clock)
        waiting = asyncio.create_task(accept_session(there, None, clock))
        await until(lambda: there.waiting.count > 0)
        await release_session(here, held, clock)
        taken = await waiting
        assert taken.session_id == "s"
        receiver = SessionReceiver(there, taken, ReceiveMode.PEEK_LOCK, clock)
        assert contents(await receiver.receive(9)) == [b"1"]
        assert await receiver.receive(9) == []
        # What comes for a session is told to who holds it, wherever that is.
        hint = taken.waiting.join()
        await one.send("ledger", Message(b"2", session_id="s"))
        async with asyncio.timeout(HINT_SECONDS):
            await hint
        assert contents(await receiver.receive(9)) == [b"2"]


async def locked_and_scheduled(front_end: FrontEnd, clock: ManualClock) -> None:
    """Leave behind a lock that will end, a message that will expire, and one that is due later."""
    await front_end.send("orders", Message(b"locked"))
    assert len(await received(await front_end.receiver("orders"), 1)) == 1
    await front_end.send("orders", Message(b"expired", time_to_live_ms=10_000))
    at = Instant(clock.now() + 20_000)
    await front_end.send("orders", Message(b"scheduled", scheduled_at=at))
    ledger = (await front_end.queue("ledger")).main
    await front_end.send("ledger", Message(b"in a session", session_id="s"))
    await accept_session(ledger, "s", clock)


@pytest.mark.spec("R3.4")
async def test_what_a_front_end_left_behind_is_dealt_with_by_the_others(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with (
        front_end(open_stores, clock, [ORDERS, LEDGER]) as one,
        front_end(open_stores, clock) as other,
    ):
        await locked_and_scheduled(one, clock)
        await one.die()
        await other.look_after()
        receiver = await other.receiver("orders")
        clock.advance(31)
        found = await received(receiver, 2)
        assert {message.content: message.delivery_count for message in found} == {
            b"locked": 1,
            b"scheduled": 0,
        }
        async with asyncio.timeout(5):
            held = await accept_session((await other.queue("ledger")).main, None, clock)
        assert held.session_id == "s"
