"""Filters of Spark that the broker can apply itself."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypeAlias

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

Comparison: TypeAlias = tuple[str, str, object]
"""A column, an operator, a value that JSON can say."""

COMPARABLE: Final = frozenset(
    {"sequence_number", "enqueued_time", "session_id", "partition_key", "subject"}
)
VALUES_MAX: Final = 1000
_OPERATORS: Final[Mapping[type[Filter], str]] = {
    EqualTo: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    In: "in",
}


def comparison_of(condition: Filter) -> Comparison | None:
    """Return what the broker can compare of a filter, or None."""
    operator = _OPERATORS.get(type(condition))
    if operator is None:
        return None
    # Every filter of the table has these two.
    path, value = condition.attribute, condition.value  # type: ignore[attr-defined]  # see above
    if len(path) != 1 or path[0] not in COMPARABLE:
        return None
    if operator == "in":
        values = [_said(each) for each in value if each is not None]
        return (path[0], operator, values) if 0 < len(values) <= VALUES_MAX else None
    return None if value is None else (path[0], operator, _said(value))


def _said(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value
