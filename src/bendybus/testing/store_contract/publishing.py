"""Messages of a topic: every content kept once, however many subscriptions take it (D6)."""
# ruff: noqa: D102 - the name of a test is its sentence

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from bendybus.model.entity import Subscription, Topic, TopicProperties
from bendybus.model.errors import EntityNotFound, QuotaExceeded
from bendybus.model.ids import COUNTER_BITS, EntityNumber, Instant, QueueNumber, SubQueue
from bendybus.model.message import Marks, Message
from bendybus.model.operations import ChangedCopy, Guard, Move, Publish, Remove, Taker
from bendybus.store.port import EntityRecord, FragmentPlace, ParentTopic, QueueCounts, Store
from bendybus.testing.store_contract.subject import (
    ELSEWHERE,
    FRAGMENT_HERE,
    HERE,
    NOON,
    ROOMY,
    StoreMaker,
    StoreSubject,
    after,
    browse,
    contents,
    contents_of,
    lock,
    locks,
    number_of,
    promise,
)

NOTHING = QueueCounts(messages=0, bytes=0)
BIG = b"x" * 1000


@dataclass(frozen=True, slots=True)
class News:
    """The queues of a topic's fragment here, and of its two subscriptions."""

    topic: QueueNumber
    first: QueueNumber
    second: QueueNumber
    fragment: int

    @property
    def dead(self) -> QueueNumber:
        """The dead letters of the first subscription."""
        return QueueNumber(self.first + SubQueue.DEAD_LETTER)

    def number(self, counter: int) -> int:
        """Return a sequence number in the fragment."""
        return self.fragment << COUNTER_BITS | counter


def taker(
    queue: QueueNumber,
    indexes: Sequence[int],
    *,
    expires_at: Instant | None = None,
    marks: Marks | None = None,
) -> Taker:
    """Let a queue take messages, all under the same terms."""
    return Taker(queue, indexes, [expires_at] * len(indexes), marks)


async def publish(
    store: Store,
    news: News,
    messages: Sequence[Message],
    takers: Sequence[Taker],
    changed: Sequence[ChangedCopy] = (),
    *,
    bytes_max: int = ROOMY,
) -> int:
    """Publish, at noon; return the first number at the topic."""
    operation = Publish(news.topic, messages, takers, changed, bytes_max)
    return number_of(await store.apply([operation], now=NOON))


async def publish_to_both(store: Store, news: News, *bodies: bytes) -> None:
    """Publish messages that both subscriptions take."""
    everything = range(len(bodies))
    takers = [taker(news.first, everything), taker(news.second, everything)]
    await publish(store, news, [Message(body) for body in bodies], takers)


async def remove_all(store: Store, queue: QueueNumber) -> None:
    """Receive and complete everything."""
    held = await lock(store, queue=queue)
    assert await store.apply([Remove(queue, locks(held))], now=NOON) == [[]]


class PublishingContract(StoreSubject):
    """What `Publish` says, and how its messages go."""

    @pytest.fixture(params=[False, True], ids=["conventional", "partitioned"])
    async def news(self, store: Store, request: pytest.FixtureRequest) -> News:
        fragment = FRAGMENT_HERE if request.param else 0
        topic = EntityRecord(
            EntityNumber(3),
            Topic("news", TopicProperties(enable_partitioning=request.param)),
            1,
            _places(fragment, 16 if request.param else 1, 9),
        )
        await store.put_entities([topic])
        for at, name in enumerate(("first", "second")):
            subscription = EntityRecord(
                EntityNumber(4 + at),
                Subscription(name),
                1,
                _places(fragment, len(topic.places), 13 + 4 * at),
                ParentTopic(topic.number, "news"),
            )
            await store.put_entities([subscription])
        return News(QueueNumber(9), QueueNumber(13), QueueNumber(17), fragment)

    @promise(1)
    @pytest.mark.spec("R4")
    async def test_every_taker_gets_its_messages_in_order(self, store: Store, news: News) -> None:
        messages = [Message(b"%d" % at) for at in range(4)]
        takers = [taker(news.first, range(4)), taker(news.second, [1, 3])]

        assert await publish(store, news, messages, takers) == news.number(1)

        assert contents(await lock(store, queue=news.first)) == [b"0", b"1", b"2", b"3"]
        assert contents(await lock(store, queue=news.second)) == [b"1", b"3"]
        assert await contents_of(store, news.topic) == []

    @promise(5)
    async def test_each_subscription_numbers_for_itself_and_tells_the_number_at_the_topic(
        self, store: Store, news: News
    ) -> None:
        messages = [Message(b"a"), Message(b"b"), Message(b"c")]
        await publish(store, news, messages, [taker(news.first, [0, 1, 2])])
        await publish(store, news, messages, [taker(news.second, [0, 2])])

        for found in (await browse(store, news.second), await lock(store, queue=news.second)):
            assert [each.sequence for each in found] == [news.number(1), news.number(2)]
            assert [each.enqueued_sequence for each in found] == [news.number(4), news.number(5)]

    @promise(4)
    async def test_a_message_that_nobody_takes_is_not_kept(self, store: Store, news: News) -> None:
        assert await publish(store, news, [Message(BIG)], []) == 0
        assert await store.counts(news.topic) == NOTHING
        await publish(store, news, [Message(BIG), Message(b"a")], [taker(news.first, [1])])
        assert (await store.counts(news.topic)).bytes < len(BIG)
        assert [each.enqueued_sequence for each in await browse(store, news.first)] == [
            news.number(1)
        ]

    @promise(4)
    async def test_the_bytes_of_a_content_are_counted_once_on_the_topic(
        self, store: Store, news: News
    ) -> None:
        await publish_to_both(store, news, BIG, BIG)

        counts = await store.counts(news.topic)
        assert counts.messages == 0
        assert 2 * len(BIG) <= counts.bytes < 3 * len(BIG)
        for queue in (news.first, news.second):
            assert await store.counts(queue) == QueueCounts(messages=2, bytes=0)

    @promise(4)
    async def test_a_content_goes_with_the_last_message_that_holds_it(
        self, store: Store, news: News
    ) -> None:
        await publish_to_both(store, news, BIG, BIG)
        before = await store.counts(news.topic)
        await remove_all(store, news.first)
        assert await store.counts(news.topic) == before
        assert await contents_of(store, news.second) == [BIG, BIG]
        await remove_all(store, news.second)
        for queue in (news.topic, news.first, news.second):
            assert await store.counts(queue) == NOTHING

    @promise(4)
    async def test_some_messages_of_a_batch_may_be_shared_and_others_not(
        self, store: Store, news: News
    ) -> None:
        messages = [Message(b"%d" % at + BIG) for at in range(5)]
        takers = [taker(news.first, [0, 1, 3]), taker(news.second, [1, 4])]
        await publish(store, news, messages, takers)
        await remove_all(store, news.first)
        assert len(BIG) * 2 <= (await store.counts(news.topic)).bytes < len(BIG) * 3
        assert [each[:1] for each in await contents_of(store, news.second)] == [b"1", b"4"]
        await remove_all(store, news.second)
        assert await store.counts(news.topic) == NOTHING

    @promise(4)
    async def test_a_dead_letter_still_holds_its_content(self, store: Store, news: News) -> None:
        await publish_to_both(store, news, BIG)
        [held] = await lock(store, queue=news.first)
        move = Move(news.first, news.dead, held.lock, Marks(), is_counted=False)
        await store.apply([move], now=NOON)
        await remove_all(store, news.second)
        assert await contents_of(store, news.dead) == [BIG]
        await remove_all(store, news.dead)
        assert await store.counts(news.topic) == NOTHING

    @promise(4)
    async def test_a_taker_may_be_a_dead_letter_queue_and_say_why(
        self, store: Store, news: News
    ) -> None:
        marks = Marks(dead_letter_reason="FilterException", dead_letter_source="news|first")
        takers = [
            taker(news.dead, [0], marks=marks),
            taker(news.dead, [1], marks=Marks(dead_letter_reason="other")),
            taker(news.second, [0]),
        ]
        await publish(store, news, [Message(b"a"), Message(b"b")], takers)
        [first, second] = await browse(store, news.dead)
        assert first.marks == marks
        assert second.marks == Marks(dead_letter_reason="other")
        [plain] = await browse(store, news.second)
        assert plain.marks is None

    @promise(4)
    async def test_a_dead_letter_queue_may_hold_one_content_twice(
        self, store: Store, news: News
    ) -> None:
        takers = [taker(news.first, [0]), taker(news.dead, [0], marks=Marks())]
        await publish(store, news, [Message(BIG)], takers)
        [held] = await lock(store, queue=news.first)
        move = Move(news.first, news.dead, held.lock, Marks(), is_counted=False)
        await store.apply([move], now=NOON)
        await remove_all(store, news.dead)
        assert await store.counts(news.topic) == NOTHING

    @promise(4)
    async def test_a_changed_copy_has_a_content_of_its_own(self, store: Store, news: News) -> None:
        copies = [
            ChangedCopy(news.first, 0, Message(b"changed", session_id="s", expires_at=after(9))),
            ChangedCopy(news.first, 1, Message(b"again")),
        ]
        messages = [Message(BIG, session_id="t"), Message(BIG)]
        await publish(store, news, messages, [taker(news.first, [0])], copies)

        [plain, changed, again] = await browse(store, news.first)
        assert contents([plain, changed, again]) == [BIG, b"changed", b"again"]
        assert (changed.session_id, changed.expires_at) == ("s", after(9))
        for copy, counter in ((changed, 1), (again, 2)):
            assert copy.marks == Marks(enqueued_sequence=news.number(counter))
        before = await store.counts(news.topic)
        assert before.bytes < 2 * len(BIG)
        await remove_all(store, news.first)
        assert await store.counts(news.topic) == NOTHING

    @promise(6)
    async def test_each_taker_has_its_own_times_to_live(self, store: Store, news: News) -> None:
        takers = [
            taker(news.first, [0], expires_at=after(1)),
            taker(news.second, [0], expires_at=after(2)),
        ]
        await publish(store, news, [Message(BIG)], takers)
        [due] = await store.due(now=after(1), count_max=10)
        assert due.queue == news.first
        await store.apply([Remove(news.first, [due.lock], Guard.FREE)], now=after(1))
        assert await contents_of(store, news.second) == [BIG]

    @promise(7)
    async def test_session_and_key_are_those_of_the_message(self, store: Store, news: News) -> None:
        message = Message(b"a", session_id="s", partition_key="s")
        await publish(store, news, [message], [taker(news.first, [0]), taker(news.second, [0])])
        for queue in (news.first, news.second):
            [found] = await browse(store, queue)
            assert (found.session_id, found.partition_key) == ("s", "s")

    @promise(4)
    @pytest.mark.spec("R1.6")
    async def test_a_full_topic_refuses_and_keeps_nothing(self, store: Store, news: News) -> None:
        both = [taker(news.first, [0]), taker(news.second, [0])]
        await publish(store, news, [Message(BIG)], both, bytes_max=1500)
        copy = ChangedCopy(news.first, 0, Message(BIG))
        for takers, changed in ((both, []), ([], [copy])):
            with pytest.raises(QuotaExceeded, match="1500"):
                await publish(store, news, [Message(BIG)], takers, changed, bytes_max=1500)
        assert await store.counts(news.first) == QueueCounts(messages=1, bytes=0)
        await remove_all(store, news.first)
        with pytest.raises(QuotaExceeded):
            await publish(store, news, [Message(BIG)], both, bytes_max=1500)
        await remove_all(store, news.second)
        await publish(store, news, [Message(BIG)], both, bytes_max=1500)

    @promise(1)
    async def test_a_taker_that_is_not_here_undoes_all(self, store: Store, news: News) -> None:
        takers = [taker(news.first, [0]), taker(QueueNumber(99), [0])]
        with pytest.raises(EntityNotFound):
            await publish(store, news, [Message(b"a")], takers)
        assert await store.counts(news.topic) == NOTHING
        assert await contents_of(store, news.first) == []

    @promise(1)
    async def test_copies_and_who_holds_them_are_there_after_reopening(
        self, store: Store, make_store: StoreMaker, news: News
    ) -> None:
        await publish_to_both(store, news, BIG, b"b")
        before = await store.counts(news.topic)
        again = await make_store()
        assert await again.counts(news.topic) == before
        await remove_all(again, news.second)
        assert await contents_of(again, news.first) == [BIG, b"b"]
        await remove_all(again, news.first)
        assert await again.counts(news.topic) == NOTHING

    @promise(7)
    async def test_a_damaged_content_is_set_aside_for_every_holder(
        self, store: Store, make_store: StoreMaker, news: News
    ) -> None:
        await publish_to_both(store, news, b"a", b"b")
        make_store.spoil_content(news.first, news.number(1))
        for queue in (news.first, news.second):
            assert contents(await lock(store, queue=queue)) == [b"b"]

    @promise(4)
    async def test_a_message_seen_before_is_given_to_nobody(self, store: Store, news: News) -> None:
        async def send_again(*ids: str) -> None:
            messages = [Message(each.encode(), message_id=each) for each in ids]
            copies = [ChangedCopy(news.second, 0, Message(b"copy of " + messages[0].content))]
            operation = Publish(
                news.topic, messages, [taker(news.first, range(len(ids)))], copies, ROOMY, NOON
            )
            await store.apply([operation], now=after(1))

        await send_again("a", "b")
        await send_again("b", "c", "c")
        await send_again("d", "a")
        assert await contents_of(store, news.first) == [b"a", b"b", b"c", b"d"]
        assert await contents_of(store, news.second) == [b"copy of a", b"copy of d"]


def _places(fragment_here: int, count: int, first: int) -> tuple[FragmentPlace, ...]:
    return tuple(
        FragmentPlace(HERE if fragment == fragment_here else ELSEWHERE, QueueNumber(first))
        for fragment in range(count)
    )
