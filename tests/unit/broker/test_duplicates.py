"""Duplicate detection: what was seen within the window is accepted and left out (R2.1, R4)."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.broker.schedule import schedule
from bendybus.broker.send import check_one_key, group_by_fragment, send
from bendybus.broker.served_queue import FORGET_LUMP_MS, ServedQueue
from bendybus.broker.sweep import LOOK_AGAIN_MS
from bendybus.model.digests import digest_of_plain
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.errors import InvalidOperation
from bendybus.model.ids import FragmentIndex, Instant
from bendybus.model.message import Message
from bendybus.model.partitioning import fragment_for
from bendybus.model.plain_messages import PlainMessages
from bendybus.store.sqlite.database import SqliteDatabase
from bendybus.store.sqlite.seen_index import SeenIndex
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import receive_all, verbs

WINDOW = 30
KNOWING = [
    Queue(
        name,
        QueueProperties(
            requires_duplicate_detection=True,
            duplicate_detection_history_time_window=timedelta(seconds=WINDOW),
            enable_partitioning=is_partitioned,
        ),
    )
    for name, is_partitioned in (("once", False), ("once-parts", True))
]
QUEUES = pytest.mark.parametrize("name", ["once", "once-parts"])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock, KNOWING) as running:
        yield running


async def send_ids(queue: ServedQueue, clock: ManualClock, *ids: str) -> None:
    """Send a message for each id, to the fragment that it belongs to."""
    for message_id in ids:
        message = Message(message_id.encode(), message_id)
        [fragment] = group_by_fragment(queue, [message])
        await send(queue, [message], fragment, clock)


async def count(queue: ServedQueue) -> int:
    """Count what the queue holds."""
    counts = [await each.store.counts(each.number) for each in queue.main.sources]
    return sum(each.messages for each in counts)


async def seen_rows(broker: LocalBroker) -> int:
    """Count the rows of the logs on disk."""
    total = 0
    for store in broker.stores:
        assert isinstance(store, SqliteStore)
        total += await store.look(_seen_rows)
    return total


def _seen_rows(database: SqliteDatabase) -> int:
    [(rows,)] = database.execute("SELECT count(*) FROM seen").fetchall()
    assert isinstance(database.seen, SeenIndex)
    ids = sum(len(database.seen.of(queue)) for queue in range(100))
    assert (rows == 0) == (ids == 0)
    return int(rows)


@pytest.mark.spec("R4")
@QUEUES
async def test_an_id_counts_for_the_window_and_no_longer(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    ids = [f"id {n}" for n in range(20)]
    await send_ids(queue, clock, *ids)
    clock.advance(WINDOW - 1)
    await send_ids(queue, clock, *ids)
    assert await count(queue) == 20

    clock.advance(1)
    await send_ids(queue, clock, *ids)

    assert await count(queue) == 40


@pytest.mark.spec("R2.1")
async def test_the_id_is_the_key_where_there_is_no_other(broker: LocalBroker) -> None:
    queue = broker.queue("once-parts")
    messages = [Message(b"", f"id {n}") for n in range(50)]
    groups = group_by_fragment(queue, messages)
    assert None not in groups
    assert len(groups) > 4
    [without] = group_by_fragment(queue, [Message(b"")])
    assert without is None
    keyed = [Message(b"", f"id {n}", partition_key="k") for n in range(50)]
    assert len(group_by_fragment(queue, keyed)) == 1


async def test_a_batch_may_have_many_ids_but_one_key(broker: LocalBroker) -> None:
    queue = broker.queue("once-parts")
    check_one_key(queue, [Message(b"", f"id {n}") for n in range(50)])
    with pytest.raises(InvalidOperation):
        check_one_key(queue, [Message(b"", "a", partition_key=key) for key in "kl"])


@QUEUES
async def test_ids_are_known_after_a_restart(tmp_path: Path, clock: ManualClock, name: str) -> None:
    async with verbs(tmp_path, clock, KNOWING) as broker:
        await send_ids(broker.queue(name), clock, *"abc")
    clock.advance(WINDOW - 1)
    async with verbs(tmp_path, clock, KNOWING) as broker:
        await broker.sweep.sweep_all()
        await send_ids(broker.queue(name), clock, *"abcd")
        assert await count(broker.queue(name)) == 4


@QUEUES
async def test_a_scheduled_message_is_checked_when_it_is_scheduled(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_ids(queue, clock, "a")
    at = Instant(NOON + 1000 * WINDOW)
    wanted = [Message(b"", each, scheduled_at=at) for each in "abcb"]

    numbers = await schedule(queue, wanted, clock)

    assert [bool(number) for number in numbers] == [False, True, True, False]
    await send_ids(queue, clock, "b", "c", "d")
    assert await count(queue) == 4


@QUEUES
async def test_ids_are_forgotten_when_they_no_longer_count(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_ids(queue, clock, *(f"id {n}" for n in range(20)))
    await broker.sweep.sweep_all()
    clock.advance(10)
    await send_ids(queue, clock, "late")
    clock.advance(WINDOW - 10)
    await broker.sweep.sweep_all()
    assert await seen_rows(broker) == 21

    clock.advance(FORGET_LUMP_MS / 1000)
    await broker.sweep.sweep_all()
    assert await seen_rows(broker) == 1

    clock.advance(10)
    await broker.sweep.sweep_all()
    assert await seen_rows(broker) == 0
    await send_ids(queue, clock, "late")
    assert await count(queue) == 22


@QUEUES
async def test_what_a_former_broker_saw_is_forgotten_too(
    tmp_path: Path, clock: ManualClock, name: str
) -> None:
    async with verbs(tmp_path, clock, KNOWING) as broker:
        await send_ids(broker.queue(name), clock, *"abc")
    clock.advance(WINDOW)
    async with verbs(tmp_path, clock, KNOWING) as broker:
        assert await seen_rows(broker) == 3
        await broker.sweep.sweep_all()
        assert await seen_rows(broker) == 0


async def test_what_a_store_saw_that_was_away_is_forgotten_too(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("once")
    await send_ids(queue, clock, *"abc")
    store = queue.main.sources[0].store
    await store.take_offline("a test")
    clock.advance(WINDOW + LOOK_AGAIN_MS)
    await broker.sweep.sweep_all()
    await store.bring_online()

    await broker.sweep.sweep_all()

    assert await seen_rows(broker) == 0


@pytest.mark.spec("R2.1")
@QUEUES
async def test_ids_that_came_as_columns_are_the_same_ids(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_ids(queue, clock, "a", "b")

    for message_id in ("b", "c", "c"):
        fragment = fragment_for(message_id, len(queue.main.sources))
        columns = PlainMessages([b"as a column"], [digest_of_plain(message_id.encode())])
        await send(queue, columns, fragment, clock)
    assert await count(queue) == 3

    await send_ids(queue, clock, "c", "d")
    assert await count(queue) == 4


@QUEUES
async def test_of_columns_those_that_are_new_are_stored(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    digests = [digest_of_plain(each) for each in (b"a", b"b", b"a", b"c")]
    fragment = FragmentIndex(0)
    await send(queue, PlainMessages([b"first"], digests[1:2]), fragment, clock)

    await send(queue, PlainMessages([b"1", b"2", b"3", b"4"], digests), fragment, clock)

    assert [content for content, _ in await receive_all(queue, clock)] == [b"first", b"1", b"4"]


async def test_columns_for_a_queue_whose_messages_have_come_to_expire_expire(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("once")
    columns = PlainMessages([b"on its way"], [digest_of_plain(b"a")])
    life = timedelta(seconds=5)
    queue.set_properties(replace(queue.properties, default_message_time_to_live=life))

    await send(queue, columns, FragmentIndex(0), clock)
    await send_ids(queue, clock, "a")

    assert await count(queue) == 1, "it keeps its id"
    clock.advance(5)
    assert await receive_all(queue, clock) == []
