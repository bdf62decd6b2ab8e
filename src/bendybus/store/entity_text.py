"""Writes down what an entity says of itself, as stores keep it: its properties and its rules."""

import base64
import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, assert_never
from uuid import UUID

from bendybus.model.access import AccessRule, Right
from bendybus.model.entity import (
    EntityStatus,
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.namespace import Namespace
from bendybus.model.rule import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    PropertyValue,
    Rule,
    SqlAction,
    SqlFilter,
    TrueFilter,
)
from bendybus.model.tier import PremiumPartitioning, Tier, TierName
from bendybus.model.time_values import Moment, Span

Properties = QueueProperties | TopicProperties | SubscriptionProperties

_DURATIONS: Final = frozenset(
    field.name
    for properties in (QueueProperties, TopicProperties, SubscriptionProperties)
    for field in dataclasses.fields(properties)
    if "timedelta" in str(field.type)
)
_FILTERS: Final[dict[str, type[Filter]]] = {
    "true": TrueFilter,
    "false": FalseFilter,
    "sql": SqlFilter,
    "correlation": CorrelationFilter,
}
_FILTER_NAMES: Final = {kind: name for name, kind in _FILTERS.items()}
# The fields of filters and actions that hold values of any type.
_MAPPINGS: Final = frozenset({"parameters", "properties"})


def kind_of_entity(entity: Queue | Topic | Subscription | Namespace) -> str:
    """Return the word under which `entity_from_text` knows what it reads."""
    return type(entity).__name__.lower()


def entity_to_text(entity: Queue | Topic | Subscription | Namespace) -> str:
    """Write down everything but the name; of a namespace its tier, the rest has its own place."""
    if isinstance(entity, Namespace):
        return json.dumps(_plain_tier(entity.tier))
    fields = _plain_properties(entity.properties)
    if isinstance(entity, Subscription):
        fields["rules"] = [_plain_rule(rule) for rule in entity.rules]
    return json.dumps(fields)


def entity_from_text(kind: str, name: str, text: str) -> Queue | Topic | Subscription | Namespace:
    """Read what `entity_to_text` wrote."""
    fields = json.loads(text)
    if kind == "namespace":
        return Namespace(name, tier=_tier(fields))
    fields["status"] = EntityStatus(fields["status"])
    # What was written before there were such rules has none.
    access_rules = access_rules_from_plain(fields.pop("authorization_rules", []))
    for duration in _DURATIONS & fields.keys():
        if fields[duration] is not None:
            fields[duration] = timedelta(milliseconds=fields[duration])
    if kind == "queue":
        return Queue(name, QueueProperties(authorization_rules=access_rules, **fields))
    if kind == "topic":
        return Topic(name, TopicProperties(authorization_rules=access_rules, **fields))
    rules = tuple([_rule(each) for each in fields.pop("rules")])
    return Subscription(name, SubscriptionProperties(**fields), rules)


def rules_to_text(rules: Sequence[Rule]) -> str:
    """Write down rules alone."""
    return json.dumps([_plain_rule(rule) for rule in rules])


def rules_from_text(text: str) -> tuple[Rule, ...]:
    """Read what `rules_to_text` wrote."""
    return tuple([_rule(each) for each in json.loads(text)])


def access_rules_to_plain(rules: Sequence[AccessRule]) -> list[dict[str, Any]]:
    """Return what JSON can hold of rules, their keys among it: without them no token is checked."""
    return [
        {**dataclasses.asdict(rule), "rights": sorted(right.value for right in rule.rights)}
        for rule in rules
    ]


def access_rules_from_plain(plain: Sequence[Mapping[str, Any]]) -> tuple[AccessRule, ...]:
    """Read what `access_rules_to_plain` wrote."""
    return tuple(
        [AccessRule(**{**each, "rights": frozenset(map(Right, each["rights"]))}) for each in plain]
    )


def _plain_tier(tier: Tier) -> dict[str, Any]:
    return {
        "tier": tier.name.value,
        "premium_partitioning": tier.premium_partitioning.value,
        "namespace_fragments": tier.namespace_fragments,
    }


def _tier(fields: dict[str, Any]) -> Tier:
    return Tier(
        TierName(fields["tier"]),
        PremiumPartitioning(fields["premium_partitioning"]),
        fields["namespace_fragments"],
    )


def _plain_properties(properties: Properties) -> dict[str, Any]:
    fields = dataclasses.asdict(properties)
    if not isinstance(properties, SubscriptionProperties):
        rules = access_rules_to_plain(properties.authorization_rules)
        fields["authorization_rules"] = rules
    fields["status"] = properties.status.value
    for name in _DURATIONS & fields.keys():
        if fields[name] is not None:
            fields[name] = fields[name] / timedelta(milliseconds=1)
    return fields


def _plain_rule(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "filter": _FILTER_NAMES[type(rule.filter)],
        **_plain_fields(rule.filter),
        "action": None if rule.action is None else _plain_fields(rule.action),
        **({} if rule.created_at is None else {"created_at": rule.created_at}),
    }


def _plain_fields(described: Filter | SqlAction) -> dict[str, Any]:
    """Return the fields of a filter or an action that are set."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(described):
        value = getattr(described, field.name)
        if isinstance(value, Mapping):
            fields[field.name] = {name: _plain_value(each) for name, each in value.items()}
        elif value is not None:
            fields[field.name] = value
    return fields


def _rule(fields: dict[str, Any]) -> Rule:
    name, kind, action = fields.pop("name"), fields.pop("filter"), fields.pop("action")
    # What was written before this was kept has none.
    created_at = fields.pop("created_at", None)
    return Rule(
        name,
        _FILTERS[kind](**_with_values(fields)),
        None if action is None else SqlAction(**_with_values(action)),
        created_at,
    )


def _with_values(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {each: _value(plain) for each, plain in value.items()} if name in _MAPPINGS else value
        for name, value in fields.items()
    }


def _plain_value(value: PropertyValue) -> object:
    """Return what JSON can hold: most types are its own, the others say what they are."""
    match value:
        case bytes():
            return {"binary": base64.b64encode(value).decode("ascii")}
        case UUID():
            return {"uuid": str(value)}
        case Moment():
            return {"moment": value.text}
        case Span():
            return {"span": value.text}
        case str() | int() | float():
            return value
        case _:
            assert_never(value)


def _value(plain: object) -> PropertyValue:
    match plain:
        case {"binary": str(text)}:
            return base64.b64decode(text)
        case {"uuid": str(text)}:
            return UUID(text)
        case {"moment": str(text)}:
            return Moment.from_text(text)
        case {"span": str(text)}:
            return Span.from_text(text)
        case str() | int() | float():
            return plain
        case _:
            raise ValueError(f"{plain!r} is no value of a property")
