"""rules: what a subscription lets in, changed while messages flow."""

from dataclasses import replace

from bendybus.broker.catalog import Catalog
from bendybus.broker.served_topic import ServedSubscription
from bendybus.model.entity import name_key
from bendybus.model.errors import EntityExists, EntityNotFound
from bendybus.model.rule import Rule
from bendybus.model.rule_check import check_rule
from bendybus.model.topic_queues import check_topic_quota


async def add_rule(catalog: Catalog, subscription: ServedSubscription, rule: Rule) -> None:
    """Let a rule hold for all messages that are accepted after this returns."""
    check_rule(rule)
    async with catalog.changing:
        rules = subscription.subscription.rules
        if any(name_key(each.name) == name_key(rule.name) for each in rules):
            raise EntityExists(
                f"The rule '{rule.name}' exists already in the subscription '{subscription.name}'."
            )
        others = [
            each.subscription
            for each in subscription.topic.subscriptions
            if each is not subscription
        ]
        changed = replace(subscription.subscription, rules=(*rules, rule))
        check_topic_quota([*others, changed])
        await catalog.set_rules(subscription, changed.rules)


async def remove_rule(catalog: Catalog, subscription: ServedSubscription, name: str) -> None:
    """Let a rule no longer hold for messages that are accepted after this returns."""
    async with catalog.changing:
        rules = subscription.subscription.rules
        left = tuple(each for each in rules if name_key(each.name) != name_key(name))
        if len(left) == len(rules):
            topic, own = subscription.topic.name, subscription.subscription.name
            raise EntityNotFound.named(f"{catalog.namespace}:Topic:{topic}|{own}|{name}")
        await catalog.set_rules(subscription, left)
