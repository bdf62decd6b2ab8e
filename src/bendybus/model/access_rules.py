"""The shared access rules of one level: of a namespace, or of one queue or topic.

A level has few rules, each with a name of its own. What is set by the configuration is marked by a
digest of what it said: a key that was replaced while the broker ran is not brought back by the
same configuration at the next start, and one that the configuration changes is.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from bendybus.model.access import AccessRule, Right
from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange, EntityNotFound, QuotaExceeded
from bendybus.model.ids import Instant

# Of a namespace: it can do everything, and is there from the beginning.
ROOT_RULE_NAME: Final = "RootManageSharedAccessKey"
RULES_MAX: Final = 12
NAME_LENGTH_MAX: Final = 256
KEY_LENGTH_MIN: Final = 16
KEY_LENGTH_MAX: Final = 256

# What stands in a token and a connection string as it is.
_NAME: Final = re.compile(r"[A-Za-z0-9._~!*()\-]+")
_ARGUMENT: Final = "authorization_rules"

MakeKey = Callable[[], str]


class KeyKind(Enum):
    """Which of the two keys of a rule."""

    PRIMARY = "PrimaryKey"
    SECONDARY = "SecondaryKey"


def check_access_rules(rules: Sequence[AccessRule]) -> None:
    """Refuse rules that one level cannot have together."""
    check_rule_count(rules)
    seen: set[str] = set()
    for rule in rules:
        check_access_rule(rule)
        if rule.name in seen:
            raise ArgumentInvalid(
                f"two authorization rules are named {rule.name!r}", argument=_ARGUMENT
            )
        seen.add(rule.name)


def check_rule_count(rules: Sequence[AccessRule]) -> None:
    """Refuse more rules than one level can have."""
    if len(rules) > RULES_MAX:
        raise QuotaExceeded(
            f"A namespace, queue or topic can have at most {RULES_MAX} authorization rules,"
            f" not {len(rules)}."
        )


def check_access_rule(rule: AccessRule) -> None:
    """Refuse a rule that cannot be. The text never holds a key."""
    if not 0 < len(rule.name) <= NAME_LENGTH_MAX or not _NAME.fullmatch(rule.name):
        raise ArgumentInvalid(
            f"{rule.name[:NAME_LENGTH_MAX]!r} is not a name of an authorization rule: use at most"
            f" {NAME_LENGTH_MAX} letters, digits, '.', '-' and '_'",
            argument=_ARGUMENT,
        )
    if not rule.rights:
        raise ArgumentInvalid(
            f"the authorization rule {rule.name!r} gives no right; give it Send, Listen, or"
            " all of Manage, Send and Listen",
            argument=_ARGUMENT,
        )
    if Right.MANAGE in rule.rights and rule.rights != frozenset(Right):
        raise ArgumentInvalid(
            f"the authorization rule {rule.name!r} gives Manage, which must be given together"
            " with Send and Listen",
            argument=_ARGUMENT,
        )
    for kind, key in zip(KeyKind, (rule.primary_key, rule.secondary_key), strict=True):
        if key is not None:
            check_key(key, f"the {kind.value} of the authorization rule {rule.name!r}")


def check_key(key: str, what: str) -> None:
    """Refuse a key that is easy to guess or that breaks connection strings; never shows it."""
    if not KEY_LENGTH_MIN <= len(key) <= KEY_LENGTH_MAX:
        raise ArgumentOutOfRange(
            f"{what} must have between {KEY_LENGTH_MIN} and {KEY_LENGTH_MAX} characters",
            argument=_ARGUMENT,
        )
    if ";" in key or not key.isprintable() or any(character.isspace() for character in key):
        raise ArgumentInvalid(
            f"{what} must not contain ';', spaces or control characters: connection strings end"
            " there",
            argument=_ARGUMENT,
        )


def rule_named(rules: Iterable[AccessRule], name: str) -> AccessRule:
    """Return the rule of that name; names of rules are compared with their case."""
    for rule in rules:
        if rule.name == name:
            return rule
    raise EntityNotFound(f"There is no authorization rule '{name[:NAME_LENGTH_MAX]}'.")


def completed(
    rules: Iterable[AccessRule],
    before: Iterable[AccessRule],
    *,
    make_key: MakeKey,
    now: Instant,
) -> tuple[AccessRule, ...]:
    """Return rules as they are to be kept: with keys where none were given, and their times.

    A rule that is there already keeps the keys that its new form does not give.
    """
    known = {rule.name: rule for rule in before}
    return tuple([_completed(rule, known.get(rule.name), make_key, now) for rule in rules])


def with_renewed_key(rule: AccessRule, kind: KeyKind, key: str, now: Instant) -> AccessRule:
    """Return the rule with one key replaced; tokens of the other go on."""
    if kind is KeyKind.PRIMARY:
        return replace(rule, primary_key=key, modified_at=now)
    return replace(rule, secondary_key=key, modified_at=now)


def declared(rules: Iterable[AccessRule]) -> tuple[AccessRule, ...]:
    """Mark rules as what a configuration says."""
    return tuple([replace(rule, declared=_digest(rule)) for rule in rules])


def merged_with_declared(
    before: Iterable[AccessRule], said: Iterable[AccessRule]
) -> tuple[AccessRule, ...]:
    """Return the rules of a level after a configuration had its say.

    What was made in another way stays. What the configuration says for the first time, or
    differently from the last time, counts; what it says no longer goes.
    """
    wanted = {rule.name: rule for rule in said}
    merged: list[AccessRule] = []
    for rule in before:
        new = wanted.pop(rule.name, None)
        if new is not None:
            merged.append(rule if new.declared == rule.declared else new)
        elif rule.declared is None:
            merged.append(rule)
    return (*merged, *wanted.values())


def _completed(
    rule: AccessRule, before: AccessRule | None, make_key: MakeKey, now: Instant
) -> AccessRule:
    if before is None:
        before = replace(rule, primary_key=None, secondary_key=None, created_at=now)
    whole = replace(
        rule,
        primary_key=rule.primary_key or _kept(before.primary_key) or make_key(),
        secondary_key=rule.secondary_key or _kept(before.secondary_key) or make_key(),
        declared=rule.declared or before.declared,
    )
    modified_at = before.modified_at if whole == before else now
    return replace(whole, created_at=before.created_at, modified_at=modified_at)


def _kept(key: str | None) -> str | None:
    """Return a key that a rule had, unless it is one that everyone knows."""
    return None if key is None or len(key) < KEY_LENGTH_MIN else key


def _digest(rule: AccessRule) -> str:
    rights = sorted(right.value for right in rule.rights)
    parts = [rule.name, *rights, repr(rule.primary_key), repr(rule.secondary_key)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
