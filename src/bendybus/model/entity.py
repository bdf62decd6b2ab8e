"""Queues, topics and subscriptions: what they are called and how they behave.

A value of these classes is valid: whoever holds one need not check again. Names keep the case
they were given in but are compared without it, as the service does; see `name_key`.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Final

from bendybus.model import limits
from bendybus.model.access import AccessRule
from bendybus.model.access_rules import check_access_rules
from bendybus.model.errors import ArgumentInvalid, InvalidOperation
from bendybus.model.rule import Rule

# The number of fragments of a partitioned entity in the Standard and Basic tiers.
FRAGMENTS_STANDARD: Final = 16


class EntityStatus(Enum):
    """Which directions are open."""

    ACTIVE = "Active"
    DISABLED = "Disabled"
    SEND_DISABLED = "SendDisabled"
    RECEIVE_DISABLED = "ReceiveDisabled"

    @property
    def allows_send(self) -> bool:
        """Whether messages may come in."""
        return self in (EntityStatus.ACTIVE, EntityStatus.RECEIVE_DISABLED)

    @property
    def allows_receive(self) -> bool:
        """Whether messages may go out."""
        return self in (EntityStatus.ACTIVE, EntityStatus.SEND_DISABLED)


def name_key(name: str) -> str:
    """Return the form of a name under which entities are looked up and compared."""
    return name.lower()


def subscription_path(topic: str, name: str) -> str:
    """Return the name by which clients address a subscription of a topic."""
    return f"{topic}/Subscriptions/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProperties:
    """How a queue behaves. A duration of None means without end."""

    lock_duration: timedelta = timedelta(minutes=1)
    max_size_megabytes: int = 1024
    default_message_time_to_live: timedelta | None = None
    dead_lettering_on_message_expiration: bool = False
    max_delivery_count: int = 10
    enable_partitioning: bool = False
    requires_session: bool = False
    requires_duplicate_detection: bool = False
    duplicate_detection_history_time_window: timedelta = timedelta(minutes=10)
    forward_to: str | None = None
    forward_dead_lettered_messages_to: str | None = None
    status: EntityStatus = EntityStatus.ACTIVE
    user_metadata: str | None = None
    max_message_size_kilobytes: int = 256
    auto_delete_on_idle: timedelta | None = None
    authorization_rules: tuple[AccessRule, ...] = ()
    # Kept for clients that set and compare them. Batches are always made here, and nothing is
    # acknowledged from memory, so neither changes what happens.
    enable_batched_operations: bool = True
    enable_express: bool = False
    # How many a partitioned one has, where the tier of its namespace says another number.
    fragments: int | None = None

    def __post_init__(self) -> None:
        _check_kept_messages(self)
        _check_delivery(self)

    @property
    def fragment_count(self) -> int:
        """How many fragments the queue has; a conventional one has one."""
        return (self.fragments or FRAGMENTS_STANDARD) if self.enable_partitioning else 1

    @property
    def effective_max_size_megabytes(self) -> int:
        """How much the queue holds in all: the size asked for, in each of its fragments."""
        return self.max_size_megabytes * self.fragment_count


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProperties:
    """How a topic behaves. A duration of None means without end."""

    max_size_megabytes: int = 1024
    default_message_time_to_live: timedelta | None = None
    enable_partitioning: bool = False
    requires_duplicate_detection: bool = False
    duplicate_detection_history_time_window: timedelta = timedelta(minutes=10)
    status: EntityStatus = EntityStatus.ACTIVE
    user_metadata: str | None = None
    max_message_size_kilobytes: int = 256
    auto_delete_on_idle: timedelta | None = None
    authorization_rules: tuple[AccessRule, ...] = ()
    # Kept for clients that set and compare them. Batches are always made here, and nothing is
    # acknowledged from memory, so neither changes what happens.
    enable_batched_operations: bool = True
    enable_express: bool = False
    # How many a partitioned one has, where the tier of its namespace says another number.
    fragments: int | None = None

    def __post_init__(self) -> None:
        _check_kept_messages(self)

    @property
    def fragment_count(self) -> int:
        """How many fragments the topic has; a conventional one has one."""
        return (self.fragments or FRAGMENTS_STANDARD) if self.enable_partitioning else 1

    @property
    def effective_max_size_megabytes(self) -> int:
        """How much the topic holds in all: the size asked for, in each of its fragments."""
        return self.max_size_megabytes * self.fragment_count


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionProperties:
    """How a subscription behaves. A duration of None means without end."""

    lock_duration: timedelta = timedelta(minutes=1)
    default_message_time_to_live: timedelta | None = None
    dead_lettering_on_message_expiration: bool = False
    dead_lettering_on_filter_evaluation_exceptions: bool = True
    max_delivery_count: int = 10
    requires_session: bool = False
    forward_to: str | None = None
    forward_dead_lettered_messages_to: str | None = None
    status: EntityStatus = EntityStatus.ACTIVE
    user_metadata: str | None = None
    auto_delete_on_idle: timedelta | None = None
    enable_batched_operations: bool = True

    def __post_init__(self) -> None:
        _check_common(self)
        _check_delivery(self)


@dataclass(frozen=True, slots=True)
class Queue:
    """A named queue."""

    name: str
    properties: QueueProperties = field(default_factory=QueueProperties)

    def __post_init__(self) -> None:
        limits.check_entity_name(self.name)
        for argument in ("forward_to", "forward_dead_lettered_messages_to"):
            target: str | None = getattr(self.properties, argument)
            if target is not None and name_key(target) == name_key(self.name):
                raise ArgumentInvalid("a queue cannot forward to itself", argument=argument)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A named subscription, with the rules that fill it. Its topic is the one that holds it."""

    name: str
    properties: SubscriptionProperties = field(default_factory=SubscriptionProperties)
    rules: tuple[Rule, ...] = (Rule(),)

    def __post_init__(self) -> None:
        limits.check_short_name(self.name)
        _check_distinct("rules", [rule.name for rule in self.rules])


@dataclass(frozen=True, slots=True)
class Topic:
    """A named topic and its subscriptions."""

    name: str
    properties: TopicProperties = field(default_factory=TopicProperties)
    subscriptions: tuple[Subscription, ...] = ()

    def __post_init__(self) -> None:
        limits.check_entity_name(self.name)
        _check_distinct("subscriptions", [each.name for each in self.subscriptions])


# What is chosen at creation, and how an entity is called that has it and one that has not.
_FIXED: Final = {
    "enable_partitioning": ("partitioned", "conventional"),
    "requires_session": ("with sessions", "without sessions"),
    "requires_duplicate_detection": (
        "with duplicate detection",
        "without duplicate detection",
    ),
    "enable_express": ("express", "not express"),
}


def check_fixed_unchanged(
    before: QueueProperties | TopicProperties | SubscriptionProperties,
    after: QueueProperties | TopicProperties | SubscriptionProperties,
) -> None:
    """Refuse an update of what is chosen at creation.

    The fragment is part of every sequence number already given out, so partitioning can never
    change. Messages that came without sessions could not be received with them, and the ids of
    those that are there are not known.
    """
    for name, (with_it, without) in _FIXED.items():
        if getattr(before, name, False) != getattr(after, name, False):
            was = with_it if getattr(before, name, False) else without
            kind = type(before).__name__.removesuffix("Properties").lower()
            raise InvalidOperation(
                f"The {kind} was created {was}; that is chosen at creation and cannot be changed."
                f" Create another {kind}, move the messages, delete this one."
            )


def _check_common(
    properties: QueueProperties | TopicProperties | SubscriptionProperties,
) -> None:
    if properties.default_message_time_to_live is not None:
        limits.check_duration(
            properties.default_message_time_to_live,
            limits.TIME_TO_LIVE_MIN,
            None,
            argument="default_message_time_to_live",
        )
    if properties.auto_delete_on_idle is not None:
        limits.check_duration(
            properties.auto_delete_on_idle,
            limits.AUTO_DELETE_ON_IDLE_MIN,
            None,
            argument="auto_delete_on_idle",
        )
    if properties.user_metadata is not None:
        limits.check_text_length(
            properties.user_metadata, limits.USER_METADATA_LENGTH_MAX, argument="user_metadata"
        )


def _check_kept_messages(properties: QueueProperties | TopicProperties) -> None:
    _check_common(properties)
    check_access_rules(properties.authorization_rules)
    limits.check_number(
        properties.max_size_megabytes,
        limits.SIZE_MEGABYTES_STEP,
        limits.SIZE_MEGABYTES_MAX,
        step=limits.SIZE_MEGABYTES_STEP,
        argument="max_size_megabytes",
    )
    limits.check_duration(
        properties.duplicate_detection_history_time_window,
        limits.DUPLICATE_WINDOW_MIN,
        limits.DUPLICATE_WINDOW_MAX,
        argument="duplicate_detection_history_time_window",
    )
    if properties.enable_express and properties.requires_duplicate_detection:
        raise ArgumentInvalid(
            "an express entity cannot have duplicate detection", argument="enable_express"
        )
    limits.check_number(
        properties.max_message_size_kilobytes,
        limits.MESSAGE_KILOBYTES_MIN,
        limits.MESSAGE_KILOBYTES_MAX,
        argument="max_message_size_kilobytes",
    )


def _check_delivery(properties: QueueProperties | SubscriptionProperties) -> None:
    limits.check_duration(
        properties.lock_duration,
        limits.LOCK_DURATION_MIN,
        limits.LOCK_DURATION_MAX,
        argument="lock_duration",
    )
    limits.check_number(
        properties.max_delivery_count, 1, limits.DELIVERY_COUNT_MAX, argument="max_delivery_count"
    )
    for argument in ("forward_to", "forward_dead_lettered_messages_to"):
        target: str | None = getattr(properties, argument)
        if target is not None:
            limits.check_entity_name(target, argument=argument)
    if properties.requires_session and properties.forward_to is not None:
        raise ArgumentInvalid(
            "an entity that requires sessions cannot forward", argument="forward_to"
        )


def _check_distinct(kind: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name_key(name) in seen:
            raise ArgumentInvalid(f"two {kind} are named {name!r}", argument="name")
        seen.add(name_key(name))
