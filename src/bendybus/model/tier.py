"""The tiers of a namespace: what its entities may be, and how many fragments they have (R1.4)."""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Final, TypeVar

from bendybus.model.entity import Queue, QueueProperties, Topic, TopicProperties
from bendybus.model.errors import (
    ArgumentInvalid,
    ArgumentOutOfRange,
    InvalidOperation,
    QuotaExceeded,
)
from bendybus.model.limits import check_number

ENTITIES_MAX: Final = 10_000
PARTITIONED_ENTITIES_MAX: Final = 100
FRAGMENTS_PREMIUM: Final = 2
NAMESPACE_FRAGMENTS: Final = (1, 2, 4)

SIZE_MEGABYTES_STANDARD: Final = 5 * 1024
SIZES_PREMIUM: Final = tuple(gigabytes * 1024 for gigabytes in (1, 2, 3, 4, 5, 10, 20, 40, 80))
MESSAGE_KILOBYTES_STANDARD: Final = 256
MESSAGE_KILOBYTES_PREMIUM: Final = 1024
TIME_TO_LIVE_BASIC: Final = timedelta(days=14)

Properties = TypeVar("Properties", bound=QueueProperties | TopicProperties)


class TierName(Enum):
    """What a namespace was bought as."""

    BASIC = "Basic"
    STANDARD = "Standard"
    PREMIUM = "Premium"


class PremiumPartitioning(Enum):
    """The generations of the Premium tier, by who decides whether an entity is partitioned."""

    # Every entity has two fragments.
    ALWAYS = "always"
    # None is; those that were made before keep theirs.
    NEVER = "never"
    # Every entity has as many fragments as the namespace was made with.
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True)
class Tier:
    """The tier of a namespace. What is not of its name is meant for Premium alone."""

    name: TierName = TierName.STANDARD
    premium_partitioning: PremiumPartitioning = PremiumPartitioning.NEVER
    namespace_fragments: int = 1

    def __post_init__(self) -> None:
        if self.namespace_fragments not in NAMESPACE_FRAGMENTS:
            raise ArgumentOutOfRange(
                f"must be one of {', '.join(map(str, NAMESPACE_FRAGMENTS))}, not"
                f" {self.namespace_fragments}",
                argument="namespace_fragments",
            )

    @classmethod
    def chosen(
        cls,
        name: TierName,
        partitioning: PremiumPartitioning | None = None,
        fragments: int | None = None,
    ) -> "Tier":
        """Make a tier of what somebody chose. Raises `ArgumentInvalid` if it does not go together.

        A number of fragments says by itself that the namespace decides how many there are.
        """
        if fragments is not None and partitioning is None:
            partitioning = PremiumPartitioning.NAMESPACE
        if partitioning is not None and name is not TierName.PREMIUM:
            raise ArgumentInvalid(
                f"how entities are partitioned is their own choice in the {name.value} tier;"
                " only a namespace of the Premium tier decides it",
                argument="premium_partitioning",
            )
        if fragments is not None and partitioning is not PremiumPartitioning.NAMESPACE:
            raise ArgumentInvalid(
                "a number of fragments is for the partitioning 'namespace' only",
                argument="namespace_fragments",
            )
        return cls(name, partitioning or PremiumPartitioning.NEVER, fragments or 1)

    def changed_to(self, tier: "Tier") -> "Tier":
        """Return the tier that a namespace has after a change. Raises `InvalidOperation`.

        How many fragments a namespace gives all its entities is chosen when it is made (R1.4).
        """
        ways = (self.premium_partitioning, tier.premium_partitioning)
        if self != tier and PremiumPartitioning.NAMESPACE in ways:
            raise InvalidOperation(
                "Whether all entities of a namespace have the same number of fragments, and how"
                " many, is chosen when it is created; create another namespace."
            )
        return tier

    @property
    def is_premium(self) -> bool:
        """Whether it is the Premium tier, of whatever generation."""
        return self.name is TierName.PREMIUM

    def admitted(self, entity: Queue | Topic) -> Queue | Topic:
        """Return a new entity as the tier makes it. Raises `ArgumentInvalid`, saying what to do."""
        if self.name is TierName.BASIC and isinstance(entity, Topic):
            raise ArgumentInvalid(
                "The Basic tier has no topics; use a queue, or a namespace of the Standard tier."
            )
        properties = self._partitioned(entity.properties)
        self._check_size(properties.max_size_megabytes)
        return _with_properties(entity, self._with_messages(properties))

    def changed(self, before: Queue | Topic, after: Queue | Topic) -> Queue | Topic:
        """Return what an entity is changed to, as the tier makes it. Raises `ArgumentInvalid`.

        What it has stays, also if the tier would not give it any more.
        """
        was = before.properties
        properties = replace(after.properties, fragments=was.fragments)
        if properties.max_size_megabytes != was.max_size_megabytes:
            self._check_size(properties.max_size_megabytes)
        if (
            properties.max_message_size_kilobytes != was.max_message_size_kilobytes
            or properties.default_message_time_to_live != was.default_message_time_to_live
        ):
            properties = self._with_messages(properties)
        return _with_properties(after, properties)

    def declared(self, before: Queue | Topic, after: Queue | Topic) -> Queue | Topic:
        """Return what a configuration says of an entity that is there, as the tier makes it.

        Where the tier decides whether entities are partitioned, what a file says does not count.
        """
        if self.is_premium:
            is_partitioned = before.properties.enable_partitioning
            properties = replace(after.properties, enable_partitioning=is_partitioned)
            after = _with_properties(after, properties)
        return self.changed(before, after)

    def check_quota(self, entities: int, partitioned: int) -> None:
        """Refuse more queues and topics, or more partitioned ones, than there may be (R1.5)."""
        if entities > ENTITIES_MAX:
            raise QuotaExceeded(
                f"A namespace can have at most {ENTITIES_MAX} queues and topics, not {entities}."
            )
        if partitioned > PARTITIONED_ENTITIES_MAX and not self.is_premium:
            raise QuotaExceeded(
                f"A namespace can have at most {PARTITIONED_ENTITIES_MAX} partitioned queues and"
                f" topics, not {partitioned}."
            )

    def _partitioned(self, properties: Properties) -> Properties:
        """Decide how many fragments a new entity has."""
        if not self.is_premium:
            return replace(properties, fragments=None)
        match self.premium_partitioning:
            case PremiumPartitioning.ALWAYS:
                count = FRAGMENTS_PREMIUM
            case PremiumPartitioning.NAMESPACE:
                count = self.namespace_fragments
            case _:
                if properties.enable_partitioning:
                    raise ArgumentInvalid(
                        "Partitioned entities cannot be created in this Premium namespace; create"
                        " it without partitioning.",
                        argument="enable_partitioning",
                    )
                count = 1
        return replace(
            properties, enable_partitioning=count > 1, fragments=count if count > 1 else None
        )

    def _check_size(self, megabytes: int) -> None:
        if not self.is_premium:
            check_number(
                megabytes, 1024, SIZE_MEGABYTES_STANDARD, step=1024, argument="max_size_megabytes"
            )
        elif megabytes not in SIZES_PREMIUM:
            sizes = ", ".join(map(str, SIZES_PREMIUM))
            raise ArgumentOutOfRange(
                f"must be one of {sizes}, not {megabytes}", argument="max_size_megabytes"
            )

    def _with_messages(self, properties: Properties) -> Properties:
        """Hold the size and the life of messages to what the tier allows."""
        kilobytes = properties.max_message_size_kilobytes
        if self.is_premium:
            # What a queue has of which nobody said otherwise.
            if kilobytes == MESSAGE_KILOBYTES_STANDARD:
                kilobytes = MESSAGE_KILOBYTES_PREMIUM
            if kilobytes < MESSAGE_KILOBYTES_PREMIUM:
                raise ArgumentOutOfRange(
                    f"must be at least {MESSAGE_KILOBYTES_PREMIUM} in the Premium tier, not"
                    f" {kilobytes}",
                    argument="max_message_size_kilobytes",
                )
            return replace(properties, max_message_size_kilobytes=kilobytes)
        if kilobytes > MESSAGE_KILOBYTES_STANDARD:
            raise ArgumentOutOfRange(
                f"must be {MESSAGE_KILOBYTES_STANDARD} in the {self.name.value} tier, not"
                f" {kilobytes}; larger messages need the Premium tier",
                argument="max_message_size_kilobytes",
            )
        if self.name is TierName.BASIC:
            return _short_lived(properties)
        return properties


def _with_properties(
    entity: Queue | Topic, properties: QueueProperties | TopicProperties
) -> Queue | Topic:
    if isinstance(entity, Queue):
        assert isinstance(properties, QueueProperties), "they were its own"
        return replace(entity, properties=properties)
    assert isinstance(properties, TopicProperties), "they were its own"
    return replace(entity, properties=properties)


def _short_lived(properties: Properties) -> Properties:
    life = properties.default_message_time_to_live
    if life is None:
        return replace(properties, default_message_time_to_live=TIME_TO_LIVE_BASIC)
    if life > TIME_TO_LIVE_BASIC:
        raise ArgumentOutOfRange(
            f"must be at most {TIME_TO_LIVE_BASIC.days} days in the Basic tier",
            argument="default_message_time_to_live",
        )
    return properties
