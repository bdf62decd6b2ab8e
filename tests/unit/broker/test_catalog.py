"""catalog: entities come back as they were, and nothing changes when a store is away (R1, R7)."""

import dataclasses
from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.broker.namespaces import Namespaces
from bendybus.broker.rules import add_rule, remove_rule
from bendybus.content.rule_view import WireContentReader
from bendybus.model.entity import (
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.errors import EntityNotFound, StartRefused, StoreUnavailable
from bendybus.model.ids import SubQueue
from bendybus.model.rule import FalseFilter, Rule
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import local_broker
from tests.unit.broker.serving_verbs import ORDERS, PARTS, receive_all, send_each, verbs

BRIEF = SubscriptionProperties(default_message_time_to_live=timedelta(minutes=1))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_queues_are_found_whatever_the_case_of_their_name(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with verbs(tmp_path, clock) as broker:
        assert broker.queue("ORDERS") is broker.queue("orders")
        with pytest.raises(EntityNotFound, match="sb://sbemulatorns/nowhere"):
            broker.queue("nowhere")


@pytest.mark.spec("R1.2")
async def test_the_fragments_of_a_queue_are_in_different_stores_while_there_are_enough(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with local_broker(tmp_path, [ORDERS, PARTS], clock, stores=16) as broker:
        sources = broker.queue("parts").main.sources

        assert len({source.store.status().number for source in sources}) == 16
        assert len(broker.queue("orders").main.sources) == 1


@pytest.mark.spec("R1.2")
async def test_conventional_queues_spread_over_the_stores(
    tmp_path: Path, clock: ManualClock
) -> None:
    queues = [Queue(f"q{number}") for number in range(6)]
    async with local_broker(tmp_path, queues, clock, stores=3) as broker:
        places = [broker.queue(each.name).main.sources[0].store for each in queues]

        assert [places.count(store) for store in broker.stores] == [2, 2, 2]


async def test_no_two_queues_share_a_place(tmp_path: Path, clock: ManualClock) -> None:
    async with verbs(tmp_path, clock, [ORDERS, PARTS, Queue("third")]) as broker:
        places = [
            (source.store.status().number, source.number)
            for queue in broker.catalog.queues()
            for sub_queue in SubQueue
            for source in queue.sub_queues[sub_queue].sources
        ]

        assert len(places) == len(set(places)) == 4 * (1 + 16 + 1)


@pytest.mark.parametrize("requires_session", [True, False])
async def test_whether_sessions_are_required_never_changes(
    tmp_path: Path, clock: ManualClock, requires_session: bool
) -> None:
    first = Queue("q", QueueProperties(requires_session=requires_session))
    second = Queue("q", QueueProperties(requires_session=not requires_session))
    async with verbs(tmp_path, clock, [first]) as broker:
        with pytest.raises(StartRefused, match=r"created with(out)? sessions"):
            await broker.catalog.declare([second], now=clock.now())

        assert broker.queue("q").main.has_sessions is requires_session


@pytest.mark.spec("R7.1")
async def test_a_restart_finds_queues_and_messages(tmp_path: Path, clock: ManualClock) -> None:
    async with verbs(tmp_path, clock) as broker:
        await send_each(broker.queue("parts"), clock, 20)

    async with verbs(tmp_path, clock, []) as broker:
        assert broker.queue("parts").properties == PARTS.properties
        assert len(await receive_all(broker.queue("parts"), clock)) == 20


@pytest.mark.spec("R7.1")
async def test_a_queue_is_known_from_any_store_that_is_left(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with verbs(tmp_path, clock) as broker:
        await broker.stores[0].take_offline("drill")
        namespaces = Namespaces(broker.stores, WireContentReader())
        catalog = namespaces.add("sbemulatorns")

        await namespaces.load()

        assert catalog.queue("parts").properties == PARTS.properties
        assert not catalog.queue("parts").is_available


async def test_changed_properties_are_taken_over_and_kept(
    tmp_path: Path, clock: ManualClock
) -> None:
    changed = Queue("orders", QueueProperties(lock_duration=timedelta(seconds=7)))
    async with verbs(tmp_path, clock) as broker:
        await send_each(broker.queue("orders"), clock, 1)
        await broker.catalog.declare([changed], now=clock.now())
        assert broker.queue("orders").lock_duration_ms == 7000

    async with verbs(tmp_path, clock, []) as broker:
        assert broker.queue("orders").properties == changed.properties
        assert len(await receive_all(broker.queue("orders"), clock)) == 1


@pytest.mark.spec("R1.3")
@pytest.mark.parametrize("is_partitioned", [True, False])
async def test_partitioning_never_changes(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    first = Queue("q", QueueProperties(enable_partitioning=is_partitioned))
    second = Queue("q", QueueProperties(enable_partitioning=not is_partitioned))
    async with verbs(tmp_path, clock, [first]) as broker:
        with pytest.raises(StartRefused, match="that is chosen at creation"):
            await broker.catalog.declare([second], now=clock.now())

        assert broker.queue("q").properties == first.properties


@pytest.mark.spec("R7.1")
async def test_with_a_store_away_nothing_is_created_anywhere(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with verbs(tmp_path, clock) as broker:
        await broker.stores[1].take_offline("drill")

        with pytest.raises(StartRefused, match=r"store 1 is unavailable: it is offline \(drill\)"):
            await broker.catalog.declare([Queue("new")], now=clock.now())

        assert len(await broker.stores[0].entities()) == 2
        with pytest.raises(EntityNotFound):
            broker.queue("new")


NEWS = Topic(
    "News",
    TopicProperties(enable_partitioning=True, default_message_time_to_live=timedelta(hours=1)),
    (Subscription("All"), Subscription("brief", BRIEF)),
)


@pytest.mark.spec("R1.1")
async def test_a_subscription_is_a_queue_beside_its_topic(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with verbs(tmp_path, clock, [ORDERS, NEWS]) as broker:
        topic = broker.queue("news")
        brief = broker.catalog.subscription("NEWS", "Brief")

        assert broker.queue("news/subscriptions/BRIEF") is brief
        assert brief.name == "News/Subscriptions/brief"
        assert brief.is_partitioned
        assert brief.properties.default_message_time_to_live == timedelta(minutes=1)
        assert [each.store for each in brief.main.sources] == [
            each.store for each in topic.main.sources
        ]


@pytest.mark.spec("R7.1")
async def test_a_restart_finds_topics_and_keeps_subscriptions_that_the_file_leaves_out(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with verbs(tmp_path, clock, [NEWS]):
        pass
    fewer = Topic("news", TopicProperties(enable_partitioning=True), NEWS.subscriptions[1:])

    async with verbs(tmp_path, clock, [fewer]) as broker:
        everything = broker.catalog.subscription("news", "all")

        assert broker.queue("news").name == "News"
        assert everything.topic is broker.queue("news")
        assert everything.properties.default_message_time_to_live is None


@pytest.mark.parametrize(("topic", "name"), [("news", "none"), ("orders", "all")])
async def test_a_subscription_that_is_not_there_is_named(
    tmp_path: Path, clock: ManualClock, topic: str, name: str
) -> None:
    async with verbs(tmp_path, clock, [ORDERS, NEWS]) as broker:
        with pytest.raises(EntityNotFound, match=rf"ns:Topic:{topic}\|{name}' could not be found"):
            broker.catalog.subscription(topic, name)


@pytest.mark.parametrize("second", [Queue("news"), Topic("news")])
async def test_a_topic_stays_a_topic_and_as_partitioned_as_it_was(
    tmp_path: Path, clock: ManualClock, second: Queue | Topic
) -> None:
    async with verbs(tmp_path, clock, [NEWS]) as broker:
        with pytest.raises(StartRefused, match=r"There is a topic|The topic was created"):
            await broker.catalog.declare([second], now=clock.now())


@pytest.mark.spec("R1.5")
async def test_a_topic_has_at_most_two_thousand_subscriptions(
    tmp_path: Path, clock: ManualClock
) -> None:
    most = [Subscription(f"s{number}") for number in range(2000)]
    async with verbs(tmp_path, clock, [Topic("news", subscriptions=tuple(most))]) as broker:
        with pytest.raises(StartRefused, match="at most 2000 subscriptions, not 2001"):
            await broker.catalog.declare(
                [Topic("news", subscriptions=(Subscription("more"),))], now=clock.now()
            )

        assert len(list(broker.catalog.queues())) == 2001


async def test_a_record_that_one_store_missed_in_a_crash_is_written_there_at_the_next_start(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with verbs(tmp_path, clock, [ORDERS]) as broker:
        [record] = await broker.stores[0].entities()
        await broker.stores[1].put_entities([dataclasses.replace(record, version=9)])

    async with verbs(tmp_path, clock, []) as broker:
        for store in broker.stores:
            assert [each.version for each in await store.entities()] == [9]


async def test_rules_changed_while_running_stay_until_the_file_itself_changes(
    tmp_path: Path, clock: ManualClock
) -> None:
    first, second, added = Rule("one"), Rule("two"), Rule("added", FalseFilter())

    def in_file(*rules: Rule) -> Topic:
        return Topic("news", subscriptions=(Subscription("all", rules=rules),))

    async with verbs(tmp_path, clock, [in_file(first)]) as broker:
        subscription = broker.catalog.subscription("news", "all")
        await add_rule(broker.catalog, subscription, added, now=clock.now())
        await remove_rule(broker.catalog, subscription, "one", now=clock.now())
    for file, expected in ((in_file(first), (added,)), (in_file(second), (second,))):
        async with verbs(tmp_path, clock, [file]) as broker:
            subscription = broker.catalog.subscription("news", "all")
            assert subscription.subscription.rules == expected


async def test_a_rule_whose_write_failed_does_not_hold(tmp_path: Path, clock: ManualClock) -> None:
    async with verbs(tmp_path, clock, [NEWS]) as broker:
        subscription = broker.catalog.subscription("news", "all")
        await broker.stores[1].take_offline("drill")
        with pytest.raises(StoreUnavailable):
            await add_rule(broker.catalog, subscription, Rule("new"), now=clock.now())
        assert subscription.subscription.rules == (Rule(),)
        await broker.stores[1].bring_online()
        await add_rule(broker.catalog, subscription, Rule("newer"), now=clock.now())

        versions = {
            record.version
            for store in broker.stores
            for record in await store.entities()
            if record.number == subscription.number
        }
        # No store was told of the rule that was refused.
        assert versions == {2}


async def test_fewer_stores_than_before_are_refused_by_name(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with local_broker(tmp_path, [PARTS], clock, stores=4):
        pass

    with pytest.raises(StartRefused, match="start with at least 4"):
        async with local_broker(tmp_path, [PARTS], clock, stores=2):
            pass
