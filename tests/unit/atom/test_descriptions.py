"""Whatever an entity is, its description says it, and is read as the same."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.atom.descriptions import Facts, MessageCounts, read_facts, write_description
from bendybus.atom.entries import (
    Envelope,
    read_entry,
    read_error,
    read_feed,
    read_found,
    write_entry,
    write_feed,
    write_request_entry,
)
from bendybus.atom.namespaces import NamespaceDescription, read_namespace, write_namespace
from bendybus.atom.properties import (
    REQUESTS,
    Kind,
    left_out,
    read_properties,
    write_properties,
)
from bendybus.atom.xml_reading import parse
from bendybus.model.access import AccessRule, Right
from bendybus.model.durations import FOREVER_TEXT
from bendybus.model.entity import (
    EntityStatus,
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.errors import ArgumentInvalid
from tests.unit.atom.test_xml_reading import XML_TEXT

NAMES = st.from_regex(r"[A-Za-z0-9._\-]{1,20}(/[A-Za-z0-9_\-]{1,20})?", fullmatch=True)
KEYS = st.from_regex(r"[A-Za-z0-9+/=]{20,44}", fullmatch=True)
LIVES = st.none() | st.timedeltas(timedelta(seconds=1), timedelta(days=3650))
IDLENESS = st.none() | st.timedeltas(timedelta(minutes=5), timedelta(days=3650))
LOCKS = st.timedeltas(timedelta(seconds=5), timedelta(minutes=5))
WINDOWS = st.timedeltas(timedelta(seconds=20), timedelta(days=7))
STATUSES = st.sampled_from(EntityStatus)
METADATA = st.none() | XML_TEXT.filter(bool)
ACCESS_RULES = st.lists(
    st.builds(
        AccessRule,
        st.from_regex(r"[A-Za-z0-9_.\-]{1,20}", fullmatch=True),
        st.none() | KEYS,
        st.sampled_from([frozenset({Right.SEND}), frozenset({Right.LISTEN}), frozenset(Right)]),
        st.none() | KEYS,
    ),
    max_size=3,
    unique_by=lambda rule: rule.name,
).map(tuple)

KEPT = {
    "max_size_megabytes": st.sampled_from([1024, 2048, 5120]),
    "default_message_time_to_live": LIVES,
    "enable_partitioning": st.booleans(),
    "duplicate_detection_history_time_window": WINDOWS,
    "status": STATUSES,
    "user_metadata": METADATA,
    "auto_delete_on_idle": IDLENESS,
    "enable_batched_operations": st.booleans(),
    "enable_express": st.booleans(),
    "authorization_rules": ACCESS_RULES,
}
DELIVERED = {
    "lock_duration": LOCKS,
    "default_message_time_to_live": LIVES,
    "dead_lettering_on_message_expiration": st.booleans(),
    "max_delivery_count": st.integers(1, 2000),
    "forward_to": st.none() | NAMES,
    "forward_dead_lettered_messages_to": st.none() | NAMES,
    "status": STATUSES,
    "user_metadata": METADATA,
    "auto_delete_on_idle": IDLENESS,
    "enable_batched_operations": st.booleans(),
}
QUEUES = st.builds(
    Queue, st.just("the-queue-itself"), st.builds(QueueProperties, **{**KEPT, **DELIVERED})
)
TOPICS = st.builds(Topic, NAMES, st.builds(TopicProperties, **KEPT))
SUBSCRIPTIONS = st.builds(
    Subscription,
    st.just("s"),
    st.builds(
        SubscriptionProperties,
        dead_lettering_on_filter_evaluation_exceptions=st.booleans(),
        requires_session=st.just(False),
        **DELIVERED,
    ),
)
COUNTS = st.integers(0, 2**40)
TIMES = st.none() | st.integers(0, 2**37).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
FACTS = st.builds(
    Facts,
    created_at=TIMES,
    updated_at=TIMES,
    accessed_at=TIMES,
    size_bytes=COUNTS,
    message_count=COUNTS,
    counts=st.builds(
        MessageCounts,
        active=COUNTS,
        dead_letter=COUNTS,
        scheduled=COUNTS,
        transfer=COUNTS,
        transfer_dead_letter=COUNTS,
    ),
    is_available=st.booleans(),
)
KINDS = {Queue: Kind.QUEUE, Topic: Kind.TOPIC, Subscription: Kind.SUBSCRIPTION}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ENVELOPE = Envelope(
    address="https://h/q?a=1&b=2", title="q", author="ns", published=NOON, updated=NOON
)


@given(st.one_of(QUEUES, TOPICS, SUBSCRIPTIONS), FACTS)
def test_an_answer_says_all_of_an_entity(
    entity: Queue | Topic | Subscription, facts: Facts
) -> None:
    kind = KINDS[type(entity)]
    content = write_description(entity, facts, host="localhost:5300")
    entry = read_entry(write_entry(ENVELOPE, kind, content).encode())
    assert (entry.kind, entry.title) == (kind, "q")
    told = read_properties(entry.description, kind)
    if not isinstance(entity, Subscription):
        assert told.pop("max_size_megabytes") == entity.properties.effective_max_size_megabytes
    assert told.items() <= _fields(entity).items()
    # What is not told is what is not there.
    absent = {name: value for name, value in _fields(entity).items() if name not in told}
    assert {name for name, value in absent.items() if value is not None} <= {"max_size_megabytes"}
    shown = read_facts(entry.description)
    assert (shown.created_at, shown.is_available) == (facts.created_at, facts.is_available)
    if isinstance(entity, Queue):
        assert shown == facts


@given(st.one_of(QUEUES, TOPICS, SUBSCRIPTIONS))
def test_a_request_says_all_that_can_be_set(entity: Queue | Topic | Subscription) -> None:
    kind = KINDS[type(entity)]
    body = write_request_entry(kind, write_properties(kind, _fields(entity)))
    entry = read_entry(body.encode())
    told = read_properties(entry.description, kind)
    gone = left_out(entry.description, kind)
    assert {**told, **gone} == _fields(entity)


def _fields(entity: Queue | Topic | Subscription) -> dict[str, object]:
    """Return what clients know of an entity; how many fragments it has the tier decides."""
    properties = entity.properties
    names = type(properties).__dataclass_fields__.keys() - {"fragments"}
    return {name: getattr(properties, name) for name in names}


@pytest.mark.parametrize("kind", [Kind.QUEUE, Kind.TOPIC, Kind.SUBSCRIPTION])
def test_elements_may_come_in_any_order(kind: Kind) -> None:
    entities: dict[Kind, Queue | Topic | Subscription] = {
        Kind.QUEUE: Queue("q", QueueProperties(max_delivery_count=7)),
        Kind.TOPIC: Topic("t", TopicProperties(user_metadata="mine")),
        Kind.SUBSCRIPTION: Subscription("s", SubscriptionProperties(max_delivery_count=7)),
    }
    entity = entities[kind]
    description = read_entry(
        write_request_entry(kind, write_properties(kind, _fields(entity))).encode()
    ).description
    forwards = read_properties(description, kind)
    description.children.reverse()
    assert read_properties(description, kind) == forwards


def test_every_property_that_can_be_set_has_an_element() -> None:
    for kind, properties in (
        (Kind.QUEUE, QueueProperties),
        (Kind.TOPIC, TopicProperties),
        (Kind.SUBSCRIPTION, SubscriptionProperties),
    ):
        written = write_properties(
            kind, {name: getattr(properties(), name) for name in properties.__dataclass_fields__}
        )
        described = parse(f"<d>{written}</d>".encode())
        optional = {"ForwardTo", "UserMetadata", "ForwardDeadLetteredMessagesTo"}
        absent = set(REQUESTS[kind]) - {child.name for child in described.children}
        assert absent <= {*optional, "DefaultRuleDescription"}


@pytest.mark.parametrize(
    "text", [FOREVER_TEXT, "P10675199DT2H48M5.477581S", "P10675199DT2H48M5.477478S"]
)
def test_a_duration_that_a_client_rounded_is_still_without_end(text: str) -> None:
    description = parse(f"<d><AutoDeleteOnIdle>{text}</AutoDeleteOnIdle></d>".encode())
    assert read_properties(description, Kind.QUEUE) == {"auto_delete_on_idle": None}


def test_a_refusal_names_the_element() -> None:
    description = parse(b"<d><MaxDeliveryCount>many</MaxDeliveryCount></d>")
    with pytest.raises(ArgumentInvalid, match="MaxDeliveryCount: 'many'") as refusal:
        read_properties(description, Kind.QUEUE)
    assert refusal.value.argument == "max_delivery_count"


def test_what_has_no_value_is_not_given() -> None:
    document = b'<d xmlns:i="urn:i"><MaxDeliveryCount i:nil="true" /></d>'
    assert read_properties(parse(document), Kind.QUEUE) == {}


def test_pages_lead_to_the_next() -> None:
    content = write_description(Queue("q"), Facts(), host="h")
    page = write_feed(
        ENVELOPE,
        [(ENVELOPE, content)] * 2,
        Kind.QUEUE,
        "https://h/$Resources/queues?$skip=2&$top=2",
    )
    feed = read_feed(page.encode())
    assert [entry.title for entry in feed.entries] == ["q", "q"]
    assert feed.next_skip == 2
    last = read_feed(write_feed(ENVELOPE, [], Kind.QUEUE, None).encode())
    assert (last.entries, last.next_skip) == ((), None)


def test_where_nothing_is_the_service_answers_with_an_empty_feed() -> None:
    nothing = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title type="text">Publicly Listed
        Services</title><id>https://h/q</id><updated>2026-01-01T00:00:00Z</updated></feed>"""
    assert read_found(nothing) is None
    content = write_description(Queue("q"), Facts(), host="h")
    found = read_found(write_entry(ENVELOPE, Kind.QUEUE, content).encode())
    assert found is not None
    assert found.title == "q"
    page = write_feed(ENVELOPE, [(ENVELOPE, content)], Kind.QUEUE, None)
    with pytest.raises(ArgumentInvalid):
        read_found(page.encode())


def test_the_namespace_is_read_as_it_was_written() -> None:
    for info in (
        NamespaceDescription(name="ns", created_at=NOON, modified_at=NOON),
        NamespaceDescription(
            name="ns", created_at=NOON, modified_at=NOON, tier="Premium", messaging_units=2
        ),
    ):
        entry = read_entry(write_entry(ENVELOPE, Kind.NAMESPACE, write_namespace(info)).encode())
        assert read_namespace(entry.description) == info


def test_refusals_are_read_and_what_is_none_is_nothing() -> None:
    assert read_error(b"<Error><Code>404</Code><Detail>gone</Detail></Error>") == "gone"
    assert read_error(b"<html></html>") is None
    assert read_error(b"no XML") is None
