"""Tiers: what entities of a namespace may be (R1.4), and how many (R1.5)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bendybus.model.entity import Queue, QueueProperties, Topic, TopicProperties
from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange, QuotaExceeded
from bendybus.model.tier import PremiumPartitioning, Tier, TierName

BASIC = Tier(TierName.BASIC)
STANDARD = Tier()
NEVER = Tier(TierName.PREMIUM)
ALWAYS = Tier(TierName.PREMIUM, PremiumPartitioning.ALWAYS)


def of_namespace(fragments: int) -> Tier:
    return Tier(TierName.PREMIUM, PremiumPartitioning.NAMESPACE, fragments)


def admitted(tier: Tier, **properties: Any) -> QueueProperties:
    queue = tier.admitted(Queue("q", QueueProperties(**properties)))
    assert isinstance(queue, Queue)
    return queue.properties


@pytest.mark.spec("R1.4")
@pytest.mark.parametrize("tier", [BASIC, STANDARD])
@pytest.mark.parametrize("gigabytes", [1, 2, 3, 4, 5])
def test_a_partitioned_queue_holds_sixteen_times_what_is_asked_for(
    tier: Tier, gigabytes: int
) -> None:
    size = gigabytes * 1024
    parts = admitted(tier, max_size_megabytes=size, enable_partitioning=True)
    assert (parts.fragment_count, parts.effective_max_size_megabytes) == (16, 16 * size)
    plain = admitted(tier, max_size_megabytes=size)
    assert (plain.fragment_count, plain.effective_max_size_megabytes) == (1, size)


@pytest.mark.spec("R1.4")
@pytest.mark.parametrize("tier", [BASIC, STANDARD])
@pytest.mark.parametrize("gigabytes", [6, 10, 80])
def test_more_than_five_gigabytes_are_for_premium(tier: Tier, gigabytes: int) -> None:
    with pytest.raises(ArgumentOutOfRange, match="between 1024 and 5120 in steps") as refused:
        admitted(tier, max_size_megabytes=gigabytes * 1024)
    assert refused.value.argument == "max_size_megabytes"


@pytest.mark.spec("R1.4")
@pytest.mark.parametrize("gigabytes", range(1, 81))
def test_premium_has_nine_sizes(gigabytes: int) -> None:
    if gigabytes in (1, 2, 3, 4, 5, 10, 20, 40, 80):
        made = admitted(NEVER, max_size_megabytes=gigabytes * 1024)
        assert made.effective_max_size_megabytes == gigabytes * 1024
    else:
        with pytest.raises(ArgumentOutOfRange, match=r"one of 1024, .* 81920"):
            admitted(NEVER, max_size_megabytes=gigabytes * 1024)


@pytest.mark.spec("R1.4")
def test_premium_of_2020_refuses_partitioned_entities_and_keeps_those_it_has() -> None:
    with pytest.raises(ArgumentInvalid, match="create it without partitioning") as refused:
        admitted(NEVER, enable_partitioning=True)
    assert refused.value.argument == "enable_partitioning"
    assert admitted(NEVER).fragment_count == 1
    old = Queue("q", QueueProperties(enable_partitioning=True))
    changed = NEVER.changed(old, replace(old, properties=replace(old.properties, fragments=1)))
    assert changed == old


@pytest.mark.spec("R1.4")
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize(
    ("tier", "count"),
    [(ALWAYS, 2), (of_namespace(1), 1), (of_namespace(2), 2), (of_namespace(4), 4)],
)
def test_other_premium_namespaces_decide_for_every_entity(
    tier: Tier, count: int, asked: bool
) -> None:
    made = admitted(tier, enable_partitioning=asked)
    assert (made.enable_partitioning, made.fragment_count) == (count > 1, count)
    assert made.effective_max_size_megabytes == 1024 * count
    topic = tier.admitted(Topic("t", TopicProperties(enable_partitioning=asked)))
    assert topic.properties.fragment_count == count


def test_what_a_file_says_of_partitioning_counts_only_where_entities_decide() -> None:
    queue = ALWAYS.admitted(Queue("q"))
    assert ALWAYS.declared(queue, Queue("q")) == queue
    parts = Queue("q", QueueProperties(enable_partitioning=True))
    assert STANDARD.declared(parts, Queue("q")) == Queue("q")


@pytest.mark.parametrize("fragments", [0, 3, 5, 16])
def test_a_namespace_has_one_two_or_four_fragments(fragments: int) -> None:
    with pytest.raises(ArgumentOutOfRange, match="must be one of 1, 2, 4"):
        of_namespace(fragments)


@pytest.mark.spec("R1.4")
def test_basic_has_no_topics_and_keeps_messages_for_two_weeks() -> None:
    with pytest.raises(ArgumentInvalid, match="Basic tier has no topics"):
        BASIC.admitted(Topic("t"))
    assert admitted(BASIC).default_message_time_to_live == timedelta(days=14)
    short = timedelta(days=13)
    assert admitted(BASIC, default_message_time_to_live=short).default_message_time_to_live == short
    with pytest.raises(ArgumentOutOfRange, match="at most 14 days"):
        admitted(BASIC, default_message_time_to_live=timedelta(days=15))


@pytest.mark.spec("R4")
def test_messages_are_larger_in_premium() -> None:
    assert admitted(STANDARD).max_message_size_kilobytes == 256
    assert admitted(NEVER).max_message_size_kilobytes == 1024
    assert admitted(NEVER, max_message_size_kilobytes=102_400).max_message_size_kilobytes == 102_400
    with pytest.raises(ArgumentOutOfRange, match="larger messages need the Premium tier"):
        admitted(STANDARD, max_message_size_kilobytes=257)


def test_what_an_entity_has_stays_when_the_tier_is_another() -> None:
    large = Queue("q", QueueProperties(max_size_megabytes=80 * 1024, max_delivery_count=1))
    properties = replace(large.properties, max_delivery_count=2, max_message_size_kilobytes=256)
    assert (
        STANDARD.changed(large, Queue("q", properties)).properties.max_size_megabytes == 80 * 1024
    )
    larger = replace(large.properties, max_message_size_kilobytes=1024)
    with pytest.raises(ArgumentOutOfRange):
        STANDARD.changed(large, Queue("q", larger))
    with pytest.raises(ArgumentOutOfRange):
        STANDARD.changed(Queue("q"), large)


@pytest.mark.spec("R1.5")
def test_the_limit_on_partitioned_entities_is_not_for_premium() -> None:
    for tier in (BASIC, STANDARD):
        tier.check_quota(10_000, 100)
        with pytest.raises(QuotaExceeded, match="at most 100 partitioned"):
            tier.check_quota(101, 101)
    ALWAYS.check_quota(10_000, 10_000)
    with pytest.raises(QuotaExceeded, match="at most 10000 queues and topics, not 10001"):
        STANDARD.check_quota(10_001, 0)
