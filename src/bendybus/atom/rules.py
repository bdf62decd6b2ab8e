"""Rules of subscriptions: filters and actions with their typed values."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, assert_never

from bendybus.atom.values import read_any, write_any, write_date_time
from bendybus.atom.xml_reading import Element
from bendybus.atom.xml_writing import text_element
from bendybus.model.errors import ArgumentInvalid
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

# Which version of the filter language a text is in; there is only this one.
_LANGUAGE: Final = "<CompatibilityLevel>20</CompatibilityLevel>"
_PAIR: Final = "KeyValueOfstringanyType"

# In the order in which the service writes them.
_CORRELATION: Final = {
    "CorrelationId": "correlation_id",
    "MessageId": "message_id",
    "To": "to",
    "ReplyTo": "reply_to",
    "Label": "label",
    "SessionId": "session_id",
    "ReplyToSessionId": "reply_to_session_id",
    "ContentType": "content_type",
}


def read_rule(description: Element, name: str) -> Rule:
    """Read what a rule does; its name is given where it is addressed."""
    return Rule(name, _read_filter(description.find("Filter")), _read_action(description))


def write_rule(rule: Rule, created_at: datetime | None = None) -> str:
    """Write the content of a rule's description; its time only in answers."""
    created = "" if created_at is None else _created(created_at)
    return f"{_filter(rule.filter)}{_action(rule.action)}{created}{text_element('Name', rule.name)}"


def write_default_rule(rule: Rule) -> str:
    """Write the rule with which a subscription is to begin, for the request that creates it."""
    return f"<DefaultRuleDescription>{write_rule(rule)}</DefaultRuleDescription>"


def _created(at: datetime) -> str:
    return text_element("CreatedAt", write_date_time(at))


def _read_filter(element: Element | None) -> Filter:
    if element is None or element.is_nil:
        return TrueFilter()
    match element.type_name:
        case "TrueFilter":
            return TrueFilter()
        case "FalseFilter":
            return FalseFilter()
        case "SqlFilter":
            return SqlFilter(
                element.text_of("SqlExpression") or "", _read_pairs(element.find("Parameters"))
            )
        case "CorrelationFilter":
            fields = {
                field: child.text
                for name, field in _CORRELATION.items()
                if (child := element.find(name)) is not None and not child.is_nil
            }
            return CorrelationFilter(**fields, properties=_read_pairs(element.find("Properties")))
        case other:
            raise ArgumentInvalid(
                f"{other!r} is not a type of filter; use SqlFilter, CorrelationFilter,"
                " TrueFilter or FalseFilter",
                argument="filter",
            )


def _read_action(description: Element) -> SqlAction | None:
    element = description.find("Action")
    if element is None or element.is_nil or element.type_name in {"", "EmptyRuleAction"}:
        return None
    if element.type_name != "SqlRuleAction":
        raise ArgumentInvalid(
            f"{element.type_name!r} is not a type of action; use SqlRuleAction or EmptyRuleAction",
            argument="action",
        )
    return SqlAction(
        element.text_of("SqlExpression") or "", _read_pairs(element.find("Parameters"))
    )


def _read_pairs(element: Element | None) -> Mapping[str, PropertyValue]:
    pairs: dict[str, PropertyValue] = {}
    for pair in () if element is None else element.find_all(_PAIR):
        key, value = pair.text_of("Key"), pair.find("Value")
        if not key or value is None:
            raise ArgumentInvalid(f"each {_PAIR} must have a Key and a Value")
        if key in pairs:
            raise ArgumentInvalid(f"{key!r} is given twice")
        pairs[key] = read_any(value)
    return pairs


def _filter(described: Filter) -> str:
    match described:
        case TrueFilter():
            kind, content = "TrueFilter", f"<SqlExpression>1=1</SqlExpression>{_LANGUAGE}"
        case FalseFilter():
            kind, content = "FalseFilter", f"<SqlExpression>1=0</SqlExpression>{_LANGUAGE}"
        case SqlFilter(expression, parameters):
            kind, content = "SqlFilter", _sql(expression, parameters)
        case CorrelationFilter():
            kind = "CorrelationFilter"
            content = "".join(
                text_element(name, value)
                for name, field in _CORRELATION.items()
                if (value := getattr(described, field)) is not None
            )
            content += _pairs("Properties", described.properties)
        case _:
            assert_never(described)
    return f'<Filter i:type="{kind}">{content}</Filter>'


def _action(action: SqlAction | None) -> str:
    if action is None:
        return '<Action i:type="EmptyRuleAction" />'
    content = _sql(action.expression, action.parameters)
    return f'<Action i:type="SqlRuleAction">{content}</Action>'


def _sql(expression: str, parameters: Mapping[str, PropertyValue]) -> str:
    text = text_element("SqlExpression", expression)
    return f"{text}{_LANGUAGE}{_pairs('Parameters', parameters)}"


def _pairs(name: str, pairs: Mapping[str, PropertyValue]) -> str:
    if not pairs:
        return ""
    content = "".join(
        f"<{_PAIR}>{text_element('Key', key)}{write_any('Value', value)}</{_PAIR}>"
        for key, value in pairs.items()
    )
    return f"<{name}>{content}</{name}>"
