"""Access rules of the namespace, or of one queue or topic, while the broker runs (R7.1).

`entity` names a queue or topic everywhere here; None is the namespace. A change is in every store
before it counts, and then counts for every token that is checked: those that are in use stay so
until they end.
"""

from collections.abc import Callable
from dataclasses import replace

from bendybus.broker.access_keys import new_key, with_access
from bendybus.broker.catalog import Catalog
from bendybus.model.access import AccessRule
from bendybus.model.access_rules import (
    KeyKind,
    check_access_rule,
    check_key,
    check_rule_count,
    completed,
    rule_named,
    with_renewed_key,
)
from bendybus.model.entity import Queue, Topic
from bendybus.model.errors import EntityNotFound, InvalidOperation
from bendybus.model.ids import Instant

Rules = tuple[AccessRule, ...]


def access_rules(catalog: Catalog, entity: str | None) -> Rules:
    """Return the rules, keys and all. Raises `EntityNotFound`."""
    if entity is None:
        return catalog.access.rules
    return _entity(catalog, entity).properties.authorization_rules


async def put_access_rule(
    catalog: Catalog, entity: str | None, rule: AccessRule, *, now: Instant
) -> AccessRule:
    """Make a rule, or change the one of that name; keys that are not given stay or are made.

    Raises `EntityNotFound`, `ArgumentInvalid`, `QuotaExceeded`, `StoreUnavailable`. Then nothing
    has changed.
    """
    check_access_rule(rule)

    def change(before: Rules) -> Rules:
        [whole] = completed([rule], before, make_key=new_key, now=now)
        return _with(before, whole)

    return rule_named(await _change(catalog, entity, change, now), rule.name)


async def delete_access_rule(
    catalog: Catalog, entity: str | None, name: str, *, now: Instant
) -> None:
    """Let its keys open nothing any more. Raises as `put_access_rule`."""

    def change(before: Rules) -> Rules:
        if rule_named(before, name).declared is not None:
            raise InvalidOperation(
                f"The authorization rule '{name}' comes from the settings of the broker, and would"
                " be back at its next start; remove it there."
            )
        return tuple([rule for rule in before if rule.name != name])

    await _change(catalog, entity, change, now)


async def renew_key(
    catalog: Catalog,
    entity: str | None,
    name: str,
    kind: KeyKind,
    *,
    key: str | None = None,
    now: Instant,
) -> AccessRule:
    """Replace one key, by a new one or by one that is given. Raises as `put_access_rule`.

    From then on no token that it signed is accepted; links that are open go on until theirs ends.
    """
    if key is not None:
        check_key(key, "the new key")
    made = key or new_key()

    def change(before: Rules) -> Rules:
        return _with(before, with_renewed_key(rule_named(before, name), kind, made, now))

    return rule_named(await _change(catalog, entity, change, now), name)


async def _change(
    catalog: Catalog, entity: str | None, change: Callable[[Rules], Rules], now: Instant
) -> Rules:
    async def make() -> Rules:
        catalog.check_standing()
        await catalog.access.agree()
        rules = change(access_rules(catalog, entity))
        check_rule_count(rules)
        if entity is None:
            await catalog.access.write(rules)
        else:
            known = catalog.record(entity)
            changed = with_access(_entity(catalog, entity), rules)
            version = known.version + 1
            await catalog.records.write(
                [replace(known, entity=changed, version=version, updated_at=now)]
            )
        return rules

    return await catalog.records.in_turn(make)


def _entity(catalog: Catalog, name: str) -> Queue | Topic:
    found = catalog.record(name).entity
    if not isinstance(found, Queue | Topic):
        raise EntityNotFound(
            f"'{name}' is a subscription; authorization rules belong to its topic."
        )
    return found


def _with(before: Rules, rule: AccessRule) -> Rules:
    """Return the rules with one of them replaced, or one more."""
    if all(each.name != rule.name for each in before):
        return (*before, rule)
    return tuple([rule if each.name == rule.name else each for each in before])
