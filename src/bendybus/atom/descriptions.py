"""Descriptions of queues, topics and subscriptions in answers: what they are and hold."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from bendybus.atom.properties import PARTS, Kind
from bendybus.atom.values import (
    NEVER,
    read_number,
    write_date_time,
    write_entity_url,
    write_flag,
)
from bendybus.atom.xml_reading import Element
from bendybus.atom.xml_writing import COUNTS, escape, text_element
from bendybus.model.entity import Queue, Subscription, Topic
from bendybus.model.time_values import parse_date_time

Entity = Queue | Topic | Subscription

AVAILABLE: Final = "Available"
LIMITED: Final = "Limited"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCounts:
    """How many messages an entity holds, by where they are."""

    active: int = 0
    dead_letter: int = 0
    scheduled: int = 0
    transfer: int = 0
    transfer_dead_letter: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What an entity has come to: its times, and what it holds. None is a time that never was."""

    created_at: datetime | None = None
    updated_at: datetime | None = None
    accessed_at: datetime | None = None
    size_bytes: int = 0
    message_count: int = 0
    counts: MessageCounts = field(default_factory=MessageCounts)
    # Whether all that it holds can be reached.
    is_available: bool = True
    # The last three of a topic.
    subscription_count: int = 0
    sql_filter_count: int = 0
    correlation_filter_count: int = 0


_COUNT_ELEMENTS: Final = {
    "ActiveMessageCount": "active",
    "DeadLetterMessageCount": "dead_letter",
    "ScheduledMessageCount": "scheduled",
    "TransferMessageCount": "transfer",
    "TransferDeadLetterMessageCount": "transfer_dead_letter",
}
# The clients look for the one prefix that is declared here.
_PREFIX: Final = "d2p1"

KINDS: Final[Mapping[type[Entity], Kind]] = {
    Queue: Kind.QUEUE,
    Topic: Kind.TOPIC,
    Subscription: Kind.SUBSCRIPTION,
}

# Everything, in the order in which the service writes it.
_ANSWERS: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.QUEUE: (
        "LockDuration",
        "MaxSizeInMegabytes",
        "RequiresDuplicateDetection",
        "RequiresSession",
        "DefaultMessageTimeToLive",
        "DeadLetteringOnMessageExpiration",
        "DuplicateDetectionHistoryTimeWindow",
        "MaxDeliveryCount",
        "EnableBatchedOperations",
        "SizeInBytes",
        "MessageCount",
        "IsAnonymousAccessible",
        "AuthorizationRules",
        "Status",
        "CreatedAt",
        "UpdatedAt",
        "AccessedAt",
        "SupportOrdering",
        "CountDetails",
        "AutoDeleteOnIdle",
        "EnablePartitioning",
        "EntityAvailabilityStatus",
        "EnableExpress",
        "ForwardTo",
        "UserMetadata",
        "ForwardDeadLetteredMessagesTo",
        "MaxMessageSizeInKilobytes",
    ),
    Kind.TOPIC: (
        "DefaultMessageTimeToLive",
        "MaxSizeInMegabytes",
        "RequiresDuplicateDetection",
        "DuplicateDetectionHistoryTimeWindow",
        "EnableBatchedOperations",
        "SizeInBytes",
        "FilteringMessagesBeforePublishing",
        "IsAnonymousAccessible",
        "AuthorizationRules",
        "Status",
        "UserMetadata",
        "CreatedAt",
        "UpdatedAt",
        "AccessedAt",
        "SupportOrdering",
        "CountDetails",
        "SubscriptionCount",
        "SqlFilterCount",
        "CorrelationFilterCount",
        "AutoDeleteOnIdle",
        "EnablePartitioning",
        "EntityAvailabilityStatus",
        "EnableSubscriptionPartitioning",
        "EnableExpress",
        "MaxMessageSizeInKilobytes",
    ),
    Kind.SUBSCRIPTION: (
        "LockDuration",
        "RequiresSession",
        "DefaultMessageTimeToLive",
        "DeadLetteringOnMessageExpiration",
        "DeadLetteringOnFilterEvaluationExceptions",
        "MessageCount",
        "MaxDeliveryCount",
        "EnableBatchedOperations",
        "Status",
        "ForwardTo",
        "CreatedAt",
        "UpdatedAt",
        "AccessedAt",
        "CountDetails",
        "UserMetadata",
        "ForwardDeadLetteredMessagesTo",
        "AutoDeleteOnIdle",
        "EntityAvailabilityStatus",
        "IsClientAffine",
    ),
}


def _counts(entity: Entity, facts: Facts) -> str:
    """Write the counts; a topic has only what waits for its time."""
    counts = MessageCounts(scheduled=facts.counts.scheduled)
    if not isinstance(entity, Topic):
        counts = facts.counts
    content = "".join(
        f"<{_PREFIX}:{name}>{getattr(counts, each)}</{_PREFIX}:{name}>"
        for name, each in _COUNT_ELEMENTS.items()
    )
    return f'<CountDetails xmlns:{_PREFIX}="{COUNTS}">{content}</CountDetails>'


def _is_partitioned(entity: Entity) -> bool:
    return not isinstance(entity, Subscription) and entity.properties.enable_partitioning


# The elements that no property holds. Those that never change are for clients that look for them.
_FACTS: Final[Mapping[str, Callable[[Entity, Facts], str]]] = {
    "SizeInBytes": lambda _, facts: str(facts.size_bytes),
    "MessageCount": lambda _, facts: str(facts.message_count),
    "IsAnonymousAccessible": lambda _, __: "false",
    "FilteringMessagesBeforePublishing": lambda _, __: "false",
    "EnableSubscriptionPartitioning": lambda _, __: "false",
    "IsClientAffine": lambda _, __: "false",
    "CreatedAt": lambda _, facts: write_date_time(facts.created_at),
    "UpdatedAt": lambda _, facts: write_date_time(facts.updated_at),
    "AccessedAt": lambda _, facts: write_date_time(facts.accessed_at),
    "SupportOrdering": lambda entity, _: write_flag(not _is_partitioned(entity)),
    "EntityAvailabilityStatus": lambda _, facts: AVAILABLE if facts.is_available else LIMITED,
    "SubscriptionCount": lambda _, facts: str(facts.subscription_count),
    "SqlFilterCount": lambda _, facts: str(facts.sql_filter_count),
    "CorrelationFilterCount": lambda _, facts: str(facts.correlation_filter_count),
}


def write_description(
    entity: Entity, facts: Facts, *, host: str, omitted: frozenset[str] = frozenset()
) -> str:
    """Write the content of a description, without the elements that the client does not know."""
    properties = entity.properties
    written: list[str] = []
    for name in _ANSWERS[KINDS[type(entity)]]:
        if name in omitted:
            continue
        fact = _FACTS.get(name)
        if fact is not None:
            written.append(f"<{name}>{fact(entity, facts)}</{name}>")
        elif name == "CountDetails":
            written.append(_counts(entity, facts))
        else:
            written.append(_property(name, properties, host))
    return "".join(written)


def _property(name: str, properties: Any, host: str) -> str:  # noqa: ANN401 - of any kind
    part = PARTS[name]
    value = getattr(properties, part.field)
    match name:
        case "MaxSizeInMegabytes":
            return f"<{name}>{properties.effective_max_size_megabytes}</{name}>"
        case "ForwardTo" | "ForwardDeadLetteredMessagesTo":
            return "" if value is None else text_element(name, write_entity_url(host, value))
        case "UserMetadata":
            return "" if value is None else f"<{name}>{escape(value)}</{name}>"
        case _:
            return f"<{name}>{part.write(value)}</{name}>"


def read_facts(description: Element) -> Facts:
    """Read what an answer says beyond the properties; what is not there is nothing."""
    counts = description.find("CountDetails") or Element("CountDetails")
    found = {
        each: read_number(child)
        for name, each in _COUNT_ELEMENTS.items()
        if (child := counts.find(name)) is not None
    }
    availability = description.text_of("EntityAvailabilityStatus")
    return Facts(
        created_at=_time(description, "CreatedAt"),
        updated_at=_time(description, "UpdatedAt"),
        accessed_at=_time(description, "AccessedAt"),
        size_bytes=_number(description, "SizeInBytes"),
        message_count=_number(description, "MessageCount"),
        counts=MessageCounts(**found),
        is_available=availability is None or availability.strip() == AVAILABLE,
        subscription_count=_number(description, "SubscriptionCount"),
        sql_filter_count=_number(description, "SqlFilterCount"),
        correlation_filter_count=_number(description, "CorrelationFilterCount"),
    )


def _time(description: Element, name: str) -> datetime | None:
    text = (description.text_of(name) or "").strip()
    if not text or text.startswith(NEVER[:4]):
        return None
    return parse_date_time(text)


def _number(description: Element, name: str) -> int:
    found = description.find(name)
    return 0 if found is None else read_number(found)
