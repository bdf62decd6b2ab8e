"""Messages as rules see them, and the answers of filters, for the tests of both."""

from collections.abc import Mapping
from uuid import UUID

from bendybus.model.filters import compile_filter
from bendybus.model.message_view import SYSTEM_PROPERTIES, MessageView, fold_names
from bendybus.model.rule import PropertyValue, SqlFilter

FIXED_ID = UUID("00000000-0000-4000-8000-000000000001")


class Seen:
    """A message with the properties given; the strictest view that the protocol allows."""

    def __init__(
        self, user: Mapping[str, object] | None = None, system: Mapping[str, object] | None = None
    ) -> None:
        self.user = fold_names(user or {})
        self._system = dict(system or {})
        assert self._system.keys() <= SYSTEM_PROPERTIES

    def system(self, name: str) -> object:
        assert name in SYSTEM_PROPERTIES, "rules use the one spelling"
        return self._system.get(name)


def fixed_id() -> UUID:
    """Stand in for chance."""
    return FIXED_ID


def matches(
    text: str, view: MessageView, parameters: Mapping[str, PropertyValue] | None = None
) -> bool:
    """Compile the text and ask it once."""
    described = SqlFilter(text, parameters or {})
    return compile_filter(described, new_id=fixed_id).matches(view)


def truth_of(
    text: str, view: MessageView, parameters: Mapping[str, PropertyValue] | None = None
) -> bool | None:
    """The truth of a condition: unknown (None) if neither it nor its opposite matches."""
    is_true = matches(text, view, parameters)
    is_false = matches(f"NOT ({text})", view, parameters)
    assert not (is_true and is_false)
    return None if is_true == is_false else is_true
