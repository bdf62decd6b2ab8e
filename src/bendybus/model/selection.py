"""Which messages of a queue an operator means, when not all of them."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bendybus.model.content_reader import ContentReader
from bendybus.model.filters import CompiledFilter, compile_filter
from bendybus.model.ids import Instant
from bendybus.model.message import MessageState, StoredMessage
from bendybus.model.rule import SqlAction, SqlFilter
from bendybus.model.rule_actions import CompiledAction, compile_action
from bendybus.model.sql_expressions import NewIdentifier
from bendybus.model.sql_values import FilterFailed
from bendybus.model.stored_view import view_of

# An operator's request is repeated for every part of a queue, with the same texts.
_TEXTS_REMEMBERED: Final = 32


@dataclass(frozen=True, slots=True)
class Selection:
    """Messages of a state for which all that is said here is true."""

    state: MessageState = MessageState.ACTIVE
    condition: CompiledFilter | None = None
    # Why they are dead letters.
    reason: str | None = None
    enqueued_since: Instant | None = None
    enqueued_until: Instant | None = None
    # Only these, by their numbers.
    sequences: frozenset[int] | None = None

    def includes(self, stored: StoredMessage, reader: ContentReader) -> bool:
        """Whether a message is meant. One that the condition cannot be asked of is not."""
        if self.sequences is not None and stored.sequence not in self.sequences:
            return False
        if not self._is_in_time(stored.enqueued_at):
            return False
        if self.reason is not None and self.reason != _reason(stored):
            return False
        if self.condition is None:
            return True
        try:
            return self.condition.matches(view_of(stored, reader))
        except FilterFailed:
            return False

    def _is_in_time(self, enqueued_at: int) -> bool:
        if self.enqueued_since is not None and enqueued_at < self.enqueued_since:
            return False
        return self.enqueued_until is None or enqueued_at <= self.enqueued_until


def _reason(stored: StoredMessage) -> str | None:
    return None if stored.marks is None else stored.marks.dead_letter_reason


@lru_cache(maxsize=_TEXTS_REMEMBERED)
def condition_of(text: str, new_id: NewIdentifier) -> CompiledFilter:
    """Compile a condition. Raises `ArgumentInvalid` if it has no meaning."""
    return compile_filter(SqlFilter(text), new_id=new_id)


@lru_cache(maxsize=_TEXTS_REMEMBERED)
def edit_of(text: str, new_id: NewIdentifier) -> CompiledAction:
    """Compile an edit, written as the action of a rule. Raises `ArgumentInvalid`."""
    return compile_action(SqlAction(text), new_id=new_id)
