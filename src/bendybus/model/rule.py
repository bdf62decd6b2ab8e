"""What a subscription lets in: rules, each a filter and perhaps an action.

Descriptions only. Whether a filter's text means anything is decided where it is compiled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Final

from bendybus.model.errors import ArgumentInvalid
from bendybus.model.limits import SQL_TEXT_LENGTH_MAX, check_rule_name, check_text_length

PropertyValue = str | int | float | bool

DEFAULT_RULE_NAME: Final = "$Default"
_NO_PROPERTIES: Final[Mapping[str, PropertyValue]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TrueFilter:
    """Matches every message."""


@dataclass(frozen=True, slots=True)
class FalseFilter:
    """Matches no message."""


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """Matches the messages for which the expression is true."""

    expression: str

    def __post_init__(self) -> None:
        _check_sql(self.expression)


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
    properties: Mapping[str, PropertyValue] = field(default_factory=lambda: _NO_PROPERTIES)

    def __post_init__(self) -> None:
        if not self.properties and all(getattr(self, f.name) is None for f in fields(self)[:-1]):
            raise ArgumentInvalid("a correlation filter must set at least one field")


Filter = TrueFilter | FalseFilter | SqlFilter | CorrelationFilter


@dataclass(frozen=True, slots=True)
class SqlAction:
    """Changes the copy of a message that the rule lets in."""

    expression: str

    def __post_init__(self) -> None:
        _check_sql(self.expression)


@dataclass(frozen=True, slots=True)
class Rule:
    """A named filter, with what to do to the messages it matches."""

    name: str = DEFAULT_RULE_NAME
    filter: Filter = field(default_factory=TrueFilter)
    action: SqlAction | None = None

    def __post_init__(self) -> None:
        check_rule_name(self.name)


def _check_sql(expression: str) -> None:
    if not expression.strip():
        raise ArgumentInvalid("an SQL expression is needed", argument="expression")
    check_text_length(expression, SQL_TEXT_LENGTH_MAX, argument="expression")
