"""A broker that dies between any two steps of staging and publishing loses and doubles nothing."""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from bendybus.broker import stage as staging
from bendybus.broker.finish_staged import STAGE_AGE_MAX_MS, Finisher
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.stage import Packed
from bendybus.columns.one_by_one import read_content
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic, TopicProperties
from bendybus.model.message import Message
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker
from tests.history.dying_stores import DyingStores
from tests.history.grounds import Ground
from tests.unit.broker.staging_verbs import (
    begin,
    grouped,
    grouped_as_columns,
    held,
    publish,
    rows_left,
)
from tests.unit.broker.topic_messages import note, seen

pytestmark = pytest.mark.spec("R9.3")
ENTITIES = (
    Queue("orders"),
    Queue("parts", QueueProperties(enable_partitioning=True)),
    Topic("news", TopicProperties(enable_partitioning=True), (Subscription("all"),)),
)
ROWS = 12
STEPS_MIN = 8
READ_FROM = {"orders": "orders", "parts": "parts", "news": "news/subscriptions/all"}
# A topic's rules look at contents, so nothing of it stays columns.
WRITTEN = [("orders", False), ("parts", False), ("news", False), ("orders", True), ("parts", True)]
as_written = pytest.mark.parametrize(("name", "as_columns"), WRITTEN)


Life = Callable[[], AbstractAsyncContextManager[LocalBroker]]


@contextmanager
def lives(folder: Path, clock: ManualClock, ground: Ground) -> Iterator[Life]:
    """Let a broker live on the same stores as often as it is started."""
    folder.mkdir()
    with ground(2) as make_store:
        yield partial(local_broker, folder, ENTITIES, clock, stores=2, make_store=make_store)


def rows(tasks: int, task: int) -> list[Message]:
    """Make the rows of a task; some have a key."""
    messages: list[Message] = []
    for number in range(task, ROWS, tasks):
        message = note(str(number))
        message.partition_key = str(number % 5) if number % 3 else None
        messages.append(message)
    return messages


async def write(broker: LocalBroker, name: str, tasks: int, *, as_columns: bool) -> None:
    """Write a batch in so many tasks; one of them is tried twice."""
    queue = broker.queue(name)
    pack = _columns if as_columns else grouped
    stages: list[str] = []
    for task in [*range(tasks), tasks - 1]:
        stage = await begin(broker, queue)
        await stage.add(pack(queue, rows(tasks, task)))
        stages.append((await stage.complete()).stage)
    del stages[tasks - 1]
    await publish(broker, queue, stages)


def _columns(queue: ServedQueue, messages: list[Message]) -> list[Packed]:
    for message in messages:
        body = read_content(message.content, None).body
        assert body is not None
        message.content = body
    return grouped_as_columns(queue, messages)


async def visible(broker: LocalBroker, name: str) -> list[int]:
    """Return the rows that are there."""
    return sorted(int(seen(each)[0]) for each in await held(broker.queue(READ_FROM[name])))


async def forget(broker: LocalBroker, clock: ManualClock) -> None:
    """Let the broker see to what writers left behind, when it is old."""
    clock.advance(STAGE_AGE_MAX_MS / 1000)
    finisher = Finisher(broker.namespaces, clock)
    # Where others may still bring something, a stage is kept until a look has found nothing of it.
    for _ in range(2):
        await finisher.look()


async def live_and_die(life: Life, name: str, calls: int, *, as_columns: bool) -> bool:
    """Write until the broker dies at some call; say whether it was done before."""
    is_done = False

    async def all_of_it() -> None:
        nonlocal is_done
        await write(broker, name, 2, as_columns=as_columns)
        is_done = True

    async with life() as broker:
        stores = DyingStores(broker.stores)
        await stores.live_on(calls, all_of_it())
    return is_done


@as_written
async def test_a_batch_that_is_written_again_after_a_crash_is_there_once(
    tmp_path: Path,
    name: str,
    ground: Ground,
    monkeypatch: pytest.MonkeyPatch,
    *,
    as_columns: bool,
) -> None:
    monkeypatch.setattr(staging, "CHUNK_MESSAGES_MAX", 3)
    for calls in count(1):
        clock = ManualClock()
        with lives(tmp_path / str(calls), clock, ground) as life:
            is_done = await live_and_die(life, name, calls, as_columns=as_columns)
            async with life() as broker:
                await write(broker, name, 3, as_columns=as_columns)
                assert await visible(broker, name) == [*range(ROWS)], f"died at call {calls}"
                await forget(broker, clock)
                assert await rows_left(broker) == [0, 0], f"died at call {calls}"
        if is_done:
            assert calls > STEPS_MIN
            return


@as_written
async def test_a_batch_whose_writer_never_comes_back_is_there_as_a_whole_or_not_at_all(
    tmp_path: Path,
    name: str,
    ground: Ground,
    monkeypatch: pytest.MonkeyPatch,
    *,
    as_columns: bool,
) -> None:
    monkeypatch.setattr(staging, "CHUNK_MESSAGES_MAX", 3)
    outcomes: list[int] = []
    for calls in count(1):
        clock = ManualClock()
        with lives(tmp_path / str(calls), clock, ground) as life:
            is_done = await live_and_die(life, name, calls, as_columns=as_columns)
            async with life() as broker:
                await forget(broker, clock)
                there = await visible(broker, name)
                assert there in ([], [*range(ROWS)]), f"died at call {calls}"
                assert await rows_left(broker) == [0, 0], f"died at call {calls}"
                outcomes.append(len(there))
        if is_done:
            break
    # From some call on, which is the decision, all of it is there.
    assert outcomes == sorted(outcomes)
    assert outcomes.count(ROWS) > 3
