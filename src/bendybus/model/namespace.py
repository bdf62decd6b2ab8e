"""A namespace: the entities that share one address, and the limits on how many there may be."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bendybus.model.access import AccessRule
from bendybus.model.access_rules import check_access_rules
from bendybus.model.entity import Queue, Topic, name_key
from bendybus.model.errors import ArgumentInvalid, QuotaExceeded
from bendybus.model.limits import check_short_name
from bendybus.model.token_issuer import TokenIssuer

ENTITIES_MAX: Final = 10_000
PARTITIONED_ENTITIES_MAX: Final = 100
# The name that Microsoft's emulator gives its only namespace.
DEFAULT_NAMESPACE_NAME: Final = "sbemulatorns"


@dataclass(frozen=True, slots=True)
class Namespace:
    """Named queues and topics. No two share a name, whatever their case."""

    name: str = DEFAULT_NAMESPACE_NAME
    queues: tuple[Queue, ...] = ()
    topics: tuple[Topic, ...] = ()
    # Whose keys open every entity, beside the key that the broker is started with.
    access_rules: tuple[AccessRule, ...] = ()
    # Whose bearer tokens open it, if anybody's do.
    token_issuer: TokenIssuer | None = None

    def __post_init__(self) -> None:
        check_short_name(self.name)
        check_access_rules(self.access_rules)
        entities = self.entities
        _check_distinct(entity.name for entity in entities)
        partitioned = sum(entity.properties.enable_partitioning for entity in entities)
        check_namespace_quota(len(entities), partitioned)

    @property
    def entities(self) -> tuple[Queue | Topic, ...]:
        """Every queue and topic."""
        return (*self.queues, *self.topics)


def check_namespace_quota(entities: int, partitioned: int) -> None:
    """Refuse more queues and topics, or more partitioned ones, than a namespace may have (R1.5)."""
    if entities > ENTITIES_MAX:
        raise QuotaExceeded(
            f"A namespace can have at most {ENTITIES_MAX} queues and topics, not {entities}."
        )
    if partitioned > PARTITIONED_ENTITIES_MAX:
        raise QuotaExceeded(
            f"A namespace can have at most {PARTITIONED_ENTITIES_MAX} partitioned queues and"
            f" topics, not {partitioned}."
        )


def _check_distinct(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name_key(name) in seen:
            raise ArgumentInvalid(f"two entities are named {name!r}", argument="name")
        seen.add(name_key(name))
