"""The tier of a namespace, as a configuration file says it."""

from enum import Enum
from typing import TypeVar

from bendybus.config_file.section import Section
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.suggestion import suggest
from bendybus.model.tier import PremiumPartitioning, Tier, TierName

Choice = TypeVar("Choice", bound=Enum)


def read_tier(section: Section) -> Tier:
    """Read `Tier`, and what goes with Premium: `PremiumPartitioning`, `NamespaceFragments`."""
    name = _choice(section, "Tier", TierName.STANDARD)
    partitioning = _choice(section, "PremiumPartitioning", PremiumPartitioning.NEVER)
    given, fragments = map(section.get, ("PremiumPartitioning", "NamespaceFragments"))
    if given is not None and name is not TierName.PREMIUM:
        raise given.refuse("is for Tier: Premium only")
    if fragments is not None and partitioning is not PremiumPartitioning.NAMESPACE:
        raise fragments.refuse("is for PremiumPartitioning: namespace only")
    if fragments is None:
        return Tier(name, partitioning)
    try:
        return Tier(name, partitioning, fragments.number())
    except ArgumentInvalid as error:
        raise fragments.refuse(str(error)) from None


def _choice(section: Section, key: str, default: Choice) -> Choice:
    given = section.get(key)
    if given is None:
        return default
    for each in type(default):
        if each.value == given.text():
            return each
    known = [str(each.value) for each in type(default)]
    raise given.refuse(f"{given.text()!r} is none; {suggest(given.text(), known)}")
