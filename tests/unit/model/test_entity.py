"""Entities are valid by construction."""

from datetime import timedelta
from typing import Any

import pytest

from bendybus.model.entity import (
    FRAGMENTS_STANDARD,
    EntityStatus,
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
    check_fixed_unchanged,
    name_key,
)
from bendybus.model.errors import (
    ArgumentInvalid,
    ArgumentOutOfRange,
    InvalidOperation,
    QuotaExceeded,
)
from bendybus.model.namespace import Namespace
from bendybus.model.rule import CorrelationFilter, Rule, SqlAction, SqlFilter
from bendybus.model.tier import ENTITIES_MAX, PARTITIONED_ENTITIES_MAX


@pytest.mark.parametrize(
    "name", ["a", "orders", "Orders.v2", "a/b/c", "_x", "9-9", "x" * 260, "a/" + "b" * 258]
)
def test_good_names_are_taken(name: str) -> None:
    assert Queue(name).name == name


@pytest.mark.parametrize(
    "name",
    ["", "/a", "a/", "a//b", "a b", "ä", "$management", "a\n", "a%2Fb", "a?b", "x" * 261, "a:b"],
)
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(ArgumentInvalid) as refused:
        Queue(name)
    assert refused.value.argument == "name"


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 51, "$Default"])
def test_subscriptions_have_short_simple_names(name: str) -> None:
    with pytest.raises(ArgumentInvalid):
        Subscription(name)


def test_names_are_compared_without_case() -> None:
    assert name_key("Orders") == name_key("oRDERS")


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        (
            "lock_duration",
            [timedelta(seconds=5), timedelta(minutes=5)],
            [timedelta(seconds=4.999), timedelta(minutes=5, microseconds=1)],
        ),
        ("max_size_megabytes", [1024, 2048, 81920], [0, 1023, 1025, 82944, -1024]),
        (
            "default_message_time_to_live",
            [None, timedelta(seconds=1), timedelta.max],
            [timedelta(milliseconds=999), timedelta(0)],
        ),
        ("max_delivery_count", [1, 2000], [0, 2001, -1]),
        (
            "duplicate_detection_history_time_window",
            [timedelta(seconds=20), timedelta(days=7)],
            [timedelta(seconds=19), timedelta(days=7, seconds=1)],
        ),
        ("user_metadata", [None, "", "x" * 1024], ["x" * 1025]),
        ("max_message_size_kilobytes", [256, 1024, 102_400], [255, 102_401]),
        ("auto_delete_on_idle", [None, timedelta(minutes=5)], [timedelta(minutes=4)]),
    ],
)
def test_a_property_of_a_queue_is_held_to_its_bounds(
    field: str, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        assert getattr(QueueProperties(**{field: value}), field) == value
    for value in bad:
        with pytest.raises(ArgumentOutOfRange) as refused:
            QueueProperties(**{field: value})
        assert refused.value.argument == field


def test_topics_and_subscriptions_are_held_to_the_same_bounds() -> None:
    with pytest.raises(ArgumentOutOfRange):
        TopicProperties(max_size_megabytes=82944)
    with pytest.raises(ArgumentOutOfRange):
        SubscriptionProperties(lock_duration=timedelta(minutes=6))
    with pytest.raises(ArgumentOutOfRange):
        SubscriptionProperties(auto_delete_on_idle=timedelta(0))


@pytest.mark.spec("R1.4")
@pytest.mark.parametrize("properties", [QueueProperties, TopicProperties])
def test_a_partitioned_entity_holds_the_size_asked_for_in_each_of_16_fragments(
    properties: type[QueueProperties] | type[TopicProperties],
) -> None:
    assert FRAGMENTS_STANDARD == 16
    made = properties(max_size_megabytes=5120, enable_partitioning=True)
    assert (made.fragment_count, made.effective_max_size_megabytes) == (16, 80 * 1024)


@pytest.mark.parametrize("properties", [QueueProperties, TopicProperties])
def test_a_conventional_entity_holds_the_size_asked_for(
    properties: type[QueueProperties] | type[TopicProperties],
) -> None:
    made = properties(max_size_megabytes=2048)
    assert (made.fragment_count, made.effective_max_size_megabytes) == (1, 2048)


@pytest.mark.spec("R1.3")
@pytest.mark.parametrize(
    ("field", "with_it", "without"),
    [
        ("enable_partitioning", "created partitioned", "created conventional"),
        ("requires_session", "created with sessions", "created without sessions"),
        ("requires_duplicate_detection", "created with dup", "created without dup"),
        ("enable_express", "created express", "created not express"),
    ],
)
def test_what_is_chosen_at_creation_never_changes(field: str, with_it: str, without: str) -> None:
    plain = QueueProperties()
    special = QueueProperties(**{field: True})  # type: ignore[arg-type]  # the field varies
    check_fixed_unchanged(plain, QueueProperties(max_delivery_count=3))
    check_fixed_unchanged(special, special)
    with pytest.raises(InvalidOperation, match=without):
        check_fixed_unchanged(plain, special)
    with pytest.raises(InvalidOperation, match=with_it):
        check_fixed_unchanged(special, plain)


def test_a_subscription_keeps_its_sessions() -> None:
    plain = SubscriptionProperties()
    with pytest.raises(InvalidOperation, match="The subscription was created without sessions"):
        check_fixed_unchanged(plain, SubscriptionProperties(requires_session=True))


@pytest.mark.parametrize("field", ["forward_to", "forward_dead_lettered_messages_to"])
def test_a_queue_does_not_forward_to_itself_in_any_case(field: str) -> None:
    with pytest.raises(ArgumentInvalid, match="itself") as refused:
        Queue("orders", QueueProperties(**{field: "Orders"}))  # type: ignore[arg-type]  # the field varies
    assert refused.value.argument == field
    assert Queue("orders", QueueProperties(**{field: "other"})).name  # type: ignore[arg-type]  # the field varies


def test_the_target_of_forwarding_must_be_a_name() -> None:
    with pytest.raises(ArgumentInvalid) as refused:
        QueueProperties(forward_to="a b")
    assert refused.value.argument == "forward_to"


def test_an_entity_with_sessions_does_not_forward() -> None:
    with pytest.raises(ArgumentInvalid, match="sessions"):
        QueueProperties(requires_session=True, forward_to="other")


@pytest.mark.parametrize(
    ("status", "send", "receive"),
    [
        (EntityStatus.ACTIVE, True, True),
        (EntityStatus.DISABLED, False, False),
        (EntityStatus.SEND_DISABLED, False, True),
        (EntityStatus.RECEIVE_DISABLED, True, False),
    ],
)
def test_a_status_opens_its_directions(status: EntityStatus, send: bool, receive: bool) -> None:
    assert (status.allows_send, status.allows_receive) == (send, receive)


def test_a_subscription_without_rules_of_its_own_takes_everything() -> None:
    assert [rule.name for rule in Subscription("all").rules] == ["$Default"]


def test_rules_and_subscriptions_are_told_apart_by_name() -> None:
    with pytest.raises(ArgumentInvalid, match="two rules"):
        Subscription("s", rules=(Rule("a"), Rule("A")))
    with pytest.raises(ArgumentInvalid, match="two subscriptions"):
        Topic("t", subscriptions=(Subscription("a"), Subscription("A")))


@pytest.mark.parametrize("name", ["$Default", "by-colour"])
def test_a_rule_may_be_the_default_one(name: str) -> None:
    assert Rule(name).name == name
    with pytest.raises(ArgumentInvalid):
        Rule(f"{name}/")


@pytest.mark.parametrize("make", [SqlFilter, SqlAction])
@pytest.mark.parametrize("text", ["", "  ", "x" * 1025])
def test_sql_has_a_text_of_bounded_length(
    make: type[SqlFilter] | type[SqlAction], text: str
) -> None:
    assert make("x" * 1024).expression
    with pytest.raises(ArgumentInvalid) as refused:
        make(text)
    assert refused.value.argument == "expression"


def test_a_correlation_filter_compares_something() -> None:
    assert CorrelationFilter(label="a").label == "a"
    assert CorrelationFilter(properties={"a": 1}).properties == {"a": 1}
    with pytest.raises(ArgumentInvalid, match="at least one"):
        CorrelationFilter()


def test_queues_and_topics_of_a_namespace_share_their_names() -> None:
    with pytest.raises(ArgumentInvalid, match="'ORDERS'"):
        Namespace("ns", (Queue("orders"),), (Topic("ORDERS"),))


@pytest.mark.spec("R1.5")
def test_a_namespace_has_at_most_100_partitioned_entities() -> None:
    partitioned = QueueProperties(enable_partitioning=True)
    queues = tuple(Queue(f"q{n}", partitioned) for n in range(PARTITIONED_ENTITIES_MAX))
    Namespace("ns", (*queues, Queue("conventional")))
    with pytest.raises(QuotaExceeded, match="at most 100 partitioned"):
        Namespace("ns", queues, (Topic("t", TopicProperties(enable_partitioning=True)),))


@pytest.mark.spec("R1.5")
def test_a_namespace_has_at_most_10000_entities() -> None:
    queues = tuple(Queue(f"q{n}") for n in range(ENTITIES_MAX))
    Namespace("ns", queues)
    with pytest.raises(QuotaExceeded, match="at most 10000"):
        Namespace("ns", queues, (Topic("t"),))


@pytest.mark.parametrize("properties", [QueueProperties, TopicProperties])
def test_an_express_entity_cannot_have_duplicate_detection(properties: Any) -> None:
    with pytest.raises(ArgumentInvalid) as refused:
        properties(enable_express=True, requires_duplicate_detection=True)
    assert refused.value.argument == "enable_express"
