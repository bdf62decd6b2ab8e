"""What topics and subscriptions amount to as queues, and how many of what a topic may have."""

from datetime import timedelta

import pytest

from bendybus.model.entity import (
    EntityStatus,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    TopicProperties,
)
from bendybus.model.errors import QuotaExceeded
from bendybus.model.rule import CorrelationFilter, Rule, SqlFilter
from bendybus.model.topic_queues import (
    check_topic_quota,
    queue_of_subscription,
    queue_of_topic,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ACTIVE, DISABLED = EntityStatus.ACTIVE, EntityStatus.DISABLED
NO_SENDS, NO_RECEIVES = EntityStatus.SEND_DISABLED, EntityStatus.RECEIVE_DISABLED


@pytest.mark.spec("R1.1")
def test_a_subscription_has_the_fragments_and_sizes_of_its_topic_and_the_rest_of_its_own() -> None:
    topic = TopicProperties(
        max_size_megabytes=2048,
        enable_partitioning=True,
        requires_duplicate_detection=True,
        max_message_size_kilobytes=512,
        user_metadata="of the topic",
    )
    own = SubscriptionProperties(
        lock_duration=timedelta(seconds=7),
        dead_lettering_on_message_expiration=True,
        max_delivery_count=3,
        forward_to="there",
        forward_dead_lettered_messages_to="elsewhere",
        user_metadata="own",
        auto_delete_on_idle=HOUR,
    )
    assert queue_of_subscription(topic, own) == QueueProperties(
        lock_duration=timedelta(seconds=7),
        max_size_megabytes=2048,
        dead_lettering_on_message_expiration=True,
        max_delivery_count=3,
        enable_partitioning=True,
        forward_to="there",
        forward_dead_lettered_messages_to="elsewhere",
        user_metadata="own",
        max_message_size_kilobytes=512,
        auto_delete_on_idle=HOUR,
    )


@pytest.mark.parametrize(
    ("of_topic", "own", "expected"),
    [
        (None, None, None),
        (HOUR, None, HOUR),
        (None, HOUR, HOUR),
        (HOUR, DAY, HOUR),
        (DAY, HOUR, HOUR),
    ],
)
def test_a_message_lives_for_the_shorter_time(
    of_topic: timedelta | None, own: timedelta | None, expected: timedelta | None
) -> None:
    queue = queue_of_subscription(
        TopicProperties(default_message_time_to_live=of_topic),
        SubscriptionProperties(default_message_time_to_live=own),
    )
    assert queue.default_message_time_to_live == expected


@pytest.mark.parametrize(
    ("of_topic", "own", "expected"),
    [
        (ACTIVE, ACTIVE, ACTIVE),
        (ACTIVE, NO_RECEIVES, NO_RECEIVES),
        (NO_SENDS, ACTIVE, NO_SENDS),
        (NO_SENDS, NO_RECEIVES, DISABLED),
        (DISABLED, ACTIVE, DISABLED),
    ],
)
def test_a_subscription_is_open_only_where_its_topic_is(
    of_topic: EntityStatus, own: EntityStatus, expected: EntityStatus
) -> None:
    queue = queue_of_subscription(
        TopicProperties(status=of_topic), SubscriptionProperties(status=own)
    )
    assert queue.status is expected


def test_a_topics_own_queue_has_what_the_topic_has() -> None:
    topic = TopicProperties(
        max_size_megabytes=3072, requires_duplicate_detection=True, status=NO_SENDS
    )
    assert queue_of_topic(topic) == QueueProperties(
        max_size_megabytes=3072, requires_duplicate_detection=True, status=NO_SENDS
    )


# Made once: a hundred times as many would be made wherever tests are collected.
RULES = tuple(Rule(f"r{at}", CorrelationFilter(to="x")) for at in range(1001))


@pytest.mark.spec("R1.5")
@pytest.mark.parametrize(
    ("subscriptions", "text"),
    [
        ([Subscription(f"s{at}") for at in range(2001)], "2000 subscriptions, not 2001"),
        (
            [
                Subscription(
                    "s", rules=tuple(Rule(f"r{at}", SqlFilter("a=1")) for at in range(2001))
                )
            ],
            "2000 SQL filters, not 2001",
        ),
        (
            [Subscription(f"s{at}", rules=RULES) for at in range(100)],
            "100000 correlation filters, not 100100",
        ),
    ],
)
def test_a_topic_may_have_so_much_and_no_more(subscriptions: list[Subscription], text: str) -> None:
    with pytest.raises(QuotaExceeded, match=text):
        check_topic_quota(subscriptions)
    check_topic_quota(subscriptions[:1] if len(subscriptions) > 1 else [])
