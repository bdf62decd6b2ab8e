"""A namespace: the entities that share one address, and what it allows."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from bendybus.model.access import AccessRule
from bendybus.model.access_rules import check_access_rules
from bendybus.model.entity import Queue, Topic, name_key
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.hosts import names_nothing
from bendybus.model.limits import check_short_name
from bendybus.model.tier import Tier
from bendybus.model.token_issuer import TokenIssuer

# The name that Microsoft's emulator gives its only namespace.
DEFAULT_NAMESPACE_NAME: Final = "sbemulatorns"
# What the service allows, so that a name here can be one there: the first part of a host name.
_NEW_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{4,48}[A-Za-z0-9]")
_RESERVED_ENDS: Final = ("-sb", "-mgmt")


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
    tier: Tier = field(default_factory=Tier)

    def __post_init__(self) -> None:
        check_short_name(self.name)
        check_access_rules(self.access_rules)
        entities = self.entities
        _check_distinct(entity.name for entity in entities)
        partitioned = sum(entity.properties.enable_partitioning for entity in entities)
        self.tier.check_quota(len(entities), partitioned)

    @property
    def entities(self) -> tuple[Queue | Topic, ...]:
        """Every queue and topic."""
        return (*self.queues, *self.topics)


def check_new_namespace_name(name: str) -> None:
    """Refuse a name that a namespace cannot be created with."""
    if not _NEW_NAME.fullmatch(name):
        raise ArgumentInvalid(
            f"{name[:60]!r} is no name for a namespace: use 6 to 50 letters, digits and hyphens,"
            " a letter first and no hyphen last",
            argument="name",
        )
    if name.lower().endswith(_RESERVED_ENDS):
        raise ArgumentInvalid(
            f"{name!r} is no name for a namespace: it must not end with -sb or -mgmt",
            argument="name",
        )
    if names_nothing(name):
        raise ArgumentInvalid(
            f"clients that connect to {name!r} are in the default namespace; choose another name",
            argument="name",
        )


def _check_distinct(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name_key(name) in seen:
            raise ArgumentInvalid(f"two entities are named {name!r}", argument="name")
        seen.add(name_key(name))
