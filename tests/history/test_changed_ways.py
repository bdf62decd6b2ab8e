"""A message that has arrived by one way never goes another as well, whatever is changed (R6, D7).

A crash, or a store that failed, leaves messages where they came from that have arrived already. By
the time that they are taken up again their queue forwards elsewhere, or no more, or their
destination is closed or gone. Each of them must be in one place, never two, never none.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from bendybus.broker import mover
from bendybus.broker.create import create
from bendybus.broker.delete import delete
from bendybus.broker.send_via import send_via
from bendybus.broker.update import update
from bendybus.model.entity import EntityStatus, Queue, QueueProperties
from bendybus.model.errors import StoreUnavailable
from bendybus.model.ids import SubQueue
from bendybus.model.message import Message
from bendybus.model.operations import Append, Operation
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, StartedStore, forwarding, local_broker
from tests.history.fuse import Ending, Fuse, fused
from tests.history.grounds import Ground, MakeStore
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
MESSAGES: Final = 6
KEYS: Final = ["red", "green", None]
LIFE_MS: Final = 5_000
# How many calls it takes until messages are in both queues.
TAKEN_AND_ARRIVED: Final = 2
# Where any of them may be.
NAMES: Final = ("b", "c", "d")


class Outbox(Enum):
    """What goes from `b` to `c`."""

    MAIN = SubQueue.MAIN
    DEAD_LETTERS = SubQueue.DEAD_LETTER
    TRANSFERS = SubQueue.TRANSFER


def source(outbox: Outbox, to: str | None, *, is_partitioned: bool = False) -> Queue:
    """Make the queue that messages come from, with the way that they go."""
    properties = QueueProperties(
        dead_lettering_on_message_expiration=True, enable_partitioning=is_partitioned
    )
    match outbox:
        case Outbox.MAIN:
            properties = replace(properties, forward_to=to)
        case Outbox.DEAD_LETTERS:
            properties = replace(properties, forward_dead_lettered_messages_to=to)
        case Outbox.TRANSFERS:
            pass
    return Queue("b", properties)


async def fill(broker: LocalBroker, outbox: Outbox, clock: ManualClock) -> None:
    """Let messages be where they are taken from."""
    messages = numbered(MESSAGES, keys=KEYS)
    if outbox is Outbox.TRANSFERS:
        for message in messages:
            via, to = broker.queue("b"), broker.queue("c")
            await send_via(via, message.partition_key, to, [message], clock)
        return
    if outbox is Outbox.DEAD_LETTERS:
        for message in messages:
            message.time_to_live_ms = LIFE_MS
    await send_messages(broker, "b", messages)
    if outbox is Outbox.DEAD_LETTERS:
        clock.advance(LIFE_MS / 1000 + 1)
        await broker.sweep.sweep_all()
    await holding(broker, "b", MESSAGES, sub_queue=outbox.value)


async def found_in(broker: LocalBroker, names: Sequence[str] = NAMES) -> list[int]:
    """Return the numbers of all messages in some queues, wherever in them they are."""
    served = [broker.queue(name) for name in names if broker.catalog.has(name)]
    held = [await everything(each, kind) for each in served for kind in SubQueue]
    return sorted(int(message.content) for each in held for message in each)


async def check_once(broker: LocalBroker) -> None:
    """Each message is in one place."""
    assert await found_in(broker) == list(range(MESSAGES))


async def until_left(broker: LocalBroker, fuse: Fuse, outbox: Outbox) -> None:
    """Wait until something ends, or all has left."""
    while fuse.blown_at is None:
        with suppress(StoreUnavailable):
            if not await everything(broker.queue("b"), outbox.value):
                return
        await asyncio.sleep(POLL_SECONDS)


Change = Callable[[LocalBroker], Awaitable[None]]


async def end_and_change(
    folder: Path,
    calls: int,
    ending: Ending,
    ground: Ground,
    *,
    entities: Sequence[Queue],
    outbox: Outbox,
    change: Change,
    declared: Sequence[Queue] = (),
) -> bool:
    """Let it end at the so-manieth call, change the ways, forward the rest, judge.

    False: there were not so many calls.
    """
    clock, fuse = ManualClock(), Fuse()
    with ground(2) as make:
        first = partial(fused, make_store=make, fuse=fuse)
        async with local_broker(folder, entities, clock, stores=2, make_store=first) as broker:
            await fill(broker, outbox, clock)
            fuse.arm(calls, ending)
            async with asyncio.timeout(DEADLINE_SECONDS), forwarding(broker):
                await until_left(broker, fuse, outbox)
                if ending is Ending.FAILED and fuse.blown_at is not None:
                    # Whoever takes them on lives, and does not know what became of them.
                    await fuse.blown_at.bring_online()
                    await change(broker)
        async with local_broker(folder, declared, clock, stores=2, make_store=make) as broker:
            if ending is not Ending.FAILED:
                # Nobody has taken up what was cut off.
                await change(broker)
            async with forwarding(broker):
                if broker.queue("b").sub_queues[outbox.value].is_left:
                    await holding(broker, "b", 0, sub_queue=outbox.value)
            await check_once(broker)
    return fuse.blown_at is not None


async def end_at_every_call(folder: Path, crash: Callable[[Path, int], Awaitable[bool]]) -> None:
    """End at the first call, at the second and so on, until there is none."""
    for calls in count(1):
        (folder / str(calls)).mkdir()
        if not await crash(folder / str(calls), calls):
            assert calls > 1, "nothing was on its way"
            return


async def nothing(_: LocalBroker) -> None:
    """Leave it to what is declared at the start."""


def updated(entity: Queue) -> Change:
    """Change an entity, as a client would."""

    async def change(broker: LocalBroker) -> None:
        await update(broker.catalog, entity, now=broker.clock.now())

    return change


many_endings = pytest.mark.parametrize(
    "ending",
    [Ending.AFTER, pytest.param(Ending.FAILED, marks=pytest.mark.prove)],
    ids=["after", "failed"],
)


@many_endings
@pytest.mark.parametrize("to", [None, "d"], ids=["no more", "elsewhere"])
@pytest.mark.parametrize("outbox", [Outbox.MAIN, Outbox.DEAD_LETTERS], ids=["main", "dead"])
@pytest.mark.parametrize(
    "is_partitioned", [False, pytest.param(True, marks=pytest.mark.prove)], ids=["1", "16"]
)
async def test_what_has_arrived_stays_when_its_queue_forwards_elsewhere(
    tmp_path: Path,
    ending: Ending,
    to: str | None,
    outbox: Outbox,
    is_partitioned: bool,
    ground: Ground,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mover, "ACQUIRE_COUNT_MAX", 4)
    before, after = (source(outbox, each, is_partitioned=is_partitioned) for each in ("c", to))
    entities = [before, queue("c", enable_partitioning=is_partitioned), queue("d")]
    crash = partial(
        end_and_change,
        ending=ending,
        ground=ground,
        entities=entities,
        outbox=outbox,
        change=updated(after),
    )
    await end_at_every_call(tmp_path, crash)


@pytest.mark.parametrize("to", [None, "d"], ids=["no more", "elsewhere"])
async def test_what_has_arrived_stays_when_another_way_is_declared_at_the_start(
    tmp_path: Path, to: str | None, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "ACQUIRE_COUNT_MAX", 4)
    crash = partial(
        end_and_change,
        ending=Ending.AFTER,
        ground=ground,
        entities=[source(Outbox.MAIN, "c"), queue("c"), queue("d")],
        outbox=Outbox.MAIN,
        change=nothing,
        declared=[source(Outbox.MAIN, to), queue("c"), queue("d")],
    )
    await end_at_every_call(tmp_path, crash)


@many_endings
@pytest.mark.parametrize("outbox", list(Outbox), ids=["main", "dead", "transfers"])
async def test_what_has_arrived_is_no_dead_letter_when_its_destination_closes(
    tmp_path: Path,
    ending: Ending,
    outbox: Outbox,
    ground: Ground,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mover, "ACQUIRE_COUNT_MAX", 4)
    crash = partial(
        end_and_change,
        ending=ending,
        ground=ground,
        entities=[source(outbox, "c"), queue("c"), queue("d")],
        outbox=outbox,
        change=updated(queue("c", status=EntityStatus.SEND_DISABLED)),
    )
    await end_at_every_call(tmp_path, crash)


@pytest.mark.parametrize("outbox", list(Outbox), ids=["main", "dead", "transfers"])
async def test_what_has_arrived_does_not_come_again_to_another_of_that_name(
    tmp_path: Path, outbox: Outbox, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "ACQUIRE_COUNT_MAX", 4)

    async def make_anew(broker: LocalBroker) -> None:
        """Have what was there received, delete the queue, and make it of another kind."""
        arrived = await everything(broker.queue("c"))
        await delete(broker.catalog, "c")
        await create(broker.catalog, queue("c", enable_partitioning=True), now=broker.clock.now())
        await send_messages(broker, "d", [Message(each.content) for each in arrived])

    crash = partial(
        end_and_change,
        ending=Ending.AFTER,
        ground=ground,
        entities=[source(outbox, "c"), queue("c"), queue("d")],
        outbox=outbox,
        change=make_anew,
    )
    await end_at_every_call(tmp_path, crash)


# While they are on their way


class HeldUp:
    """Holds up whatever arrives, before it does or before it is answered."""

    def __init__(self, *, is_before: bool) -> None:
        self.is_before = is_before
        self.is_held = asyncio.Event()
        self.goes_on = asyncio.Event()

    def make(self, number: int, path: Path, make_store: MakeStore) -> StartedStore:
        """Make a real store that is held up."""
        store: Any = make_store(number, path)
        store.apply = partial(self._applied, store.apply)
        made: StartedStore = store
        return made

    def _applied(
        self,
        apply: "Callable[..., asyncio.Future[Any]]",
        operations: Sequence[Operation],
        **kwargs: Any,
    ) -> "asyncio.Future[Any]":
        if not any(isinstance(each, Append) and each.transfers for each in operations):
            return apply(operations, **kwargs)
        return asyncio.ensure_future(self._held_up(partial(apply, operations, **kwargs)))

    async def _held_up(self, apply: "Callable[[], asyncio.Future[Any]]") -> Any:
        answer = None if self.is_before else await apply()
        self.is_held.set()
        await self.goes_on.wait()
        return await apply() if self.is_before else answer


@asynccontextmanager
async def held_up(
    folder: Path, ground: Ground, entities: Sequence[Queue], *, is_before: bool
) -> AsyncIterator[tuple[LocalBroker, HeldUp]]:
    """Forward messages from `b` to `c`, and hold them up there."""
    held = HeldUp(is_before=is_before)
    with ground(2) as make:
        async with (
            local_broker(
                folder,
                entities,
                ManualClock(),
                stores=2,
                make_store=partial(held.make, make_store=make),
            ) as broker,
            forwarding(broker),
            asyncio.timeout(DEADLINE_SECONDS),
        ):
            await send_messages(broker, "b", numbered(MESSAGES))
            await held.is_held.wait()
            yield broker, held


@pytest.mark.parametrize("is_before", [True, False], ids=["to be written", "to be answered"])
@pytest.mark.parametrize("to", [None, "d"], ids=["no more", "elsewhere"])
async def test_what_is_on_its_way_when_that_changes_arrives_once(
    tmp_path: Path, is_before: bool, to: str | None, ground: Ground
) -> None:
    entities = [queue("b", "c"), queue("c"), queue("d")]
    async with held_up(tmp_path, ground, entities, is_before=is_before) as (broker, held):
        await update(broker.catalog, queue("b", to), now=broker.clock.now())
        under_way = len(await everything(broker.queue("c")))
        assert bool(under_way) is not is_before
        held.goes_on.set()
        if to is None:
            await freed(broker, "b", MESSAGES - under_way)
        else:
            await holding(broker, to, MESSAGES - under_way)
            # What has arrived leaves a moment later.
            await holding(broker, "b", 0)
        await check_once(broker)
        assert len(await everything(broker.queue("c"))) == under_way


async def freed(broker: LocalBroker, name: str, number: int) -> None:
    """Wait until so many messages are there for receivers."""
    while True:
        held = await everything(broker.queue(name))
        if [message.nonce for message in held] == [None] * number:
            return
        await asyncio.sleep(POLL_SECONDS)


async def test_what_was_read_before_a_change_goes_no_other_way_after_it(
    tmp_path: Path, ground: Ground
) -> None:
    clock, fuse = ManualClock(), Fuse()
    is_taken, goes_on = asyncio.Event(), asyncio.Event()

    def slow(number: int, path: Path, make_store: MakeStore) -> StartedStore:
        store: Any = make_store(number, path)
        acquire = store.acquire

        async def acquired_late(*args: Any, **kwargs: Any) -> Any:
            messages = await acquire(*args, **kwargs)
            is_taken.set()
            await goes_on.wait()
            return messages

        store.acquire = acquired_late
        made: StartedStore = store
        return made

    with ground(2) as make:
        first = partial(fused, make_store=make, fuse=fuse)
        entities = [queue("b", "c"), queue("c"), queue("d")]
        async with local_broker(tmp_path, entities, clock, stores=2, make_store=first) as broker:
            await send_messages(broker, "b", numbered(MESSAGES))
            fuse.arm(TAKEN_AND_ARRIVED, Ending.AFTER)
            async with asyncio.timeout(DEADLINE_SECONDS), forwarding(broker):
                await until_left(broker, fuse, Outbox.MAIN)
        then = partial(slow, make_store=make)
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            local_broker(tmp_path, [], clock, stores=2, make_store=then) as broker,
            forwarding(broker),
        ):
            await is_taken.wait()
            await update(broker.catalog, queue("b", "d"), now=clock.now())
            await send_messages(broker, "b", numbered(1, start=MESSAGES))
            goes_on.set()
            await holding(broker, "d", 1)
            assert await found_in(broker, "bc") == list(range(MESSAGES))


async def test_a_change_that_was_given_up_keeps_nothing_from_arriving(
    tmp_path: Path, ground: Ground
) -> None:
    with ground(2) as make:
        async with (
            local_broker(
                tmp_path, [queue("b", "c"), queue("c")], ManualClock(), stores=2, make_store=make
            ) as broker,
        ):
            record = broker.catalog.record("b")
            late = replace(record, version=record.version + 1, entity=queue("b"))
            for store in broker.stores:
                await store.prepare([late])
            await send_messages(broker, "b", numbered(MESSAGES))
            async with forwarding(broker):
                await holding(broker, "c", MESSAGES)
            assert [await store.prepared() for store in broker.stores] == [[], []]
