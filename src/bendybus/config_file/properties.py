"""The keys that entities may have in the file, and the model's fields they fill.

The bounds of each value are the model's; here is only which key speaks for which field, so that
a refusal of the model can be pointed at the key.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from bendybus.config_file.access import read_access_rules
from bendybus.config_file.section import Section, Value
from bendybus.model.entity import EntityStatus
from bendybus.model.errors import ArgumentInvalid, BusError
from bendybus.model.suggestion import suggest

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Key:
    """Which field a key fills, and how its value is read."""

    field: str
    read: Callable[[Value], object]


Keys = Mapping[str, Key]


def read_status(value: Value) -> EntityStatus:
    """Read the status of an entity."""
    text = value.text()
    try:
        return EntityStatus(text)
    except ValueError:
        words = [status.value for status in EntityStatus]
        raise value.refuse(f"{text!r} is not a status; {suggest(text, words)}") from None


def read_message_properties(value: Value) -> Mapping[str, object]:
    """Read the properties of a message that a filter compares: any names, scalar values."""
    section = value.section(known=None)
    return {name: each.property_value() for name, each in section.values.items()}


# The properties of every entity. The last three are ours, beyond the emulator's.
_COMMON: Final[Keys] = {
    "DefaultMessageTimeToLive": Key("default_message_time_to_live", Value.duration_or_forever),
    "AutoDeleteOnIdle": Key("auto_delete_on_idle", Value.duration_or_forever),
    "Status": Key("status", read_status),
    "UserMetadata": Key("user_metadata", Value.text_or_none),
}

_KEPT_MESSAGES: Final[Keys] = {
    "DuplicateDetectionHistoryTimeWindow": Key(
        "duplicate_detection_history_time_window", Value.duration
    ),
    "RequiresDuplicateDetection": Key("requires_duplicate_detection", Value.flag),
    "EnablePartitioning": Key("enable_partitioning", Value.flag),
    "MaxSizeInMegabytes": Key("max_size_megabytes", Value.number),
    "MaxMessageSizeInKilobytes": Key("max_message_size_kilobytes", Value.number),
    "AuthorizationRules": Key("authorization_rules", read_access_rules),
}

_DELIVERY: Final[Keys] = {
    "DeadLetteringOnMessageExpiration": Key("dead_lettering_on_message_expiration", Value.flag),
    "ForwardDeadLetteredMessagesTo": Key("forward_dead_lettered_messages_to", Value.text_or_none),
    "ForwardTo": Key("forward_to", Value.text_or_none),
    "LockDuration": Key("lock_duration", Value.duration),
    "MaxDeliveryCount": Key("max_delivery_count", Value.number),
    "RequiresSession": Key("requires_session", Value.flag),
}

QUEUE_KEYS: Final[Keys] = {**_COMMON, **_KEPT_MESSAGES, **_DELIVERY}
TOPIC_KEYS: Final[Keys] = {**_COMMON, **_KEPT_MESSAGES}
SUBSCRIPTION_KEYS: Final[Keys] = {
    **_COMMON,
    **_DELIVERY,
    "DeadLetteringOnFilterEvaluationExceptions": Key(
        "dead_lettering_on_filter_evaluation_exceptions", Value.flag
    ),
}
CORRELATION_KEYS: Final[Keys] = {
    "ContentType": Key("content_type", Value.text_or_none),
    "CorrelationId": Key("correlation_id", Value.text_or_none),
    "Label": Key("label", Value.text_or_none),
    "MessageId": Key("message_id", Value.text_or_none),
    "ReplyTo": Key("reply_to", Value.text_or_none),
    "ReplyToSessionId": Key("reply_to_session_id", Value.text_or_none),
    "SessionId": Key("session_id", Value.text_or_none),
    "To": Key("to", Value.text_or_none),
    "Properties": Key("properties", read_message_properties),
}


def make(whole: Value, keys: Keys, build: Callable[..., Made]) -> Made:
    """Read a mapping by its table of keys and build the model's value from it."""
    section = whole.section(keys)
    fields: dict[str, Any] = {
        key.field: key.read(section.values[name])
        for name, key in keys.items()
        if name in section.values
    }
    return checked(section, keys, lambda: build(**fields))


def checked(section: Section, keys: Keys, build: Callable[[], Made]) -> Made:
    """Build a value of the model; point its refusal to the key that gave the offending field."""
    try:
        return build()
    except BusError as error:
        argument = error.argument if isinstance(error, ArgumentInvalid) else None
        raise _value_of(argument, section, keys).refuse(error.message) from None


def _value_of(field: str | None, section: Section, keys: Keys) -> Value:
    for name, key in keys.items():
        if key.field == field and name in section.values:
            return section.values[name]
    return section.whole
