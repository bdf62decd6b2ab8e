"""What publishing needs to know of contents, which only the edge can read."""

from typing import Protocol

from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.message_view import MessageView
from bendybus.model.rule_actions import Changes


class ContentReader(Protocol):
    """Looks into messages on behalf of rules."""

    def view(self, message: Message, enqueued_at: Instant) -> MessageView:
        """Show a message to rules. Nothing is decoded before a rule asks for it."""
        ...

    def time_to_live(self, content: bytes) -> int | None:
        """Return for how many milliseconds its sender wanted a message to live, if it said so."""
        ...

    def changed(self, message: Message, changes: Changes) -> Message:
        """Return a copy with the changes of an action. Raises `FilterFailed` if it cannot be."""
        ...
