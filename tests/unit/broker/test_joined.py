"""joined sends and receives: what comes together is one write, and everybody gets their own end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.broker.joined_receive import JoinedReceives
from bendybus.broker.joined_send import JoinedSends
from bendybus.broker.served_queue import ServedQueue
from bendybus.model.errors import StoreUnavailable
from bendybus.model.message import Message
from bendybus.model.partitioning import fragment_for
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import receive_all, send_each, verbs


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock) as running:
        yield running


@pytest.fixture(params=["orders", "parts"])
def queue(broker: LocalBroker, request: pytest.FixtureRequest) -> ServedQueue:
    return broker.queue(request.param)


async def fragments_of(queue: ServedQueue) -> list[int]:
    sources = queue.main.sources
    return [(await each.store.counts(each.number)).messages for each in sources]


async def test_messages_sent_in_one_turn_are_stored_together_and_in_order(
    queue: ServedQueue, clock: ManualClock
) -> None:
    sends = JoinedSends(clock)
    await asyncio.gather(*(sends.send(queue, Message(b"%d" % number)) for number in range(20)))
    assert max(await fragments_of(queue)) == 20
    assert [content for content, _ in await receive_all(queue, clock)] == [
        b"%d" % number for number in range(20)
    ]


async def test_what_comes_while_others_are_stored_goes_with_the_next(
    queue: ServedQueue, clock: ManualClock
) -> None:
    sends = JoinedSends(clock)

    async def caller(number: int) -> None:
        for step in range(10):
            await sends.send(queue, Message(b"%d-%d" % (number, step)))

    await asyncio.gather(*map(caller, range(8)))
    received = [content for content, _ in await receive_all(queue, clock)]
    assert sorted(received) == sorted(b"%d-%d" % (n, step) for n in range(8) for step in range(10))
    if not queue.is_partitioned:
        for number in range(8):
            mine = [each for each in received if each.startswith(b"%d-" % number)]
            assert mine == [b"%d-%d" % (number, step) for step in range(10)]


async def test_a_refusal_is_for_those_whose_fragment_refuses(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await broker.stores[0].take_offline("gone")
    sends = JoinedSends(clock)
    keys = [f"key-{number}" for number in range(30)]
    ends = await asyncio.gather(
        *(sends.send(queue, Message(b"", partition_key=key)) for key in keys),
        return_exceptions=True,
    )
    for key, end in zip(keys, ends, strict=True):
        source = queue.main.sources[fragment_for(key, 16)]
        is_away = source.store is broker.stores[0]
        assert isinstance(end, StoreUnavailable) is is_away
    # Without a key another fragment takes it.
    await sends.send(queue, Message(b""))


async def test_a_caller_that_has_gone_harms_nobody(queue: ServedQueue, clock: ManualClock) -> None:
    sends = JoinedSends(clock)
    gone, stays = (sends.send(queue, Message(each)) for each in (b"gone", b"stays"))
    gone.cancel()
    await stays
    assert len(await receive_all(queue, clock)) == 2


async def test_wishes_of_one_turn_are_fulfilled_or_told_that_there_is_nothing(
    queue: ServedQueue, clock: ManualClock
) -> None:
    await send_each(queue, clock, 5)
    receives = JoinedReceives(clock)
    given = await asyncio.gather(*(receives.ask(queue.main) for _ in range(8)))
    assert sorted(each.content for each in given if each) == [b"0", b"1", b"2", b"3", b"4"]
    assert given.count(None) == 3


async def test_whoever_joins_late_is_asked_for_as_well(
    queue: ServedQueue, clock: ManualClock
) -> None:
    receives = JoinedReceives(clock)
    first = receives.ask(queue.main)
    await asyncio.sleep(0)
    sends = JoinedSends(clock)
    sent = asyncio.ensure_future(asyncio.wait_for(sends.send(queue, Message(b"one")), 10))
    await first
    await sent
    late = await receives.ask(queue.main)
    early = first.result()
    assert [each.content for each in (early, late) if each is not None] == [b"one"]


async def test_what_was_read_ahead_is_given_back(queue: ServedQueue, clock: ManualClock) -> None:
    await send_each(queue, clock, 100)
    receives = JoinedReceives(clock)
    # One after many, which joins while they are being served: more is read ahead for it.
    first = [receives.ask(queue.main) for _ in range(39)]
    await asyncio.sleep(0)
    given = await asyncio.gather(*first, receives.ask(queue.main))
    assert None not in given
    async with asyncio.timeout(20):
        while receives._serving:
            await asyncio.wait(list(receives._serving))
    # Virtual time stands still: what is not free now never will be.
    assert len(await receive_all(queue, clock)) == 60
