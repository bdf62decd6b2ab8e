"""What a correlation filter compares, in a form that can be hashed.

Two values are equal exactly if their keys are, so a dictionary of keys decides for any number
of filters at once, and one filter alone decides in the same way.
"""

from collections.abc import Hashable
from typing import Final

from bendybus.model.filter_tree import Scope
from bendybus.model.message_view import MessageView, fold_name
from bendybus.model.rule import CorrelationFilter, PropertyValue
from bendybus.model.sql_expressions import property_reader
from bendybus.model.sql_values import Kind, kind_of

_SYSTEM_FIELDS: Final = (
    ("content_type", "ContentType"),
    ("correlation_id", "CorrelationId"),
    ("label", "Label"),
    ("message_id", "MessageId"),
    ("reply_to", "ReplyTo"),
    ("reply_to_session_id", "ReplyToSessionId"),
    ("session_id", "SessionId"),
    ("to", "To"),
)

# The properties that a filter sets, in one order for all filters. Plain tuples, because a topic
# may have 100,000 filters and each is hashed by them.
Compared = tuple[tuple[Scope, str], ...]
Key = tuple[Hashable, ...]


class KeyReader:
    """Reads from a message the key of some properties."""

    def __init__(self, compared: Compared) -> None:
        self._readers = [property_reader(scope, name) for scope, name in compared]

    def read(self, view: MessageView) -> Key:
        """Return the key that a filter must have in order to match."""
        return tuple([_value_key(read(view)) for read in self._readers])


def compared_and_key(described: CorrelationFilter) -> tuple[Compared, Key]:
    """Return what the filter compares, and the key of the messages that it matches."""
    values: dict[tuple[Scope, str], PropertyValue] = {
        ("user", fold_name(name)): value for name, value in described.properties.items()
    }
    for field, name in _SYSTEM_FIELDS:
        value = getattr(described, field)
        if value is not None:
            values["sys", name] = value
    compared = tuple(sorted(values))
    return compared, tuple([_value_key(values[each]) for each in compared])


def _value_key(value: object) -> Hashable:
    """Return what equals the key of another value if and only if the two are equal.

    Python's own equality does for all but booleans, which it takes for numbers. Null and what
    no filter compares have a key that no filter has, because none may hold such a value.
    """
    kind = kind_of(value)
    if kind is None:
        return None
    return (kind, value) if kind is Kind.BOOLEAN else value
