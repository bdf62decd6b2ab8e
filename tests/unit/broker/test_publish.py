"""publish: which subscription gets what, and in what shape (R4)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.broker.publish import EVALUATIONS_TOGETHER, Publication, publication_of
from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.schedule import cancel, schedule
from bendybus.broker.served_topic import ServedSubscription, ServedTopic
from bendybus.broker.update import update
from bendybus.model.entity import (
    EntityStatus,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.errors import MessageNotFound, QuotaExceeded, StoreUnavailable
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Marks, Message, StoredMessage
from bendybus.model.rule import CorrelationFilter, FalseFilter, Rule, SqlAction, SqlFilter
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker
from tests.unit.broker.topic_messages import note, seen, send_notes

RED = Rule("red", SqlFilter("colour = 'red'"))
BIG = Rule("big", CorrelationFilter(label="big"))
REPAINT = Rule("repaint", SqlFilter("colour = 'red'"), SqlAction("SET colour = 'blue'"))
RELABEL = Rule("relabel", SqlFilter("1 = 1"), SqlAction("SET sys.Label = 'new'; REMOVE colour"))
BROKEN = Rule("broken", SqlFilter("n / 0 = 1"))

pytestmark = pytest.mark.spec("R4")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[False, True], ids=["conventional", "partitioned"])
def is_partitioned(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class News:
    """A broker with one topic."""

    def __init__(self, broker: LocalBroker, clock: ManualClock) -> None:
        self.broker = broker
        self.clock = clock
        self.topic = broker.queue("news")

    def subscription(self, name: str) -> ServedSubscription:
        return self.broker.catalog.subscription("news", name)

    async def send(self, *notes: Message) -> None:
        await send_notes(self.topic, self.clock, *notes)

    async def receive(self, name: str, sub_queue: SubQueue = SubQueue.MAIN) -> list[StoredMessage]:
        """Take everything that is free, oldest first."""
        source = self.subscription(name).sub_queues[sub_queue]
        receiver = Receiver(source, ReceiveMode.RECEIVE_AND_DELETE, self.clock)
        found: list[StoredMessage] = []
        while messages := await receiver.receive(100):
            found += messages
        return found

    async def bodies(self, name: str, sub_queue: SubQueue = SubQueue.MAIN) -> list[str]:
        """Return what is in them, in an order that does not depend on fragments."""
        return sorted(seen(message)[0] for message in await self.receive(name, sub_queue))

    async def bytes_held(self) -> int:
        counts = [await each.store.counts(each.number) for each in self.topic.main.sources]
        return sum(each.bytes for each in counts)


@asynccontextmanager
async def serving(
    folder: Path,
    clock: ManualClock,
    *subscriptions: Subscription,
    is_partitioned: bool,
    properties: dict[str, object] | None = None,
) -> AsyncIterator[News]:
    given = TopicProperties(enable_partitioning=is_partitioned, **(properties or {}))  # type: ignore[arg-type] # of any field
    topic = Topic("news", given, subscriptions)
    async with local_broker(folder, [topic], clock, stores=2) as broker:
        yield News(broker, clock)


async def test_each_subscription_gets_what_its_rules_let_in(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    subscriptions = (
        Subscription("all"),
        Subscription("red", rules=(RED,)),
        Subscription("big", rules=(BIG,)),
        Subscription("none", rules=(Rule("none", FalseFilter()),)),
        Subscription("no-rules", rules=()),
    )
    async with serving(tmp_path, clock, *subscriptions, is_partitioned=is_partitioned) as news:
        await news.send(note("a", {"colour": "red"}), note("b", label="big"), note("c"))

        assert await news.bodies("all") == ["a", "b", "c"]
        assert await news.bodies("red") == ["a"]
        assert await news.bodies("big") == ["b"]
        assert await news.bodies("none") == await news.bodies("no-rules") == []
        assert await news.bytes_held() == 0


async def test_rules_without_an_action_together_let_in_one_copy(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    both = Subscription("both", rules=(RED, BIG, Rule("any", SqlFilter("EXISTS(colour)"))))
    async with serving(tmp_path, clock, both, is_partitioned=is_partitioned) as news:
        await news.send(note("a", {"colour": "red"}, label="big"), note("b", label="big"))

        assert await news.bodies("both") == ["a", "b"]


async def test_each_rule_with_an_action_lets_in_a_copy_of_its_own(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    acting = Subscription("acting", rules=(RED, REPAINT, RELABEL))
    async with serving(tmp_path, clock, acting, is_partitioned=is_partitioned) as news:
        await news.send(note("a", {"colour": "red", "n": 1}, label="old"))

        found = await news.receive("acting")
        assert sorted(map(seen, found), key=str) == [
            ("a", {"colour": "red", "n": 1}, "old"),
            ("a", {"n": 1, "colour": "blue"}, "old"),
            ("a", {"n": 1}, "new"),
        ]
        assert await news.bytes_held() == 0


@pytest.mark.parametrize("is_wanted", [True, False])
async def test_a_filter_that_fails_leads_to_the_dead_letters_if_that_is_wanted(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool, is_wanted: bool
) -> None:
    properties = SubscriptionProperties(dead_lettering_on_filter_evaluation_exceptions=is_wanted)
    failing = Subscription("failing", properties, (BROKEN, BIG))
    other = Subscription("other")
    async with serving(tmp_path, clock, failing, other, is_partitioned=is_partitioned) as news:
        await news.send(note("a", {"n": 1}), note("b", {"n": 1}, label="big"), note("c"))

        assert await news.bodies("other") == ["a", "b", "c"]
        # What another rule lets in as it came is not told twice.
        assert await news.bodies("failing") == ["b"]
        dead = await news.receive("failing", SubQueue.DEAD_LETTER)
        assert [seen(message)[0] for message in dead] == (["a"] if is_wanted else [])
        if is_wanted:
            assert dead[0].marks == Marks(
                dead_letter_reason="FilterException",
                dead_letter_description="the integer 1 cannot be divided by zero",
                dead_letter_source="news/Subscriptions/failing",
            )


async def test_an_action_that_fails_leads_to_the_dead_letters(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    rules = (Rule("r", SqlFilter("1 = 1"), SqlAction("SET m = n / 0")), RED)
    failing = Subscription("failing", rules=rules)
    async with serving(tmp_path, clock, failing, is_partitioned=is_partitioned) as news:
        await news.send(note("a", {"n": 1}))

        assert await news.bodies("failing") == []
        [dead] = await news.receive("failing", SubQueue.DEAD_LETTER)
        assert dead.marks is not None
        assert dead.marks.dead_letter_reason == "FilterException"


async def test_keys_that_an_action_makes_contradict_each_other_are_a_failure(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    action = SqlAction("SET sys.SessionId = 's'; SET sys.PartitionKey = 'p'")
    failing = Subscription("failing", rules=(Rule("r", SqlFilter("1 = 1"), action),))
    async with serving(tmp_path, clock, failing, is_partitioned=is_partitioned) as news:
        await news.send(note("a"))

        [dead] = await news.receive("failing", SubQueue.DEAD_LETTER)
        assert dead.marks is not None
        assert "differs from its SessionId" in (dead.marks.dead_letter_description or "")


async def test_a_message_without_session_goes_to_the_dead_letters_of_a_session_subscription(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    sessions = SubscriptionProperties(requires_session=True)
    rules = (Rule(), Rule("r", SqlFilter("colour = 'red'"), SqlAction("SET sys.Label = 'x'")))
    strict, other = Subscription("strict", sessions, rules), Subscription("other")
    async with serving(tmp_path, clock, strict, other, is_partitioned=is_partitioned) as news:
        await news.send(note("a", {"colour": "red"}), note("b", session_id="s"))

        assert await news.bodies("other") == ["a", "b"]
        dead = await news.receive("strict", SubQueue.DEAD_LETTER)
        assert [seen(message)[0::2] for message in dead] == [("a", None), ("a", "x")]
        assert {message.marks and message.marks.dead_letter_reason for message in dead} == {
            "Session id is null."
        }


async def test_a_session_that_an_action_sets_must_be_one_of_the_same_fragment(
    tmp_path: Path, clock: ManualClock
) -> None:
    sessions = SubscriptionProperties(requires_session=True)
    action = SqlAction("SET sys.SessionId = 'elsewhere'")
    strict = Subscription("strict", sessions, (Rule("r", SqlFilter("1 = 1"), action),))
    async with serving(tmp_path, clock, strict, is_partitioned=True) as news:
        await news.send(*(note(f"{number}", session_id=f"s{number}") for number in range(40)))

        dead = await news.receive("strict", SubQueue.DEAD_LETTER)
        counts = [
            (await each.store.counts(each.number)).messages
            for each in news.subscription("strict").main.sources
        ]
        assert sum(counts) + len(dead) == 40
        assert sum(count > 0 for count in counts) == 1
        assert all(
            each.marks and "another fragment" in str(each.marks.dead_letter_description)
            for each in dead
        )


@pytest.mark.parametrize(
    ("own", "of_topic", "of_subscription", "expected"),
    [(9, 5, 7, 5), (9, 7, 5, 5), (3, 5, 7, 3), (None, None, 7, 7), (None, 5, None, 5)],
)
async def test_a_message_lives_for_the_shortest_of_all_times(
    tmp_path: Path,
    clock: ManualClock,
    is_partitioned: bool,
    own: int | None,
    of_topic: int | None,
    of_subscription: int | None,
    expected: int,
) -> None:
    def lasting(seconds: int | None) -> timedelta | None:
        return None if seconds is None else timedelta(seconds=seconds)

    keeping = SubscriptionProperties(
        default_message_time_to_live=lasting(of_subscription),
        dead_lettering_on_message_expiration=True,
    )
    subscriptions = (Subscription("timed", keeping), Subscription("other"))
    async with serving(
        tmp_path,
        clock,
        *subscriptions,
        is_partitioned=is_partitioned,
        properties={"default_message_time_to_live": lasting(of_topic)},
    ) as news:
        message = note("a")
        message.time_to_live_ms = None if own is None else own * 1000
        await news.send(message)
        clock.advance(expected - 0.001)
        await news.broker.sweep.sweep_all()
        assert len(await news.bodies("timed", SubQueue.DEAD_LETTER)) == 0
        clock.advance(0.001)
        await news.broker.sweep.sweep_all()

        assert await news.bodies("timed") == []
        assert await news.bodies("timed", SubQueue.DEAD_LETTER) == ["a"]


async def test_a_changed_copy_expires_like_any(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    brief = SubscriptionProperties(default_message_time_to_live=timedelta(seconds=5))
    timed = Subscription("timed", brief, (RELABEL,))
    async with serving(tmp_path, clock, timed, is_partitioned=is_partitioned) as news:
        await news.send(note("a"))
        clock.advance(5)
        await news.broker.sweep.sweep_all()

        assert await news.bytes_held() == 0


@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.SEND_DISABLED])
async def test_a_subscription_that_is_closed_gets_nothing(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool, status: EntityStatus
) -> None:
    closed = Subscription(
        "closed", SubscriptionProperties(status=status), (Rule(), RELABEL, BROKEN)
    )
    async with serving(
        tmp_path, clock, closed, Subscription("open"), is_partitioned=is_partitioned
    ) as news:
        await news.send(note("a", {"n": 1}))

        assert await news.bodies("closed") == []
        assert await news.bodies("closed", SubQueue.DEAD_LETTER) == []
        assert await news.bodies("open") == ["a"]


@pytest.mark.spec("R2.3")
async def test_a_message_and_all_its_copies_are_in_the_fragment_of_its_key(
    tmp_path: Path, clock: ManualClock
) -> None:
    subscriptions = (Subscription("all"), Subscription("acting", rules=(RELABEL,)))
    async with serving(tmp_path, clock, *subscriptions, is_partitioned=True) as news:
        await news.send(*(note(f"{number}", session_id="one") for number in range(5)))

        fragments = {
            message.sequence >> 48
            for name in ("all", "acting")
            for message in await news.receive(name)
        }
        assert len(fragments) == 1


@pytest.mark.spec("R2.5")
async def test_with_a_store_away_keyless_messages_reach_every_subscription_by_another(
    tmp_path: Path, clock: ManualClock
) -> None:
    subscriptions = (Subscription("one"), Subscription("two", rules=(RED,)))
    async with serving(tmp_path, clock, *subscriptions, is_partitioned=True) as news:
        await news.broker.stores[0].take_offline("drill")
        for number in range(8):
            await news.send(note(f"{number}", {"colour": "red"}))

        assert len(await news.bodies("one")) == len(await news.bodies("two")) == 8
        with pytest.raises(StoreUnavailable):
            await news.send(*(note("k", session_id=f"s{number}") for number in range(30)))


@pytest.mark.spec("R1.6")
async def test_a_topic_is_full_when_its_subscriptions_hold_its_size(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with serving(
        tmp_path, clock, Subscription("one"), Subscription("two"), is_partitioned=False
    ) as news:
        news.topic.fragment_bytes_max = 2000
        await news.send(note("x" * 1200))
        with pytest.raises(QuotaExceeded, match="'news' has been reached in fragment 0"):
            await news.send(note("y" * 1200))

        assert await news.bodies("one") == ["x" * 1200]
        with pytest.raises(QuotaExceeded):
            await news.send(note("y" * 1200))
        await news.receive("two")
        await news.send(note("y" * 1200))


async def test_a_scheduled_message_is_published_when_its_time_comes_by_the_rules_of_then(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    keeping = SubscriptionProperties(default_message_time_to_live=timedelta(seconds=10))
    subscriptions = (Subscription("all", keeping), Subscription("red", rules=(RED, REPAINT)))
    async with serving(tmp_path, clock, *subscriptions, is_partitioned=is_partitioned) as news:
        messages = [note("a", {"colour": "red"}), note("b"), note("c")]
        for message in messages:
            message.scheduled_at = Instant(clock.now() + 60_000)
        numbers = await schedule(news.topic, messages, clock)
        await cancel(news.topic, numbers[2:], clock)
        assert await news.bodies("all") == []
        clock.advance(60)
        await news.broker.sweep.sweep_all()

        assert await news.bodies("all") == ["a", "b"]
        assert await news.bodies("red") == ["a", "a"]
        assert await news.bytes_held() == 0
        with pytest.raises(MessageNotFound):
            await cancel(news.topic, numbers[:1], clock)


@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.SEND_DISABLED])
async def test_a_scheduled_message_is_not_lost_because_its_topic_is_closed_by_then(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool, status: EntityStatus
) -> None:
    async with serving(tmp_path, clock, Subscription("all"), is_partitioned=is_partitioned) as news:
        message = note("a")
        message.scheduled_at = Instant(clock.now() + 1)
        await news.send(message)
        for wanted in (status, EntityStatus.ACTIVE):
            properties = TopicProperties(enable_partitioning=is_partitioned, status=wanted)
            changed = Topic(news.topic.name, properties)
            await update(news.broker.catalog, changed, now=clock.now())
            clock.advance(1)
            await news.broker.sweep.sweep_all()

        assert await news.bodies("all") == ["a"]


async def test_what_is_due_and_what_is_not_may_come_in_one_batch(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    async with serving(tmp_path, clock, Subscription("all"), is_partitioned=is_partitioned) as news:
        now, later, before = note("now"), note("later"), note("before")
        later.scheduled_at = Instant(clock.now() + 1)
        before.scheduled_at = Instant(clock.now() - 1)
        await news.send(now, later, before)

        assert await news.bodies("all") == ["before", "now"]
        clock.advance(1)
        await news.broker.sweep.sweep_all()
        assert await news.bodies("all") == ["later"]


async def test_duplicates_are_left_out_for_all_subscriptions(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    subscriptions = (Subscription("all"), Subscription("acting", rules=(RELABEL,)))
    async with serving(
        tmp_path,
        clock,
        *subscriptions,
        is_partitioned=is_partitioned,
        properties={"requires_duplicate_detection": True},
    ) as news:
        for _ in range(2):
            message = note("a")
            message.message_id = "same"
            await news.send(message)

        assert await news.bodies("all") == await news.bodies("acting") == ["a"]


MANY = Subscription(
    "many", rules=tuple(Rule(f"r{number}", SqlFilter(f"n = {number}")) for number in range(500))
)


async def test_many_filters_leave_others_their_turn(tmp_path: Path, clock: ManualClock) -> None:
    async with serving(tmp_path, clock, MANY, is_partitioned=False) as news:
        assert isinstance(news.topic, ServedTopic)
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        notes = [note(f"{number}") for number in range(100)]
        beside = asyncio.create_task(take_turns())
        await publication_of(news.topic, news.topic.main.sources[0], notes, clock.now())
        beside.cancel()

        assert turns == 100 * 500 // EVALUATIONS_TOGETHER - 1


@pytest.mark.spec("R3.6")
async def test_what_is_sent_while_many_filters_are_asked_comes_behind(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with serving(tmp_path, clock, MANY, Subscription("all"), is_partitioned=False) as news:
        first = [note(f"{number}", {"n": number}) for number in range(100)]
        await asyncio.gather(news.send(*first), news.send(note("last", {"n": 0})))

        expected = [f"{number}" for number in range(100)] + ["last"]
        for name in ("many", "all"):
            assert [seen(message)[0] for message in await news.receive(name)] == expected


async def test_a_subscription_that_goes_while_rules_are_asked_gets_nothing(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    going, staying = Subscription("going", rules=(RELABEL, BROKEN, RED)), Subscription("staying")
    async with serving(tmp_path, clock, going, staying, is_partitioned=is_partitioned) as news:
        source = news.topic.main.sources[0]
        assert isinstance(news.topic, ServedTopic)
        messages = [note("a", {"n": 1, "colour": "red"})]
        publication = Publication(news.topic, source, messages, clock.now())
        publication.ask_rules(range(1))
        news.topic.unsubscribe(news.subscription("going"))
        publication.conclude()

        place = news.subscription("staying").main.sources[0]
        assert [taker.queue for taker in publication.takers] == [place.number]
        assert publication.changed == []


async def test_messages_and_rules_are_there_after_a_restart(
    tmp_path: Path, clock: ManualClock, is_partitioned: bool
) -> None:
    subscriptions = (Subscription("all"), Subscription("red", rules=(RED, REPAINT)))
    async with serving(tmp_path, clock, *subscriptions, is_partitioned=is_partitioned) as news:
        await news.send(note("a", {"colour": "red"}), note("b"))
    async with local_broker(tmp_path, [], clock, stores=2) as broker:
        news = News(broker, clock)
        await news.send(note("c", {"colour": "red"}))

        assert await news.bodies("all") == ["a", "b", "c"]
        assert await news.bodies("red") == ["a", "a", "c", "c"]
