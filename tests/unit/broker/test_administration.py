"""create, update, delete, describe: entities change while the broker runs (R1, R7)."""

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bendybus.broker.create import create
from bendybus.broker.delete import delete
from bendybus.broker.describe import describe, describe_all
from bendybus.broker.removal import Removal
from bendybus.broker.rules import add_rule, find_rule, remove_rule, update_rule
from bendybus.broker.served_topic import ServedSubscription
from bendybus.broker.update import update
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
    BusError,
    EntityExists,
    EntityNotFound,
    InvalidOperation,
    QuotaExceeded,
    StartRefused,
    StoreUnavailable,
)
from bendybus.model.rule import FalseFilter, Rule, SqlFilter
from bendybus.model.tier import PremiumPartitioning, Tier, TierName
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker
from tests.unit.broker.serving_verbs import ORDERS, PARTS, receive_all, send_each, verbs

NEWS = Topic("News")
BOTH = pytest.mark.parametrize("is_partitioned", [False, True])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def records_in(broker: LocalBroker) -> list[Any]:
    """Return what every store has, once if they all have the same."""
    copies = [await store.entities() for store in broker.stores]
    assert all(copy == copies[0] for copy in copies)
    for store in broker.stores:
        assert await store.prepared() == []
    return copies[0]


@BOTH
@pytest.mark.spec("R7.1")
async def test_what_is_created_is_served_at_once_and_after_a_restart(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    wanted = Queue("New/One", QueueProperties(enable_partitioning=is_partitioned))
    async with verbs(tmp_path, clock) as broker:
        record = await create(broker.catalog, wanted, now=clock.now())
        assert (record.entity, record.created_at) == (wanted, clock.now())
        await send_each(broker.queue("new/one"), clock, 20)
        assert record in await records_in(broker)
    async with verbs(tmp_path, clock) as broker:
        assert broker.catalog.record("NEW/ONE") == record
        assert len(await receive_all(broker.queue("new/one"), clock)) == 20


@BOTH
async def test_a_subscription_is_created_beside_its_topic_and_gets_what_is_sent_from_then_on(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    news = Topic("News", TopicProperties(enable_partitioning=is_partitioned))
    async with verbs(tmp_path, clock, []) as broker:
        await create(broker.catalog, news, now=clock.now())
        await send_each(broker.queue("news"), clock, 5)
        record = await create(broker.catalog, Subscription("All"), topic="news", now=clock.now())
        assert record.name == "News/Subscriptions/All"
        await send_each(broker.queue("news"), clock, 20)
        assert len(await receive_all(broker.queue(record.name), clock)) == 20


REFUSED: dict[str, tuple[Any, type[BusError], str]] = {
    "exists": (Queue("ORDERS"), EntityExists, "sb://sbemulatorns/ORDERS' already exists"),
    "exists as a queue": (Topic("orders"), EntityExists, "already exists"),
    "forwards to nothing": (
        Queue("new", QueueProperties(forward_to="nowhere")),
        ArgumentInvalid,
        "nowhere' could not be found",
    ),
    "forwards dead letters to a subscription": (
        Queue("new", QueueProperties(forward_dead_lettered_messages_to="news/Subscriptions/all")),
        ArgumentInvalid,
        "forward to its topic",
    ),
    "no topic": (("nowhere", Subscription("all")), EntityNotFound, "could not be found"),
    "a queue is no topic": (("orders", Subscription("all")), EntityNotFound, "Topic:orders"),
    "subscription exists": (("news", Subscription("ALL")), EntityExists, r"Topic:News\|ALL'"),
    "a rule without meaning": (
        ("news", Subscription("new", rules=(Rule("r", SqlFilter("a = = 1")),))),
        ArgumentInvalid,
        "=",
    ),
}


@pytest.mark.parametrize(("wish", "refusal", "text"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_created_is_refused_and_leaves_nothing(
    tmp_path: Path, clock: ManualClock, wish: Any, refusal: type[BusError], text: str
) -> None:
    topic, entity = wish if isinstance(wish, tuple) else (None, wish)
    news = dataclasses.replace(NEWS, subscriptions=(Subscription("all"),))
    async with verbs(tmp_path, clock, [ORDERS, news]) as broker:
        before = await records_in(broker)
        with pytest.raises(refusal, match=text):
            await create(broker.catalog, entity, topic=topic, now=clock.now())
        assert await records_in(broker) == before


@pytest.mark.spec("R1.5")
async def test_the_hundred_and_first_partitioned_entity_is_refused(
    tmp_path: Path, clock: ManualClock
) -> None:
    properties = QueueProperties(enable_partitioning=True)
    hundred = [Queue(f"q{number}", properties) for number in range(100)]
    async with verbs(tmp_path, clock, hundred) as broker:
        with pytest.raises(QuotaExceeded, match="at most 100 partitioned"):
            await create(broker.catalog, Queue("more", properties), now=clock.now())
        await create(broker.catalog, Queue("more"), now=clock.now())
        await delete(broker.catalog, "q7")
        await create(broker.catalog, Queue("other", properties), now=clock.now())


@pytest.mark.spec("R1.5")
async def test_a_file_adds_no_more_than_there_may_be(tmp_path: Path, clock: ManualClock) -> None:
    properties = QueueProperties(enable_partitioning=True)
    ninety = [Queue(f"q{number}", properties) for number in range(90)]
    async with verbs(tmp_path, clock, ninety) as broker:
        more = [Queue(f"more{number}", properties) for number in range(11)]
        with pytest.raises(StartRefused, match=r"at most 100 partitioned .*, not 101"):
            await broker.catalog.declare([*ninety, *more], now=clock.now())
        await broker.catalog.declare([*ninety, *more[1:]], now=clock.now())
        assert len(broker.catalog.listed(Queue)) == 100


@pytest.mark.spec("R1.5")
async def test_a_topic_gets_no_more_subscriptions_than_it_may_have(
    tmp_path: Path, clock: ManualClock
) -> None:
    most = tuple(Subscription(f"s{number}") for number in range(2000))
    async with verbs(tmp_path, clock, [Topic("news", subscriptions=most)]) as broker:
        with pytest.raises(QuotaExceeded, match="at most 2000 subscriptions, not 2001"):
            await create(broker.catalog, Subscription("more"), topic="news", now=clock.now())


async def test_an_update_is_for_whoever_has_the_queue_already(
    tmp_path: Path, clock: ManualClock
) -> None:
    changed = QueueProperties(
        lock_duration=timedelta(seconds=7), max_delivery_count=3, max_size_megabytes=2048
    )
    async with verbs(tmp_path, clock) as broker:
        queue = broker.queue("orders")
        clock.advance(5)
        record = await update(broker.catalog, Queue("Orders", changed), now=clock.now())
        assert broker.queue("orders") is queue
        assert (queue.lock_duration_ms, queue.fragment_bytes_max) == (7000, 2048 * 2**20)
        assert queue.main.policy(queue.main.sources[0]).delivery_count_max == 3
        assert (record.entity.name, record.updated_at) == ("orders", clock.now())
        assert record.created_at < record.updated_at
    async with verbs(tmp_path, clock, []) as broker:
        assert broker.catalog.record("orders") == record


async def test_an_update_leaves_the_subscriptions_of_a_topic_and_the_rules_of_a_subscription(
    tmp_path: Path, clock: ManualClock
) -> None:
    rules = (Rule("one", FalseFilter()),)
    news = Topic("News", subscriptions=(Subscription("all", rules=rules),))
    async with verbs(tmp_path, clock, [news]) as broker:
        catalog, now = broker.catalog, clock.now()
        served = catalog.subscription("news", "all")
        brief = TopicProperties(default_message_time_to_live=timedelta(minutes=1))
        await update(catalog, Topic("news", brief), now=now)
        assert served.time_to_live_ms == 60_000
        shorter = SubscriptionProperties(default_message_time_to_live=timedelta(seconds=9))
        await update(catalog, Subscription("all", shorter), topic="news", now=now)
        assert served.time_to_live_ms == 9_000
        assert served.subscription.rules == rules
        assert catalog.subscription("news", "all") is served


FIXED: dict[str, tuple[Any, type[BusError], str]] = {
    "partitioning": (
        Queue("orders", QueueProperties(enable_partitioning=True)),
        InvalidOperation,
        "created conventional",
    ),
    "sessions": (
        Queue("orders", QueueProperties(requires_session=True)),
        InvalidOperation,
        "created without sessions",
    ),
    "duplicates": (
        Queue("orders", QueueProperties(requires_duplicate_detection=True)),
        InvalidOperation,
        "created without duplicate detection",
    ),
    "kind": (Topic("orders"), ArgumentInvalid, "'orders' is a queue, and stays one"),
    "missing": (Queue("nowhere"), EntityNotFound, "nowhere"),
    "target": (Queue("orders", QueueProperties(forward_to="no")), ArgumentInvalid, "be found"),
}


@pytest.mark.spec("R1.3")
@pytest.mark.parametrize(("wish", "refusal", "text"), FIXED.values(), ids=FIXED)
async def test_what_is_chosen_at_creation_never_changes(
    tmp_path: Path, clock: ManualClock, wish: Any, refusal: type[BusError], text: str
) -> None:
    async with verbs(tmp_path, clock) as broker:
        before = await records_in(broker)
        with pytest.raises(refusal, match=text):
            await update(broker.catalog, wish, now=clock.now())
        assert await records_in(broker) == before
        assert broker.queue("orders").properties == ORDERS.properties


@BOTH
async def test_what_is_deleted_is_gone_with_its_messages_and_its_name_is_free(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    properties = QueueProperties(enable_partitioning=is_partitioned)
    async with verbs(tmp_path, clock, [Queue("q", properties)]) as broker:
        served = broker.queue("q")
        await send_each(served, clock, 20)
        await delete(broker.catalog, "Q")
        assert served.is_gone
        with pytest.raises(EntityNotFound):
            await delete(broker.catalog, "q")
        again = await create(broker.catalog, Queue("q", properties), now=clock.now())
        assert again.number > served.number
        assert await receive_all(broker.queue("q"), clock) == []
        await Removal(broker.namespaces, clock).look()
        assert await records_in(broker) == [again]


async def test_a_topic_goes_with_its_subscriptions(tmp_path: Path, clock: ManualClock) -> None:
    news = Topic("News", subscriptions=(Subscription("a"), Subscription("b")))
    async with verbs(tmp_path, clock, [news, ORDERS]) as broker:
        await delete(broker.catalog, "news/subscriptions/A")
        assert [each.entity.name for each in broker.catalog.subscriptions_of("news")] == ["b"]
        await delete(broker.catalog, "news")
        assert [queue.name for queue in broker.catalog.queues()] == ["orders"]
        await Removal(broker.namespaces, clock).look()
        assert [record.name for record in await records_in(broker)] == ["orders"]


@pytest.mark.spec("R7.1")
async def test_with_a_store_away_nothing_changes_anywhere(
    tmp_path: Path, clock: ManualClock
) -> None:
    news = Topic("News", subscriptions=(Subscription("a"),))
    async with verbs(tmp_path, clock, [ORDERS, PARTS, news]) as broker:
        catalog, now = broker.catalog, clock.now()
        subscription = catalog.subscription("news", "a")
        before = await records_in(broker)
        await broker.stores[1].take_offline("drill")
        changes = [
            create(catalog, Queue("new"), now=now),
            create(catalog, Subscription("new"), topic="news", now=now),
            update(catalog, Queue("orders", QueueProperties(max_delivery_count=2)), now=now),
            delete(catalog, "orders"),
            add_rule(catalog, subscription, Rule("new"), now=now),
            update_rule(catalog, subscription, Rule("$Default", FalseFilter()), now=now),
            remove_rule(catalog, subscription, "$Default", now=now),
        ]
        for change in changes:
            with pytest.raises(StoreUnavailable, match=r"store 1 .* \(drill\)"):
                await change
        await broker.stores[1].bring_online()
        assert await records_in(broker) == before
        assert broker.queue("orders").properties == ORDERS.properties
        await create(catalog, Queue("new"), now=now)


@BOTH
@pytest.mark.spec("R7.2")
async def test_counts_are_added_up_over_the_fragments_that_answer(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    properties = QueueProperties(enable_partitioning=is_partitioned)
    async with verbs(tmp_path, clock, [Queue("q", properties)]) as broker:
        await send_each(broker.queue("q"), clock, 32)
        found = await describe(broker.catalog, "Q")
        assert (found.counts.active, found.counts.messages) == (32, 32)
        assert found.counts.bytes > 32
        assert not found.is_limited
        assert (found.record.name, found.subscription_count) == ("q", 0)
        place = broker.catalog.record("q").places[0].store
        await broker.stores[place].take_offline("drill")
        found = await describe(broker.catalog, "q")
        assert found.counts.active == (16 if is_partitioned else 0)
        assert found.is_limited


async def test_a_topic_says_how_many_subscriptions_it_has(
    tmp_path: Path, clock: ManualClock
) -> None:
    news = Topic("News", subscriptions=(Subscription("a"), Subscription("b")))
    async with verbs(tmp_path, clock, [news]) as broker:
        await send_each(broker.queue("news"), clock, 3)
        records = [*broker.catalog.listed(Topic), *broker.catalog.subscriptions_of("news")]
        topic, first, second = await describe_all(broker.catalog, records)
        assert (topic.subscription_count, topic.counts.active) == (2, 0)
        assert first.counts.active == second.counts.active == 3
        assert topic.counts.bytes > 0


async def test_use_is_seen_within_seconds(tmp_path: Path, clock: ManualClock) -> None:
    async with verbs(tmp_path, clock) as broker:
        removal = Removal(broker.namespaces, clock)
        await removal.look()
        assert (await describe(broker.catalog, "orders")).accessed_at is None
        await send_each(broker.queue("orders"), clock, 1)
        clock.advance(1)
        await removal.look()
        assert (await describe(broker.catalog, "orders")).accessed_at == clock.now()
        assert (await describe(broker.catalog, "parts")).accessed_at is None


async def test_lists_are_in_the_order_of_names_and_come_in_pages(
    tmp_path: Path, clock: ManualClock
) -> None:
    entities: list[Queue | Topic] = [Queue("b"), Queue("C"), Queue("a"), Topic("t"), Topic("S")]
    async with verbs(tmp_path, clock, entities) as broker:
        catalog = broker.catalog

        def names(kind: Any, skip: int = 0, top: int | None = None) -> list[str]:
            return [record.name for record in catalog.listed(kind, skip=skip, top=top)]

        assert names(Queue) == ["a", "b", "C"]
        assert names(Topic) == ["S", "t"]
        assert names(Queue, skip=1, top=1) == ["b"]
        assert names(Queue, skip=3, top=5) == []
        await create(catalog, Queue("aa"), now=clock.now())
        await delete(catalog, "b")
        assert names(Queue) == ["a", "aa", "C"]
        for name in ("z", "Y"):
            await create(catalog, Subscription(name), topic="t", now=clock.now())
        pages = [catalog.subscriptions_of("T", skip=at, top=1) for at in range(3)]
        assert [[each.entity.name for each in page] for page in pages] == [["Y"], ["z"], []]
        with pytest.raises(EntityNotFound):
            catalog.subscriptions_of("a")


async def test_rules_are_found_changed_and_refused_by_name(
    tmp_path: Path, clock: ManualClock
) -> None:
    news = Topic("News", subscriptions=(Subscription("all"),))
    async with verbs(tmp_path, clock, [news]) as broker:
        catalog, now = broker.catalog, clock.now()
        served = catalog.subscription("news", "all")
        await update_rule(catalog, served, Rule("$Default", FalseFilter()), now=now)
        assert find_rule(catalog, served, "$DEFAULT") == Rule("$Default", FalseFilter())
        await send_each(broker.queue("news"), clock, 1)
        assert await receive_all(served, clock) == []
        for refused in (
            update_rule(catalog, served, Rule("none"), now=now),
            remove_rule(catalog, served, "none", now=now),
        ):
            with pytest.raises(EntityNotFound, match=r"sbemulatorns:Topic:News\|all\|none"):
                await refused
        with pytest.raises(EntityExists, match=r"Topic:News\|all\|\$Default' already exists"):
            await add_rule(catalog, served, Rule(), now=now)


async def test_a_subscription_that_was_deleted_meanwhile_gets_no_rules(
    tmp_path: Path, clock: ManualClock
) -> None:
    news = Topic("News", subscriptions=(Subscription("all"),))
    async with verbs(tmp_path, clock, [news]) as broker:
        served: ServedSubscription = broker.catalog.subscription("news", "all")
        await delete(broker.catalog, "news")
        with pytest.raises(EntityNotFound):
            await add_rule(broker.catalog, served, Rule("new"), now=clock.now())


async def test_a_status_is_open_only_where_topic_and_subscription_are(
    tmp_path: Path, clock: ManualClock
) -> None:
    news = Topic("News", subscriptions=(Subscription("all"),))
    async with local_broker(tmp_path, [news], clock, stores=1) as broker:
        served = broker.catalog.subscription("news", "all")
        closed = TopicProperties(status=EntityStatus.RECEIVE_DISABLED)
        await update(broker.catalog, Topic("news", closed), now=clock.now())
        assert not served.properties.status.allows_receive
        await update(broker.catalog, Topic("news"), now=clock.now())
        assert served.properties.status.allows_receive


@pytest.mark.spec("R1.4")
@pytest.mark.parametrize("fragments", [2, 4])
async def test_entities_of_a_partitioned_namespace_have_its_number_of_fragments(
    tmp_path: Path, clock: ManualClock, fragments: int
) -> None:
    tier = Tier(TierName.PREMIUM, PremiumPartitioning.NAMESPACE, fragments)
    news = Topic("news", subscriptions=(Subscription("all"),))
    for _ in range(2):
        async with local_broker(tmp_path, [ORDERS, news], clock, stores=4, tier=tier) as broker:
            assert len(broker.queue("orders").main.sources) == fragments
            subscription = broker.catalog.subscription("news", "all")
            assert len(subscription.main.sources) == fragments
    async with local_broker(tmp_path, [ORDERS, news], clock, stores=4, tier=tier) as broker:
        await send_each(broker.queue("orders"), clock, 8)
        assert len(await receive_all(broker.queue("orders"), clock)) == 8
        changed = QueueProperties(enable_partitioning=True, max_delivery_count=2)
        record = await update(broker.catalog, Queue("orders", changed), now=clock.now())
        assert isinstance(record.entity, Queue)
        assert record.entity.properties.fragment_count == fragments


@pytest.mark.spec("R1.4")
async def test_a_partitioned_queue_of_an_earlier_tier_keeps_working(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with local_broker(tmp_path, [PARTS], clock, stores=2) as broker:
        await send_each(broker.queue("parts"), clock, 16)
    premium = Tier(TierName.PREMIUM)
    async with local_broker(tmp_path, [PARTS], clock, stores=2, tier=premium) as broker:
        assert len(await receive_all(broker.queue("parts"), clock)) == 16
        with pytest.raises(ArgumentInvalid, match="without partitioning"):
            await create(broker.catalog, Queue("q", PARTS.properties), now=clock.now())


async def test_at_a_start_the_file_holds_again(tmp_path: Path, clock: ManualClock) -> None:
    async with verbs(tmp_path, clock) as broker:
        changed = QueueProperties(max_delivery_count=2)
        await update(broker.catalog, Queue("orders", changed), now=clock.now())
        await delete(broker.catalog, "parts")
        await create(broker.catalog, Queue("other", changed), now=clock.now())
    async with verbs(tmp_path, clock) as broker:
        assert broker.queue("orders").properties == ORDERS.properties
        assert broker.queue("parts").properties == PARTS.properties
        assert broker.queue("other").properties == changed
