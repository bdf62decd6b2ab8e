"""Whether filters and actions mean something, before they are kept."""

from typing import Final, TypeVar
from uuid import UUID

from bendybus.model.filters import compile_filter
from bendybus.model.rule import Filter, Rule, SqlAction
from bendybus.model.rule_actions import compile_action

Checked = TypeVar("Checked", bound=Filter)

# Nothing is evaluated here, so nothing asks for an identifier.
_NO_ID: Final = UUID(int=0)


def checked_filter(described: Checked) -> Checked:
    """Return the filter. Raises `ArgumentInvalid` if its text has no meaning."""
    compile_filter(described, new_id=lambda: _NO_ID)
    return described


def checked_action(described: SqlAction) -> SqlAction:
    """Return the action. Raises `ArgumentInvalid` if its text has no meaning."""
    compile_action(described, new_id=lambda: _NO_ID)
    return described


def check_rule(rule: Rule) -> None:
    """Raise `ArgumentInvalid` if the filter or the action of a rule means nothing."""
    checked_filter(rule.filter)
    if rule.action is not None:
        checked_action(rule.action)
