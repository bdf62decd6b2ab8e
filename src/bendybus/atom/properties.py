"""Which element of a description speaks for which property of an entity.

The service takes the elements of a request in its own order only, and passes over the others
without a word; here any order is read. What is written has the order of the service: one for
requests, another for answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from bendybus.atom.authorization_rules import read_access_rules, write_access_rules
from bendybus.atom.values import (
    read_duration,
    read_duration_or_forever,
    read_entity_path,
    read_flag,
    read_number,
    read_status,
    read_text_or_none,
    write_flag,
)
from bendybus.atom.xml_reading import Element
from bendybus.atom.xml_writing import escape
from bendybus.model.durations import format_duration
from bendybus.model.entity import EntityStatus
from bendybus.model.errors import ArgumentInvalid


class Kind(Enum):
    """What an entry describes, by the name of its description's element."""

    QUEUE = "QueueDescription"
    TOPIC = "TopicDescription"
    SUBSCRIPTION = "SubscriptionDescription"
    RULE = "RuleDescription"
    NAMESPACE = "NamespaceInfo"


@dataclass(frozen=True, slots=True)
class Part:
    """The property that an element holds, and how its content is read and written."""

    field: str
    read: Callable[[Element], Any]
    write: Callable[[Any], str]


def _flag(field: str) -> Part:
    return Part(field, read_flag, write_flag)


def _number(field: str) -> Part:
    return Part(field, read_number, str)


def _duration(field: str) -> Part:
    return Part(field, read_duration, format_duration)


def _duration_or_forever(field: str) -> Part:
    return Part(field, read_duration_or_forever, format_duration)


def _entity_path(field: str) -> Part:
    return Part(field, read_entity_path, escape)


def _status(value: EntityStatus) -> str:
    return value.value


PARTS: Final[Mapping[str, Part]] = {
    "LockDuration": _duration("lock_duration"),
    "MaxSizeInMegabytes": _number("max_size_megabytes"),
    "RequiresDuplicateDetection": _flag("requires_duplicate_detection"),
    "RequiresSession": _flag("requires_session"),
    "DefaultMessageTimeToLive": _duration_or_forever("default_message_time_to_live"),
    "DeadLetteringOnMessageExpiration": _flag("dead_lettering_on_message_expiration"),
    "DeadLetteringOnFilterEvaluationExceptions": _flag(
        "dead_lettering_on_filter_evaluation_exceptions"
    ),
    "DuplicateDetectionHistoryTimeWindow": _duration("duplicate_detection_history_time_window"),
    "MaxDeliveryCount": _number("max_delivery_count"),
    "EnableBatchedOperations": _flag("enable_batched_operations"),
    "AuthorizationRules": Part("authorization_rules", read_access_rules, write_access_rules),
    "Status": Part("status", read_status, _status),
    "AutoDeleteOnIdle": _duration_or_forever("auto_delete_on_idle"),
    "EnablePartitioning": _flag("enable_partitioning"),
    "EnableExpress": _flag("enable_express"),
    "ForwardTo": _entity_path("forward_to"),
    "UserMetadata": Part("user_metadata", read_text_or_none, escape),
    "ForwardDeadLetteredMessagesTo": _entity_path("forward_dead_lettered_messages_to"),
    "MaxMessageSizeInKilobytes": _number("max_message_size_kilobytes"),
}

# What can be set, in the order in which the service wants to read it.
REQUESTS: Final[Mapping[Kind, tuple[str, ...]]] = {
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
        "AuthorizationRules",
        "Status",
        "ForwardTo",
        "UserMetadata",
        "AutoDeleteOnIdle",
        "EnablePartitioning",
        "ForwardDeadLetteredMessagesTo",
        "EnableExpress",
        "MaxMessageSizeInKilobytes",
    ),
    Kind.TOPIC: (
        "DefaultMessageTimeToLive",
        "MaxSizeInMegabytes",
        "RequiresDuplicateDetection",
        "DuplicateDetectionHistoryTimeWindow",
        "EnableBatchedOperations",
        "AuthorizationRules",
        "Status",
        "UserMetadata",
        "AutoDeleteOnIdle",
        "EnablePartitioning",
        "EnableExpress",
        "MaxMessageSizeInKilobytes",
    ),
    Kind.SUBSCRIPTION: (
        "LockDuration",
        "RequiresSession",
        "DefaultMessageTimeToLive",
        "DeadLetteringOnMessageExpiration",
        "DeadLetteringOnFilterEvaluationExceptions",
        "DefaultRuleDescription",
        "MaxDeliveryCount",
        "EnableBatchedOperations",
        "Status",
        "ForwardTo",
        "UserMetadata",
        "ForwardDeadLetteredMessagesTo",
        "AutoDeleteOnIdle",
    ),
}

# Without these a description says only a part of what an entity is. What is optional and left out
# of a whole one is to go; a part leaves it alone.
_WHOLE: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.QUEUE: frozenset({"LockDuration", "MaxDeliveryCount", "EnableBatchedOperations"}),
    Kind.TOPIC: frozenset({"MaxSizeInMegabytes", "EnableBatchedOperations"}),
    Kind.SUBSCRIPTION: frozenset({"LockDuration", "MaxDeliveryCount", "EnableBatchedOperations"}),
}
_OPTIONAL: Final = (
    "DefaultMessageTimeToLive",
    "AutoDeleteOnIdle",
    "ForwardTo",
    "UserMetadata",
    "ForwardDeadLetteredMessagesTo",
)
_ELEMENTS: Final = {part.field: name for name, part in PARTS.items()}


def read_properties(description: Element, kind: Kind) -> dict[str, Any]:
    """Return what a description says, by the names of the model, and only that.

    Elements that nobody can set, such as counts, are passed over: clients send back all that they
    got. Raises `ArgumentInvalid`.
    """
    known = frozenset(REQUESTS[kind])
    found: dict[str, Any] = {}
    for element in description.children:
        part = PARTS.get(element.name) if element.name in known else None
        if part is None or element.is_nil:
            continue
        if part.field in found:
            raise ArgumentInvalid(f"{element.name} is given twice.", argument=part.field)
        try:
            found[part.field] = part.read(element)
        except ArgumentInvalid as error:
            raise type(error)(f"{element.name}: {error.message}", argument=part.field) from None
    return found


def left_out(description: Element, kind: Kind) -> dict[str, None]:
    """Return the optional properties that a whole description leaves out: they are to go.

    Clients know no other way to say that an entity forwards no longer.
    """
    given = {element.name for element in description.children}
    if not given >= _WHOLE[kind]:
        return {}
    optional = [name for name in _OPTIONAL if name in REQUESTS[kind] and name not in given]
    return {PARTS[name].field: None for name in optional}


def write_properties(kind: Kind, properties: Mapping[str, Any], default_rule: str = "") -> str:
    """Write the content of a request: the properties that are given and have a value."""
    return "".join(
        default_rule if name == "DefaultRuleDescription" else _written(name, properties)
        for name in REQUESTS[kind]
    )


def element_of(field: str | None) -> str | None:
    """Return the element that holds a property, for telling a client what is wrong with it."""
    return None if field is None else _ELEMENTS.get(field)


def _written(name: str, properties: Mapping[str, Any]) -> str:
    part = PARTS[name]
    if part.field not in properties:
        return ""
    value = properties[part.field]
    # A duration without end has a text; a text that is not there has no element.
    if value is None and part.write is not format_duration:
        return ""
    return f"<{name}>{part.write(value)}</{name}>"
