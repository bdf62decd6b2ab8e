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

    def changed(self, message: Message, changes: Changes) -> Message:
        """Return a copy with the changes of an action. Raises `FilterFailed` if it cannot be."""
        ...
