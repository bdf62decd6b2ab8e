"""stage and publish: a batch is visible in every fragment, once, whatever is repeated (R9)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.broker import stage as staging
from bendybus.broker.abandon_stages import abandon_stages
from bendybus.broker.finish_staged import STAGE_AGE_MAX_MS, Finisher
from bendybus.broker.served_queue import ServedQueue
from bendybus.model.entity import (
    EntityStatus,
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.errors import (
    ArgumentInvalid,
    EntityDisabled,
    QuotaExceeded,
    StoreUnavailable,
)
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Message, MessageState
from bendybus.model.partitioning import fragment_for
from bendybus.model.rule import Rule, SqlFilter
from bendybus.store.sqlite.database import SqliteDatabase
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker
from tests.unit.broker.serving_verbs import receive_all
from tests.unit.broker.staging_verbs import (
    WRITER,
    begin,
    bring,
    grouped,
    held,
    publish,
    rows_left,
)
from tests.unit.broker.topic_messages import note

ENTITIES = (
    Queue("orders"),
    Queue("parts", QueueProperties(enable_partitioning=True)),
    Queue("ledger", QueueProperties(requires_session=True, enable_partitioning=True)),
    Queue("once", QueueProperties(requires_duplicate_detection=True, enable_partitioning=True)),
    Queue("brief", QueueProperties(default_message_time_to_live=timedelta(seconds=10))),
    Topic(
        "news",
        TopicProperties(enable_partitioning=True),
        (
            Subscription("all"),
            Subscription("red", rules=(Rule("red", SqlFilter("colour = 'red'")),)),
            Subscription("sessions", SubscriptionProperties(requires_session=True)),
        ),
    ),
)
STORES = 4


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with local_broker(tmp_path, ENTITIES, clock, stores=STORES) as running:
        yield running


@pytest.fixture(params=["orders", "parts", "news/subscriptions/all"])
def queue(broker: LocalBroker, request: pytest.FixtureRequest) -> ServedQueue:
    return broker.queue(request.param)


def rows(count: int, *, first: int = 0, keys: int = 0) -> list[Message]:
    """Make messages, with one of so many keys if any."""
    return [
        Message(b"%d" % at, partition_key=str(at % keys) if keys else None)
        for at in range(first, first + count)
    ]


def numbers(messages: list[Message] | object) -> list[int]:
    assert isinstance(messages, list)
    return sorted(int(each.content) for each in messages)


@pytest.mark.spec("R9.3")
@pytest.mark.parametrize("keys", [0, 5])
async def test_a_batch_is_seen_when_it_is_published_and_not_before(
    broker: LocalBroker, queue: ServedQueue, keys: int
) -> None:
    first = await bring(broker, queue, rows(60, keys=keys))
    second = await bring(broker, queue, rows(40, first=60, keys=keys))
    assert (first.rows, second.rows) == (60, 40)
    assert await held(queue) == []

    published = await publish(broker, queue, [first.stage, second.stage])

    assert (published.rows, published.already) == (100, False)
    assert numbers(await held(queue)) == [*range(100)]
    assert await rows_left(broker) == [0, 0]


@pytest.mark.spec("R9.3")
async def test_what_is_published_again_is_there_once(
    broker: LocalBroker, queue: ServedQueue
) -> None:
    receipt = await bring(broker, queue, rows(10))
    for already in (False, True, True):
        assert (await publish(broker, queue, [receipt.stage])).already is already
    other = await bring(broker, queue, rows(10))
    assert (await publish(broker, queue, [other.stage])).already
    assert numbers(await held(queue)) == [*range(10)]
    assert await rows_left(broker) == [0, 0], "a stage of a published batch is not kept"


async def test_two_publishes_at_the_same_time_are_one(
    broker: LocalBroker, queue: ServedQueue
) -> None:
    one = await bring(broker, queue, rows(10))
    two = await bring(broker, queue, rows(10))
    answers = await asyncio.gather(*(publish(broker, queue, [each.stage]) for each in (one, two)))
    assert sorted(each.already for each in answers) == [False, True]
    assert numbers(await held(queue)) == [*range(10)]


async def test_of_several_tries_only_those_that_are_named_are_published(
    broker: LocalBroker, queue: ServedQueue, clock: ManualClock
) -> None:
    await bring(broker, queue, rows(10))
    chosen = await bring(broker, queue, rows(10))
    late = await begin(broker, queue)
    await late.add(grouped(queue, rows(10)))
    await publish(broker, queue, [chosen.stage])
    await late.complete()
    assert numbers(await held(queue)) == [*range(10)]
    await Finisher(broker.namespaces, clock).look()
    assert await rows_left(broker) == [0, 0]
    with suppress(ArgumentInvalid):
        await publish(broker, queue, [chosen.stage], batch=1)
    assert numbers(await held(queue)) == [*range(10)]


async def test_rows_of_one_key_keep_their_order_over_all_chunks(
    broker: LocalBroker, queue: ServedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "CHUNK_MESSAGES_MAX", 7)
    stage = await begin(broker, queue)
    for start in range(0, 300, 25):
        await stage.add(grouped(queue, rows(25, first=start, keys=3)))
    receipt = await stage.complete()
    assert receipt.rows == 300
    await publish(broker, queue, [receipt.stage])
    for key in range(3):
        of_key = [int(e.content) for e in await held(queue) if e.partition_key == str(key)]
        assert of_key == [*range(key, 300, 3)]


@pytest.mark.spec("R2.1")
async def test_each_message_lies_in_the_fragment_of_its_key(broker: LocalBroker) -> None:
    queue = broker.queue("parts")
    receipt = await bring(broker, queue, rows(50, keys=20))
    await publish(broker, queue, [receipt.stage])
    for message in await held(queue):
        assert message.partition_key is not None
        assert message.sequence >> 48 == fragment_for(message.partition_key, 16)


@pytest.mark.spec("R2.4")
async def test_chunks_without_a_key_go_round_the_fragments_that_are_there(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "CHUNK_MESSAGES_MAX", 5)
    queue = broker.queue("parts")
    away = queue.main.sources[0].store
    home = staging.home_of(queue, "w").source.store
    assert home is not away
    await away.take_offline("drill")
    receipt = await bring(broker, queue, rows(80), writer="w")
    chunks = [
        bool(
            source.store.is_online
            and await source.store.next_chunks(source.number, [int(receipt.stage, 16)])
        )
        for source in queue.main.sources
    ]
    assert sum(chunks) == 12
    assert (await publish(broker, queue, [receipt.stage], writer="w")).rows == 80
    assert numbers(await online(queue)) == [*range(80)]


async def online(queue: ServedQueue) -> list[Message]:
    found: list[Message] = []
    for source in queue.main.sources:
        if source.store.is_online:
            browsed = await source.store.browse(
                source.number, from_sequence=0, count_max=1000, bytes_max=1 << 30
            )
            found += [Message(each.content) for each in browsed]
    return found


async def test_a_store_that_is_away_is_named_and_the_rest_comes_when_it_is_back(
    broker: LocalBroker, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    queue = broker.queue("parts")
    receipt = await bring(broker, queue, rows(100, keys=50), writer="w")
    home = staging.home_of(queue, "w").source
    source = next(each for each in queue.main.sources if each.store is not home.store)
    await source.store.take_offline("drill")
    with pytest.raises(StoreUnavailable, match="of 'parts', is unavailable: drill"):
        await publish(broker, queue, [receipt.stage], writer="w")
    assert 0 < len(await online(queue)) < 100
    # Nor can another try of it be staged where its fragment is away.
    with pytest.raises(StoreUnavailable, match="of 'parts', is unavailable: drill"):
        await bring(broker, queue, rows(100, keys=50), writer="v")

    finisher = Finisher(broker.namespaces, clock)
    for _ in range(3):
        await finisher.look()
    assert caplog.text.count("batch 0 of the writer 'w' waits to be published in 'parts'") == 1
    assert len(await online(queue)) < 100
    await source.store.bring_online()
    await finisher.look()
    assert numbers(await held(queue)) == [*range(100)]
    assert (await publish(broker, queue, [receipt.stage], writer="w")).already


async def test_a_home_that_is_away_is_named(broker: LocalBroker) -> None:
    queue = broker.queue("parts")
    receipt = await bring(broker, queue, rows(3))
    home = staging.home_of(queue, WRITER).source
    await home.store.take_offline("drill")
    text = f"fragment {home.fragment} of 'parts', is unavailable: drill"
    with pytest.raises(StoreUnavailable, match=text):
        await begin(broker, queue)
    with pytest.raises(StoreUnavailable, match=text):
        await publish(broker, queue, [receipt.stage])


async def test_a_batch_that_was_cut_off_is_finished_after_a_restart(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with local_broker(tmp_path, ENTITIES, clock, stores=STORES) as broker:
        queue = broker.queue("parts")
        receipt = await bring(broker, queue, rows(100, keys=50), writer="w")
        home = staging.home_of(queue, "w").source
        for store in broker.stores:
            if store is not home.store:
                await store.take_offline("drill")
        with pytest.raises(StoreUnavailable):
            await publish(broker, queue, [receipt.stage], writer="w")
    async with local_broker(tmp_path, ENTITIES, clock, stores=STORES) as broker:
        queue = broker.queue("parts")
        assert 0 < len(await held(queue)) < 100
        await Finisher(broker.namespaces, clock).look()
        assert numbers(await held(queue)) == [*range(100)]
        assert (await publish(broker, queue, [receipt.stage], writer="w")).already


async def test_an_earlier_batch_that_was_left_half_way_comes_first(broker: LocalBroker) -> None:
    queue = broker.queue("parts")
    first = await bring(broker, queue, rows(50, keys=50), 0, writer="w")
    second = await bring(broker, queue, rows(10, first=50), 1, writer="w")
    home = staging.home_of(queue, "w").source
    away = next(each.store for each in queue.main.sources if each.store is not home.store)
    await away.take_offline("drill")
    with pytest.raises(StoreUnavailable):
        await publish(broker, queue, [first.stage], 0, writer="w")
    await away.bring_online()
    assert (await publish(broker, queue, [second.stage], 1, writer="w")).rows == 10
    assert numbers(await held(queue)) == [*range(60)]


async def test_a_full_fragment_says_so_and_the_rest_comes_when_there_is_room(
    broker: LocalBroker, queue: ServedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "CHUNK_MESSAGES_MAX", 5)
    receipt = await bring(broker, queue, rows(100, keys=4))
    queue.fragment_bytes_max = 100
    with pytest.raises(QuotaExceeded, match=r"has been reached in fragment .* ask again"):
        await publish(broker, queue, [receipt.stage])
    assert 0 < len(await held(queue)) < 100
    queue.fragment_bytes_max = 1 << 30
    assert (await publish(broker, queue, [receipt.stage])).rows == 100
    assert numbers(await held(queue)) == [*range(100)]


async def test_more_than_the_fragment_may_have_cannot_be_staged(
    broker: LocalBroker, queue: ServedQueue
) -> None:
    queue.fragment_bytes_max = 10
    stage = await begin(broker, queue)
    await stage.add(grouped(queue, rows(100)))
    with pytest.raises(QuotaExceeded, match="cannot stage more in fragment"):
        await stage.complete()
    await stage.cancel()
    queue.fragment_bytes_max = 1 << 30
    await Finisher(broker.namespaces, broker.clock).look()
    assert await rows_left(broker) == [0, 0]


async def test_what_is_abandoned_or_cut_off_is_forgotten(
    broker: LocalBroker, queue: ServedQueue, clock: ManualClock
) -> None:
    finisher = Finisher(broker.namespaces, clock)
    await finisher.look()
    receipt = await bring(broker, queue, rows(10))
    cut_off = await begin(broker, queue)
    await cut_off.add(grouped(queue, rows(10)))
    under_way = broker.catalog.holdings.under_way
    await abandon_stages(queue, WRITER, [receipt.stage], under_way, clock)
    await cut_off.cancel()
    with pytest.raises(ArgumentInvalid, match=f"{receipt.stage}. Stage their rows again"):
        await publish(broker, queue, [receipt.stage])
    await finisher.look()
    assert await rows_left(broker) == [0, 0]


async def test_a_stage_that_is_not_published_within_a_day_is_forgotten(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with local_broker(tmp_path, ENTITIES, clock, stores=STORES) as broker:
        await bring(broker, broker.queue("parts"), rows(10))
        left = await begin(broker, broker.queue("parts"))
        await left.add(grouped(broker.queue("parts"), rows(10)))
        finisher = Finisher(broker.namespaces, clock)
        clock.advance(STAGE_AGE_MAX_MS / 1000 - 1)
        await finisher.look()
        assert (await rows_left(broker))[1] == 2
    clock.advance(2 * 3600)
    async with local_broker(tmp_path, ENTITIES, clock, stores=STORES) as broker:
        await Finisher(broker.namespaces, clock).look()
        assert await rows_left(broker) == [0, 0]


async def test_an_abandoned_batch_that_was_decided_is_published_all_the_same(
    broker: LocalBroker,
) -> None:
    queue = broker.queue("orders")
    receipt = await bring(broker, queue, rows(10))
    queue.fragment_bytes_max = 1
    with pytest.raises(QuotaExceeded):
        await publish(broker, queue, [receipt.stage])
    under_way = broker.catalog.holdings.under_way
    await abandon_stages(queue, WRITER, [receipt.stage], under_way, broker.clock)
    queue.fragment_bytes_max = 1 << 30
    assert (await publish(broker, queue, [])).rows == 10


async def test_messages_live_as_long_as_they_and_their_queue_allow(broker: LocalBroker) -> None:
    queue = broker.queue("brief")
    messages = [Message(b"1"), Message(b"2", time_to_live_ms=5000)]
    for batch, some in enumerate((messages, [Message(b"3", time_to_live_ms=7000)] * 2)):
        receipt = await bring(broker, queue, some, batch)
        await publish(broker, queue, [receipt.stage], batch)
    lives = [each.expires_at - NOON for each in await held(queue) if each.expires_at]
    assert lives == [10_000, 5000, 7000, 7000]


async def test_what_is_scheduled_waits_for_its_time(
    broker: LocalBroker, clock: ManualClock
) -> None:
    for name in ("parts", "news"):
        queue = broker.queue(name)
        at = Instant(clock.now() + 60_000)
        messages = [note("late"), note("now")]
        messages[0].scheduled_at = at
        receipt = await bring(broker, queue, messages)
        await publish(broker, queue, [receipt.stage])
        waiting = [each for each in await held(queue) if each.state == MessageState.SCHEDULED]
        assert [each.enqueued_at for each in waiting] == [at]
        assert [each.content for each in waiting] == [messages[0].content]


@pytest.mark.spec("R2.1")
async def test_sessions_are_received_as_sessions(broker: LocalBroker, clock: ManualClock) -> None:
    queue = broker.queue("ledger")
    messages = [Message(b"%d" % at, session_id=str(at % 3)) for at in range(30)]
    receipt = await bring(broker, queue, messages)
    await publish(broker, queue, [receipt.stage])
    for session_id in "012":
        source = queue.main.source_of_session(session_id)
        found = await source.store.browse(
            source.number, from_sequence=0, count_max=99, bytes_max=1 << 30, session_id=session_id
        )
        assert [int(each.content) for each in found] == [*range(int(session_id), 30, 3)]
    assert await receive_all(queue, clock) == []


async def test_duplicates_are_left_out(broker: LocalBroker) -> None:
    queue = broker.queue("once")
    messages = [Message(b"%d" % at, message_id=str(at % 7)) for at in range(20)]
    receipt = await bring(broker, queue, messages)
    await publish(broker, queue, [receipt.stage])
    receipt = await bring(broker, queue, messages, 1)
    await publish(broker, queue, [receipt.stage], 1)
    assert numbers(await held(queue)) == [*range(7)]


async def test_the_rules_of_a_topic_say_who_gets_what(broker: LocalBroker) -> None:
    topic = broker.queue("news")
    messages = [note(f"{at}", {"colour": "red" if at % 2 else "blue"}) for at in range(10)]
    receipt = await bring(broker, topic, messages)
    await publish(broker, topic, [receipt.stage])
    counts = {
        name: len(await held(broker.queue(f"news/subscriptions/{name}"), sub_queue))
        for name, sub_queue in (
            ("all", SubQueue.MAIN),
            ("red", SubQueue.MAIN),
            ("sessions", SubQueue.DEAD_LETTER),
        )
    }
    assert counts == {"all": 10, "red": 5, "sessions": 10}


async def test_one_subscription_alone_can_be_written_to(broker: LocalBroker) -> None:
    red = broker.queue("news/subscriptions/red")
    receipt = await bring(broker, red, rows(10))
    await publish(broker, red, [receipt.stage])
    assert numbers(await held(red)) == [*range(10)]
    assert await held(broker.queue("news/subscriptions/all")) == []


async def test_whoever_waits_for_messages_gets_them(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    assert await receive_all(queue, clock) == []
    receipt = await bring(broker, queue, rows(10))
    await publish(broker, queue, [receipt.stage])
    assert len(await receive_all(queue, clock)) == 10


async def test_a_batch_of_nothing_is_published_too(broker: LocalBroker) -> None:
    queue = broker.queue("parts")
    assert (await publish(broker, queue, [])).rows == 0
    assert (await publish(broker, queue, [])).already


async def test_requests_that_make_no_sense_are_refused(broker: LocalBroker) -> None:
    queue = broker.queue("orders")
    for writer in ("", "x" * 261, "line\nbreak"):
        with pytest.raises(ArgumentInvalid, match="A writer has a name"):
            await begin(broker, queue, writer=writer)
    for batch in (-1, 2**63):
        with pytest.raises(ArgumentInvalid, match="A batch has a number"):
            await begin(broker, queue, batch)
        with pytest.raises(ArgumentInvalid, match="A batch has a number"):
            await publish(broker, queue, [], batch)
    with pytest.raises(ArgumentInvalid, match="'xyz' is no stage"):
        await publish(broker, queue, ["xyz"])
    for unknown in ("1f", "-1", "f" * 40):
        with pytest.raises(ArgumentInvalid):
            await publish(broker, queue, [unknown])


async def test_an_entity_that_is_closed_for_sending_takes_nothing(broker: LocalBroker) -> None:
    queue = broker.queue("orders")
    queue.set_properties(QueueProperties(status=EntityStatus.SEND_DISABLED))
    with pytest.raises(EntityDisabled):
        await begin(broker, queue)
    with pytest.raises(EntityDisabled):
        await publish(broker, queue, [])


def _spoil_chunks(database: SqliteDatabase) -> None:
    database.execute("UPDATE staged SET sizes = zeroblob(20) WHERE ordinal = 1")
    database.execute("UPDATE staged SET fields = 5 WHERE ordinal = 3")


async def test_a_chunk_whose_bytes_changed_is_counted_and_the_others_are_published(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "CHUNK_MESSAGES_MAX", 5)
    queue = broker.queue("orders")
    receipt = await bring(broker, queue, rows(20))
    store = queue.main.sources[0].store
    [held_by] = [each for each in broker.stores if each is store]
    assert isinstance(held_by, SqliteStore)
    await held_by.look(_spoil_chunks)
    published = await publish(broker, queue, [receipt.stage])
    assert (published.rows, published.damaged_rows) == (10, 10)
    assert numbers(await held(queue)) == [*range(5), *range(10, 15)]
