"""What one of several front ends does for all: forwarding, removal of what is idle, the time."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial

import pytest

from bendybus.broker.anchored_clock import AnchoredClock, clock_of
from bendybus.broker.clock import SystemClock
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Message
from bendybus.model.operations import Transfer
from bendybus.testing.clock import ManualClock
from tests.frontends.front_end import FrontEnd, OpenStores, front_end, numbered, until

IDLE = timedelta(minutes=5)
BRIEF = Queue("brief", QueueProperties(auto_delete_on_idle=IDLE))
ENTRY = Queue("entry", QueueProperties(forward_to="goal", enable_partitioning=True))
GOAL = Queue("goal", QueueProperties(enable_partitioning=True))
EVERYTHING = 1 << 40
ROUNDS = 2
ROUNDS_PROVING = 20
IN_A_ROUND = 40
NEARLY_NOTHING_MS = 5_000


def ignored() -> None:
    """Nobody has to be told."""


async def held(front_end: FrontEnd, name: str) -> list[bytes]:
    """Read all that a queue holds."""
    queue = await front_end.queue(name)
    return [
        message.content
        for source in queue.sub_queues[SubQueue.MAIN].sources
        for message in await source.store.browse(
            source.number, from_sequence=0, count_max=10_000, bytes_max=EVERYTHING
        )
    ]


@asynccontextmanager
async def sending(front_end: FrontEnd, messages: list[Message]) -> AsyncIterator[list[Message]]:
    """Send messages beside what is done meanwhile; yields those that are accepted, all at last."""
    accepted: list[Message] = []

    async def send_all() -> None:
        for message in messages:
            await front_end.send("entry", message)
            accepted.append(message)

    task = asyncio.create_task(send_all())
    try:
        yield accepted
    finally:
        await task


@pytest.mark.spec("R6")
@pytest.mark.parametrize(
    "rounds", [ROUNDS, pytest.param(ROUNDS_PROVING, marks=pytest.mark.prove)], ids=str
)
async def test_messages_are_forwarded_once_however_often_who_does_it_dies(
    open_stores: OpenStores, clock: ManualClock, rounds: int
) -> None:
    sent = numbered(rounds * IN_A_ROUND)
    async with AsyncExitStack() as running:
        last = await running.enter_async_context(front_end(open_stores, clock, [GOAL, ENTRY]))
        for start in range(0, len(sent), IN_A_ROUND):
            await last.look_after()
            following = await running.enter_async_context(front_end(open_stores, clock))
            enough = random.randrange(IN_A_ROUND)
            async with sending(following, sent[start : start + IN_A_ROUND]) as accepted:
                await until(partial(has_accepted, accepted, enough))
                await last.die()
            last = following

        async def has_arrived() -> bool:
            arrived = await held(last, "goal")
            return len(arrived) >= len(sent) and not await held(last, "entry")

        await until(has_arrived)
        counted = Counter(await held(last, "goal"))
        assert counted == Counter(message.content for message in sent)
        # Who looked after the stores before may not know yet that it is over: what it had in
        # hand stays remembered for as long as that takes, and is forgotten then.
        assert await remembered(last)
        clock.advance(61)
        await last.forwarder.tidy()
        assert await remembered(last) == []


def has_accepted(accepted: list[Message], count: int) -> bool:
    return len(accepted) >= count


async def remembered(front_end: FrontEnd) -> list[Transfer]:
    """Return the transfers that stores know."""
    return [
        transfer
        for store in front_end.stores
        for transfer in await store.transfers(
            after=Transfer(-1, -1), made_until=front_end.clock.now(), count_max=10_000
        )
    ]


@pytest.mark.spec("R4")
async def test_what_is_used_through_another_front_end_is_not_idle(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with (
        front_end(open_stores, clock, [BRIEF]) as one,
        front_end(open_stores, clock) as other,
    ):

        async def pass_minutes(count: int) -> None:
            for _ in range(count):
                clock.advance(60)
                for each in (one, other):
                    await each.removal.look()

        for using in (one, other):
            queue = await using.queue("brief")
            queue.note_link(ignored)
            await pass_minutes(12)
            assert not queue.is_gone
            queue.note_link_gone(ignored)
        await pass_minutes(4)
        assert one.catalog.has("brief")

        async def is_removed() -> bool:
            await pass_minutes(1)
            return not one.catalog.has("brief") and not other.catalog.has("brief")

        await until(is_removed)


@pytest.mark.spec("R4")
async def test_idle_time_begins_with_the_last_use_through_another_front_end(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with (
        front_end(open_stores, clock, [BRIEF]) as one,
        front_end(open_stores, clock) as other,
    ):
        await one.look_after()
        queue = await other.queue("brief")

        async def pass_seconds(count: int) -> None:
            for _ in range(0, count, 5):
                clock.advance(5)
                for each in (other, one):
                    await each.removal.look()

        queue.note_use()
        await pass_seconds(20)
        queue.note_use()
        await pass_seconds(290)
        assert one.catalog.has("brief")
        await pass_seconds(20)
        assert not one.catalog.has("brief")


@pytest.mark.parametrize("minutes_off", [-10, 10])
async def test_a_machine_whose_clock_is_wrong_has_the_time_of_the_servers(
    open_stores: OpenStores, monkeypatch: pytest.MonkeyPatch, minutes_off: int
) -> None:
    stores = open_stores()
    await asyncio.gather(*(store.start() for store in stores))
    try:
        real, off = time.time_ns, minutes_off * 60 * 1_000_000_000
        monkeypatch.setattr(time, "time_ns", lambda: real() + off)
        monkeypatch.setattr(time, "time", lambda: (real() + off) / 1_000_000_000)
        clock = await clock_of(stores)
        read = await stores[0].server_time()
        if read is None:
            # Its stores are on the machine, and so are all who serve from them.
            assert isinstance(clock, SystemClock)
        else:
            assert abs(clock.now() - read) < NEARLY_NOTHING_MS
    finally:
        await asyncio.gather(*(store.close() for store in stores))


class Ticks:
    """A machine's ticking, by hand."""

    def __init__(self) -> None:
        self.ms = 5_000

    def __call__(self) -> int:
        return self.ms


def test_a_clock_counts_on_from_the_server_and_not_from_its_machine() -> None:
    ticks = Ticks()
    clock = AnchoredClock(Instant(1_000_000), ticks)
    ticks.ms += 250
    assert clock.now() == 1_000_250


@pytest.mark.parametrize(("server_is_off", "follows_by"), [(200, 200), (600_000, 500)])
def test_a_clock_follows_a_server_in_small_steps(server_is_off: int, follows_by: int) -> None:
    ticks = Ticks()
    clock = AnchoredClock(Instant(1_000_000), ticks)
    read = Instant(1_000_000 + server_is_off)
    clock.correct(read, asked_at=ticks.ms, answered_at=ticks.ms)
    assert clock.now() == 1_000_000 + follows_by


def test_a_clock_never_goes_back() -> None:
    ticks = Ticks()
    clock = AnchoredClock(Instant(1_000_000), ticks)
    clock.correct(Instant(999_900), asked_at=ticks.ms, answered_at=ticks.ms)
    assert clock.now() == 1_000_000
    ticks.ms += 150
    assert clock.now() == 1_000_050


def test_a_reading_moves_a_clock_no_further_than_it_is_sure() -> None:
    ticks = Ticks()
    clock = AnchoredClock(Instant(1_000_000), ticks)
    asked_at = ticks.ms
    ticks.ms += 100
    clock.correct(Instant(1_000_130), asked_at=asked_at, answered_at=ticks.ms)
    assert clock.now() == 1_000_130
    ticks.ms += 10_000
    slow = ticks.ms - 5_000
    clock.correct(Instant(1), asked_at=slow, answered_at=ticks.ms)
    assert clock.now() == 1_010_130
