"""A broker that dies between any two steps of forwarding loses and doubles nothing (R6, D7)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from bendybus.broker import mover
from bendybus.broker.forward import TIDY_AGE_MS
from bendybus.model.entity import Queue
from bendybus.model.errors import StoreUnavailable
from bendybus.model.ids import Instant
from bendybus.model.operations import Answer, Append, Forget, Operation, Remove, Transfer
from bendybus.store.port import Acquire
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, StartedStore, forwarding, local_broker
from tests.history.fuse import Ending, Fuse, Steps, fused
from tests.history.grounds import Ground, files
from tests.unit.broker.forwarding_queues import (
    DEADLINE_SECONDS,
    POLL_SECONDS,
    everything,
    holding,
    numbered,
    queue,
    send_messages,
)

pytestmark = pytest.mark.spec("R6")
MESSAGES = 6
KEYS = ["red", "green", None]
# A transfer is forgotten at once where nobody else can be forwarding from the same store. One in a
# database was taken over a moment ago, and somebody may: there it stays until it is looked for.
ON_THE_WAY: Steps = frozenset({Append, Remove})


def queues(way: str) -> list[Queue]:
    """Make a chain of queues, conventional (1) and partitioned (16)."""
    kinds = [part == "16" for part in way.split("-")]
    names = "abc"[-len(kinds) :]
    return [
        queue(name, to, enable_partitioning=is_partitioned)
        for name, to, is_partitioned in zip(names, [*names[1:], None], kinds, strict=True)
    ]


async def check_all_arrived(broker: LocalBroker) -> None:
    """Each message is at the end of the chain, once, in order; nothing is remembered for ever."""
    arrived = await everything(broker.queue("c"))
    numbers = [int(message.content) for message in arrived]
    assert sorted(numbers) == list(range(MESSAGES))
    for key in KEYS[:2]:
        own = [int(each.content) for each in arrived if each.partition_key == key]
        assert own == sorted(own)
    await broker.forwarder.tidy()
    later = Instant(broker.clock.now() + 1)
    for store in broker.stores:
        left = await store.transfers(after=Transfer(0, 0), made_until=later, count_max=100)
        assert left == []


async def forward_all(broker: LocalBroker, entities: Sequence[Queue], fuse: Fuse) -> None:
    """Forward until all has arrived or the broker is dead; a store that failed is mended."""
    async with asyncio.timeout(DEADLINE_SECONDS), forwarding(broker):
        while not fuse.is_dead:
            # The store may fail just now.
            with suppress(StoreUnavailable):
                left = [await everything(broker.queue(each.name)) for each in entities[:-1]]
                if not any(left):
                    return
            if fuse.blown_at is not None and not fuse.blown_at.is_online:
                await fuse.blown_at.bring_online()
                await broker.sweep.sweep_all()
            await asyncio.sleep(POLL_SECONDS)


async def end_at(folder: Path, calls: int, ending: Ending, way: str, ground: Ground) -> Steps:
    """Let it end at the so-manieth call, forward the rest, judge.

    Return what was asked for at that call; nothing if there were not so many.
    """
    clock, entities, fuse = ManualClock(), queues(way), Fuse()
    with ground(2) as make:
        first = partial(fused, make_store=make, fuse=fuse)
        async with local_broker(folder, entities, clock, stores=2, make_store=first) as broker:
            await send_messages(broker, entities[0].name, numbered(MESSAGES, keys=KEYS))
            fuse.arm(calls, ending)
            await forward_all(broker, entities, fuse)
        async with local_broker(folder, entities, clock, stores=2, make_store=make) as broker:
            async with forwarding(broker):
                for each in entities[:-1]:
                    await holding(broker, each.name, 0)
            clock.advance(TIDY_AGE_MS / 1000 + 1)
            await check_all_arrived(broker)
    return fuse.steps


async def steps_tried(folder: Path, crash: "Callable[[Path, int], Awaitable[Steps]]") -> Steps:
    """Crash at the first call, at the second and so on, until there is none; say at what."""
    tried: Steps = frozenset()
    for calls in count(1):
        (folder / str(calls)).mkdir()
        steps = await crash(folder / str(calls), calls)
        if not steps:
            return tried
        tried |= steps
    raise AssertionError("it counts for ever")


SHORT_WAYS = ["1-16", "16-1"]
LONG_WAYS = [
    pytest.param(way, marks=[pytest.mark.prove, pytest.mark.timeout(600)])
    for way in ("1-1-1", "1-16-1", "16-1-16", "16-16-16")
]


@pytest.mark.parametrize("way", [*SHORT_WAYS, *LONG_WAYS])
@pytest.mark.parametrize("ending", list(Ending), ids=["before", "after", "failed"])
async def test_an_end_at_any_call_loses_and_doubles_nothing(
    tmp_path: Path, ending: Ending, way: str, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "ACQUIRE_COUNT_MAX", 4)
    tried = await steps_tried(tmp_path, partial(end_at, ending=ending, way=way, ground=ground))
    needed = ON_THE_WAY if ending is Ending.BEFORE else ON_THE_WAY | {Acquire}
    # The last of all: what was forwarded may be counted, and the broker stopped, before it.
    last = {Forget} if ground is files else set()
    assert needed <= tried <= needed | last, "there are other steps than these on the way"


class SlowStore(SqliteStore):
    """A real store that lets another be away and back before it answers its first arrivals."""

    other: StartedStore | None = None

    def apply(
        self,
        operations: Sequence[Operation],
        *,
        now: Instant,
        is_strict: bool = False,
        within_seconds: float | None = None,
    ) -> "asyncio.Future[list[Answer]]":
        made = super().apply(
            operations, now=now, is_strict=is_strict, within_seconds=within_seconds
        )
        other = self.other
        if other is None or not any(_is_arrival(each) for each in operations):
            return made
        self.other = None

        async def answered_late() -> list[Answer]:
            answers = await made
            await other.take_offline("a drill")
            await other.bring_online()
            return answers

        return asyncio.ensure_future(answered_late())


def _is_arrival(operation: Operation) -> bool:
    return isinstance(operation, Append) and operation.transfers is not None


async def test_what_is_free_again_when_it_has_arrived_does_not_arrive_twice(tmp_path: Path) -> None:
    entities = queues("1-1")
    async with local_broker(
        tmp_path, entities, ManualClock(), stores=2, make_store=SlowStore
    ) as broker:
        here, there = broker.stores
        assert isinstance(there, SlowStore)
        there.other = here
        await send_messages(broker, "b", numbered(MESSAGES))
        await forward_all(broker, entities, Fuse())
        assert here.openings == 2, "it was not away"
        arrived = await everything(broker.queue("c"))
        assert [int(each.content) for each in arrived] == list(range(MESSAGES))
