"""forward: to topics, and from subscriptions (R6)."""

from pathlib import Path
from typing import Any

import pytest

from bendybus.content.incoming_message import read_message
from bendybus.model.entity import (
    EntityStatus,
    Queue,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
    subscription_path,
)
from bendybus.model.forwarding import HOPS_MAX
from bendybus.model.ids import SubQueue, fragment_of
from bendybus.model.message import Message
from bendybus.model.partitioning import fragment_for
from bendybus.model.rule import CorrelationFilter, Rule, SqlAction, SqlFilter
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import forwarding, local_broker
from tests.protocol.messaging.sample_messages import message
from tests.unit.broker.forwarding_queues import (
    contents,
    holding,
    numbered,
    queue,
    send_messages,
)

pytestmark = pytest.mark.spec("R6")
BOTH_KINDS = pytest.mark.parametrize("is_partitioned", [False, True], ids=["one", "many"])
KEY = "red"
Entities = list[Queue | Topic]


def subscription(name: str, *rules: Rule, **properties: Any) -> Subscription:
    """Make a subscription that takes everything, or what its rules say."""
    return Subscription(name, SubscriptionProperties(**properties), rules or (Rule(),))


def topic(name: str, *subscriptions: Subscription, is_partitioned: bool = False) -> Topic:
    """Make a topic."""
    return Topic(name, TopicProperties(enable_partitioning=is_partitioned), subscriptions)


@BOTH_KINDS
async def test_a_queue_forwards_to_a_topic_and_its_subscriptions_to_queues(
    tmp_path: Path, is_partitioned: bool
) -> None:
    entities: Entities = [
        queue("a", "news", enable_partitioning=not is_partitioned),
        topic(
            "news",
            subscription("first", forward_to="b"),
            subscription("second"),
            is_partitioned=is_partitioned,
        ),
        queue("b", enable_partitioning=not is_partitioned),
    ]
    async with local_broker(tmp_path, entities, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", numbered(20, keys=[KEY, None]))
            arrived = await holding(broker, "b", 20)
            copies = await holding(broker, subscription_path("news", "second"), 20)
            await holding(broker, subscription_path("news", "first"), 0)
            await holding(broker, "a", 0)
        for found in (arrived, copies):
            assert sorted(map(int, contents(found))) == list(range(20))
            keyed = [each for each in found if each.partition_key == KEY]
            assert [int(each.content) for each in keyed] == list(range(0, 20, 2))
        spread = copies if is_partitioned else arrived
        fragments = {fragment_of(each.sequence) for each in spread if each.partition_key == KEY}
        assert fragments == {fragment_for(KEY, 16)}
        assert {each.marks.hops for each in copies if each.marks} == {1}
        assert {each.marks.hops for each in arrived if each.marks} == {2}


async def test_what_a_topic_numbered_keeps_its_number(tmp_path: Path) -> None:
    entities: Entities = [topic("news", subscription("first", forward_to="b")), queue("b")]
    async with local_broker(tmp_path, entities, ManualClock(), stores=2) as broker:
        await send_messages(broker, "news", numbered(3))
        async with forwarding(broker):
            arrived = await holding(broker, "b", 3)
        assert [each.marks.enqueued_sequence for each in arrived if each.marks] == [1, 2, 3]


@BOTH_KINDS
async def test_a_subscription_that_forwards_to_its_own_topic_ends_the_loop(
    tmp_path: Path, is_partitioned: bool
) -> None:
    loop = subscription("loop", forward_to="news")
    entities: Entities = [topic("news", loop, subscription("all"), is_partitioned=is_partitioned)]
    async with local_broker(tmp_path, entities, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "news", numbered(2))
            path = subscription_path("news", "loop")
            stopped = await holding(broker, path, 2, sub_queue=SubQueue.TRANSFER_DEAD_LETTER)
            copies = await holding(broker, subscription_path("news", "all"), 2 * (HOPS_MAX + 1))
            await holding(broker, path, 0)
        reasons = {each.marks.dead_letter_reason for each in stopped if each.marks}
        assert reasons == {"MaxTransferHopCountExceeded"}
        assert sorted(contents(copies)) == [b"0"] * 5 + [b"1"] * 5


async def test_a_loop_by_way_of_dead_letters_ends_too(tmp_path: Path) -> None:
    # Without a session they are dead letters at once, whatever brought them.
    loop = subscription("loop", requires_session=True, forward_dead_lettered_messages_to="news")
    async with local_broker(tmp_path, [topic("news", loop)], ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "news", numbered(2))
            path = subscription_path("news", "loop")
            stopped = await holding(broker, path, 2, sub_queue=SubQueue.TRANSFER_DEAD_LETTER)
            await holding(broker, path, 0, sub_queue=SubQueue.DEAD_LETTER)
        assert {each.marks.hops for each in stopped if each.marks} == {HOPS_MAX}


async def test_rules_see_why_a_forwarded_dead_letter_is_one(tmp_path: Path) -> None:
    kept = Rule("kept", SqlFilter("DeadLetterReason = 'MessagingEntityNotFound'"))
    changed = Rule(
        "changed",
        SqlFilter("DeadLetterErrorDescription IS NOT NULL"),
        SqlAction("SET DeadLetterReason = 'known'"),
    )
    others = Rule("others", SqlFilter("DeadLetterReason = 'other'"))
    entities: Entities = [
        queue("a", "missing", forward_dead_lettered_messages_to="graves"),
        topic(
            "graves",
            subscription("kept", kept),
            subscription("changed", changed),
            subscription("others", others),
        ),
    ]
    async with local_broker(tmp_path, entities, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", [read_message(message(b"x"))])
            [as_it_was] = await holding(broker, subscription_path("graves", "kept"), 1)
            [copy] = await holding(broker, subscription_path("graves", "changed"), 1)
            await holding(broker, subscription_path("graves", "others"), 0)
        assert as_it_was.marks is not None
        assert as_it_was.marks.dead_letter_reason == "MessagingEntityNotFound"
        assert copy.marks is not None
        # What the action wrote is in the content, and nothing covers it.
        assert copy.marks.dead_letter_reason is None
        assert b"known" in copy.content
        assert b"could not be found" in copy.content
        assert copy.marks.dead_letter_source == "a"


async def test_a_message_that_nobody_takes_is_gone(tmp_path: Path) -> None:
    entities: Entities = [queue("a", "news"), topic("news")]
    async with local_broker(tmp_path, entities, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", [Message(b"nobody takes it")])
            await holding(broker, "a", 0)
        await holding(broker, "a", 0, sub_queue=SubQueue.DEAD_LETTER)


async def test_a_disabled_topic_takes_nothing(tmp_path: Path) -> None:
    disabled = TopicProperties(status=EntityStatus.SEND_DISABLED)
    entities: Entities = [queue("a", "news"), Topic("news", disabled, (subscription("first"),))]
    async with local_broker(tmp_path, entities, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", numbered(1))
            [kept] = await holding(broker, "a", 1, sub_queue=SubQueue.DEAD_LETTER)
        assert kept.marks is not None
        assert kept.marks.dead_letter_reason == "MessagingEntityDisabled"


async def test_what_cannot_be_read_does_not_hold_up_the_others(tmp_path: Path) -> None:
    by_label = Rule("by-label", SqlFilter("sys.Label = 'x'"))
    by_correlation = Rule("by-correlation", CorrelationFilter(label="x"))
    entities: Entities = [
        queue("a", "news"),
        topic(
            "news",
            subscription("everything", forward_to="once"),
            subscription("sql", by_label),
            subscription("correlation", by_correlation),
        ),
        queue("once", requires_duplicate_detection=True),
    ]
    # A subject that is no text. Nobody looks at it when it is sent.
    unreadable = (
        message(b"x").replace(b"an-id@@@", b"an-id@@\xa1\x01\xff").replace(b"\xc0\x14", b"\xc0\x16")
    )
    async with local_broker(tmp_path, entities, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", [read_message(unreadable)])
            await send_messages(broker, "a", [read_message(message(b"y"))])
            for name in ("sql", "correlation"):
                path = subscription_path("news", name)
                [failed] = await holding(broker, path, 1, sub_queue=SubQueue.DEAD_LETTER)
                assert failed.marks is not None
                assert failed.marks.dead_letter_reason == "FilterException"
            path = subscription_path("news", "everything")
            [refused] = await holding(broker, path, 1, sub_queue=SubQueue.DEAD_LETTER)
            [arrived] = await holding(broker, "once", 1)
        assert refused.marks is not None
        assert refused.marks.dead_letter_reason == "MessageUnreadable"
        assert arrived.content.endswith(b"y")
