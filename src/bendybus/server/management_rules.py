"""The rules of a subscription, by request and response."""

from collections.abc import Mapping
from typing import Any, Final, assert_never

from bendybus.amqp.values import Described, Int, Ulong
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.rules import add_rule, remove_rule
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.broker.served_topic import ServedSubscription
from bendybus.content.rule_view import wire_value
from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange, InvalidOperation
from bendybus.model.ids import SubQueue
from bendybus.model.rule import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    Rule,
    SqlAction,
    SqlFilter,
    TrueFilter,
)
from bendybus.server.request_body import Response, nothing_found, number, succeeded, text

# What one answer holds; clients ask on until they get none.
RULES_TOGETHER_MAX: Final = 1000

# Those of rules and actions have one digit more than those of filters.
_RULE: Final = Ulong(0x137_0000_0004)
_NO_ACTION: Final = Ulong(0x137_0000_0005)
_SQL_ACTION: Final = Ulong(0x137_0000_0006)
_SQL_FILTER: Final = Ulong(0x13_7000_0006)
_TRUE_FILTER: Final = Ulong(0x13_7000_0007)
_FALSE_FILTER: Final = Ulong(0x13_7000_0008)
_CORRELATION_FILTER: Final = Ulong(0x13_7000_0009)
_LANGUAGE_LEVEL: Final = Int(20)

_FILTER_KEYS: Final = ("sql-filter", "correlation-filter", "true-filter", "false-filter")
# In the order in which an answer lists them.
_CORRELATION_KEYS: Final = {
    "correlation-id": "correlation_id",
    "message-id": "message_id",
    "to": "to",
    "reply-to": "reply_to",
    "label": "label",
    "session-id": "session_id",
    "reply-to-session-id": "reply_to_session_id",
    "content-type": "content_type",
}


async def add_rule_requested(
    catalog: Catalog, sub_queue: ServedSubQueue, clock: Clock, body: dict[str, Any]
) -> Response:
    """Answer `add-rule`."""
    subscription = _subscription(sub_queue)
    described = body.get("rule-description")
    if not isinstance(described, dict):
        raise ArgumentInvalid("rule-description must be a map.")
    name = text(body, "rule-name") or text(described, "rule-name")
    if not name:
        raise ArgumentInvalid("rule-name must be a string.")
    rule = Rule(name, _filter(described), _action(described))
    await add_rule(catalog, subscription, rule, now=clock.now())
    return succeeded(), None


async def remove_rule_requested(
    catalog: Catalog, sub_queue: ServedSubQueue, clock: Clock, body: dict[str, Any]
) -> Response:
    """Answer `remove-rule`."""
    subscription = _subscription(sub_queue)
    name = text(body, "rule-name")
    if not name:
        raise ArgumentInvalid("rule-name must be a string.")
    await remove_rule(catalog, subscription, name, now=clock.now())
    return succeeded(), None


async def list_rules(sub_queue: ServedSubQueue, body: dict[str, Any]) -> Response:
    """Answer `enumerate-rules`."""
    rules = _subscription(sub_queue).subscription.rules
    top, skip = number(body, "top", RULES_TOGETHER_MAX), number(body, "skip", 0)
    if top < 1 or skip < 0:
        raise ArgumentOutOfRange("top must be at least 1, and skip at least 0.")
    found = rules[skip : skip + min(top, RULES_TOGETHER_MAX)]
    if not found:
        return nothing_found("rules"), {"rules": []}
    return succeeded(), {"rules": [{"rule-description": _described_rule(rule)} for rule in found]}


def _subscription(sub_queue: ServedSubQueue) -> ServedSubscription:
    queue = sub_queue.queue
    if not isinstance(queue, ServedSubscription) or sub_queue.sub_queue is not SubQueue.MAIN:
        raise InvalidOperation("Only subscriptions have rules.")
    return queue


def _filter(described: dict[str, Any]) -> Filter:
    given = [key for key in _FILTER_KEYS if described.get(key) is not None]
    if len(given) > 1:
        raise ArgumentInvalid(f"A rule has one filter, not both {given[0]} and {given[1]}.")
    if not given:
        return TrueFilter()
    values = _map(described, given[0])
    match given[0]:
        case "sql-filter":
            return SqlFilter(text(values, "expression") or "")
        case "correlation-filter":
            own = {field: text(values, key) for key, field in _CORRELATION_KEYS.items()}
            properties = values.get("properties")
            return CorrelationFilter(
                **own, properties=_map(values, "properties") if properties is not None else {}
            )
        case "true-filter":
            return TrueFilter()
        case _:
            return FalseFilter()


def _action(described: dict[str, Any]) -> SqlAction | None:
    if described.get("sql-rule-action") is None:
        return None
    expression = text(_map(described, "sql-rule-action"), "expression")
    return SqlAction(expression) if expression else None


def _map(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = values[name]
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ArgumentInvalid(f"{name} must be a map with strings as keys.")
    return {str(key): each for key, each in value.items()}


def _described_rule(rule: Rule) -> Described:
    if rule.action is None:
        # Never null: the JavaScript client looks at its descriptor without asking.
        action = Described(_NO_ACTION, [])
    else:
        action = Described(_SQL_ACTION, [rule.action.expression, _LANGUAGE_LEVEL])
    return Described(_RULE, [_described_filter(rule.filter), action, rule.name])


def _described_filter(described: Filter) -> Described:
    match described:
        case TrueFilter():
            return Described(_TRUE_FILTER, [])
        case FalseFilter():
            return Described(_FALSE_FILTER, [])
        case SqlFilter(expression):
            return Described(_SQL_FILTER, [expression, _LANGUAGE_LEVEL])
        case CorrelationFilter():
            values: list[object] = [
                getattr(described, field) for field in _CORRELATION_KEYS.values()
            ]
            properties = {name: wire_value(each) for name, each in described.properties.items()}
            return Described(_CORRELATION_FILTER, [*values, properties])
        case _:
            assert_never(described)
