"""What a subscription lets in: rules, each a filter and perhaps an action.

Descriptions only. Whether a filter's text means anything is decided where it is compiled.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Final
from uuid import UUID

from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import Instant
from bendybus.model.limits import SQL_TEXT_LENGTH_MAX, check_rule_name, check_text_length
from bendybus.model.message_view import fold_name
from bendybus.model.sql_values import kind_of

# Also any subclass, such as a number of an AMQP type.
PropertyValue = str | int | float | bool | bytes | UUID

DEFAULT_RULE_NAME: Final = "$Default"
_NO_VALUES: Final[Mapping[str, PropertyValue]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TrueFilter:
    """Matches every message."""


@dataclass(frozen=True, slots=True)
class FalseFilter:
    """Matches no message."""


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """Matches the messages for which the expression is true.

    `parameters` are the values of the names that begin with `@`, given with or without it.
    """

    expression: str
    parameters: Mapping[str, PropertyValue] = field(default_factory=lambda: _NO_VALUES, hash=False)

    def __post_init__(self) -> None:
        _check_sql(self.expression)
        _check_values(self.parameters, parameter_key, "parameters")


@dataclass(frozen=True, slots=True)
class CorrelationFilter:
    """Matches the messages whose fields equal all that are set here."""

    content_type: str | None = None
    correlation_id: str | None = None
    label: str | None = None
    message_id: str | None = None
    reply_to: str | None = None
    reply_to_session_id: str | None = None
    session_id: str | None = None
    to: str | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=lambda: _NO_VALUES, hash=False)

    def __post_init__(self) -> None:
        if not self.properties and all(getattr(self, f.name) is None for f in fields(self)[:-1]):
            raise ArgumentInvalid("a correlation filter must set at least one field")
        _check_values(self.properties, fold_name, "properties")


Filter = TrueFilter | FalseFilter | SqlFilter | CorrelationFilter


@dataclass(frozen=True, slots=True)
class SqlAction:
    """Changes the copy of a message that the rule lets in; `parameters` as of `SqlFilter`."""

    expression: str
    parameters: Mapping[str, PropertyValue] = field(default_factory=lambda: _NO_VALUES, hash=False)

    def __post_init__(self) -> None:
        _check_sql(self.expression)
        _check_values(self.parameters, parameter_key, "parameters")


@dataclass(frozen=True, slots=True)
class Rule:
    """A named filter, with what to do to the messages it matches."""

    name: str = DEFAULT_RULE_NAME
    filter: Filter = field(default_factory=TrueFilter)
    action: SqlAction | None = None
    # When it was added; None of the first rules of a subscription, which are as old as it is.
    created_at: Instant | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_rule_name(self.name)


def parameter_key(name: str) -> str:
    """Return the form under which a parameter is looked up: without `@` and case."""
    return fold_name(name.removeprefix("@"))


def _check_sql(expression: str) -> None:
    if not expression.strip():
        raise ArgumentInvalid("an SQL expression is needed", argument="expression")
    check_text_length(expression, SQL_TEXT_LENGTH_MAX, argument="expression")


def _check_values(
    values: Mapping[str, PropertyValue], key: Callable[[str], str], argument: str
) -> None:
    """Refuse what could never be compared, and names that are one when compared without case."""
    seen: dict[str, str] = {}
    for name, value in values.items():
        first = seen.setdefault(key(name), name)
        if first != name:
            raise ArgumentInvalid(f"{first!r} and {name!r} are the same name", argument=argument)
        if kind_of(value) is None or (isinstance(value, float) and math.isnan(value)):
            raise ArgumentInvalid(f"{name!r} has a value that equals nothing", argument=argument)
