"""A topic and its subscriptions as queues: what each amounts to, once messages are in it.

A subscription has everything that a queue has, so all that receives, settles and browses serves
it as one. A topic's own queue holds what waits for its time to be published.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from bendybus.model.entity import (
    EntityStatus,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    TopicProperties,
)
from bendybus.model.errors import QuotaExceeded
from bendybus.model.rule import CorrelationFilter, SqlFilter

SUBSCRIPTIONS_MAX: Final = 2_000
SQL_FILTERS_MAX: Final = 2_000
CORRELATION_FILTERS_MAX: Final = 100_000


def queue_of_topic(topic: TopicProperties) -> QueueProperties:
    """Return the properties of the topic's own queue."""
    return QueueProperties(
        max_size_megabytes=topic.max_size_megabytes,
        default_message_time_to_live=topic.default_message_time_to_live,
        enable_partitioning=topic.enable_partitioning,
        requires_duplicate_detection=topic.requires_duplicate_detection,
        duplicate_detection_history_time_window=topic.duplicate_detection_history_time_window,
        status=topic.status,
        max_message_size_kilobytes=topic.max_message_size_kilobytes,
        auto_delete_on_idle=topic.auto_delete_on_idle,
        authorization_rules=topic.authorization_rules,
    )


def queue_of_subscription(
    topic: TopicProperties, subscription: SubscriptionProperties
) -> QueueProperties:
    """Return the properties of the queue that a subscription is.

    Fragments and sizes are the topic's; a message lives for the shorter of both times to live;
    neither may be closed for what is to be open.
    """
    return QueueProperties(
        lock_duration=subscription.lock_duration,
        max_size_megabytes=topic.max_size_megabytes,
        default_message_time_to_live=_shorter(
            topic.default_message_time_to_live, subscription.default_message_time_to_live
        ),
        dead_lettering_on_message_expiration=subscription.dead_lettering_on_message_expiration,
        max_delivery_count=subscription.max_delivery_count,
        enable_partitioning=topic.enable_partitioning,
        requires_session=subscription.requires_session,
        forward_to=subscription.forward_to,
        forward_dead_lettered_messages_to=subscription.forward_dead_lettered_messages_to,
        status=_both(topic.status, subscription.status),
        user_metadata=subscription.user_metadata,
        max_message_size_kilobytes=topic.max_message_size_kilobytes,
        auto_delete_on_idle=subscription.auto_delete_on_idle,
    )


def check_topic_quota(subscriptions: Iterable[Subscription]) -> None:
    """Refuse more subscriptions, or more filters of a kind, than one topic may have."""
    counts = {"subscriptions": 0, "SQL filters": 0, "correlation filters": 0}
    for subscription in subscriptions:
        counts["subscriptions"] += 1
        for rule in subscription.rules:
            counts["SQL filters"] += isinstance(rule.filter, SqlFilter)
            counts["correlation filters"] += isinstance(rule.filter, CorrelationFilter)
    limits = (SUBSCRIPTIONS_MAX, SQL_FILTERS_MAX, CORRELATION_FILTERS_MAX)
    for (kind, count), most in zip(counts.items(), limits, strict=True):
        if count > most:
            raise QuotaExceeded(f"A topic can have at most {most} {kind}, not {count}.")


def _shorter(first: timedelta | None, second: timedelta | None) -> timedelta | None:
    return min((each for each in (first, second) if each is not None), default=None)


def _both(first: EntityStatus, second: EntityStatus) -> EntityStatus:
    """Return the status that is open only where both are."""
    allows_send = first.allows_send and second.allows_send
    allows_receive = first.allows_receive and second.allows_receive
    if allows_send:
        return EntityStatus.ACTIVE if allows_receive else EntityStatus.RECEIVE_DISABLED
    return EntityStatus.SEND_DISABLED if allows_receive else EntityStatus.DISABLED
