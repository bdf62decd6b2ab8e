"""rules: what a subscription lets in, changed while messages flow."""

from collections.abc import Callable
from dataclasses import replace

from bendybus.broker.catalog import Catalog
from bendybus.broker.served_topic import ServedSubscription
from bendybus.model.entity import name_key
from bendybus.model.errors import EntityExists, EntityNotFound
from bendybus.model.ids import Instant
from bendybus.model.rule import Rule
from bendybus.model.rule_check import check_rule
from bendybus.model.topic_queues import check_topic_quota
from bendybus.store.port import EntityRecord

# Sees the subscription as it stands, and may raise to keep it so; no change comes between.
Check = Callable[[EntityRecord], None]


def find_rule(catalog: Catalog, subscription: ServedSubscription, name: str) -> Rule:
    """Return a rule, whatever the case of its name. Raises `EntityNotFound`."""
    for rule in subscription.subscription.rules:
        if name_key(rule.name) == name_key(name):
            return rule
    raise EntityNotFound.named(_resource(catalog, subscription, name))


async def add_rule(
    catalog: Catalog, subscription: ServedSubscription, rule: Rule, *, now: Instant
) -> None:
    """Let a rule hold for all messages that are accepted after this returns."""
    check_rule(rule)

    async def add() -> None:
        rules = _rules(catalog, subscription)
        if any(name_key(each.name) == name_key(rule.name) for each in rules):
            resource = _resource(catalog, subscription, rule.name)
            raise EntityExists(f"The messaging entity '{resource}' already exists.")
        added = replace(rule, created_at=now)
        await _set_rules(catalog, subscription, (*rules, added), now)

    await catalog.records.in_turn(add)


async def update_rule(
    catalog: Catalog,
    subscription: ServedSubscription,
    rule: Rule,
    *,
    now: Instant,
    check: Check = lambda _: None,
) -> None:
    """Replace the filter and the action of a rule for all messages accepted after this returns."""
    check_rule(rule)

    async def change() -> None:
        rules = _rules(catalog, subscription)
        check(catalog.record(subscription.name))
        before = find_rule(catalog, subscription, rule.name)
        after = replace(rule, name=before.name, created_at=before.created_at)
        changed = tuple(after if each is before else each for each in rules)
        await _set_rules(catalog, subscription, changed, now)

    await catalog.records.in_turn(change)


async def remove_rule(
    catalog: Catalog,
    subscription: ServedSubscription,
    name: str,
    *,
    now: Instant,
    check: Check = lambda _: None,
) -> None:
    """Let a rule no longer hold for messages that are accepted after this returns."""

    async def remove() -> None:
        rules = _rules(catalog, subscription)
        check(catalog.record(subscription.name))
        gone = find_rule(catalog, subscription, name)
        left = tuple(each for each in rules if each is not gone)
        await _set_rules(catalog, subscription, left, now)

    await catalog.records.in_turn(remove)


def _rules(catalog: Catalog, subscription: ServedSubscription) -> tuple[Rule, ...]:
    """Return the rules, unless the subscription was deleted meanwhile."""
    if subscription.is_gone:
        topic, own = subscription.topic.name, subscription.subscription.name
        raise EntityNotFound.named(f"{catalog.namespace}:Topic:{topic}|{own}")
    return subscription.subscription.rules


async def _set_rules(
    catalog: Catalog, subscription: ServedSubscription, rules: tuple[Rule, ...], now: Instant
) -> None:
    """Let these rules hold, in every store and then, at once, for messages."""
    known = catalog.record(subscription.name)
    entity = replace(subscription.subscription, rules=rules)
    others = [
        each.subscription for each in subscription.topic.subscriptions if each is not subscription
    ]
    check_topic_quota([*others, entity])
    changed = replace(known, entity=entity, version=known.version + 1, updated_at=now)
    await catalog.records.write([changed])
    subscription.note_use()


def _resource(catalog: Catalog, subscription: ServedSubscription, rule: str) -> str:
    topic, own = subscription.topic.name, subscription.subscription.name
    return f"{catalog.namespace}:Topic:{topic}|{own}|{rule}"
