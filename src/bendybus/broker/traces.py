"""Who is told of messages that come and go, to write it into their traces; mostly nobody."""

from collections.abc import Sequence
from typing import Protocol

from bendybus.model.ids import Instant
from bendybus.model.message import Message, StoredMessage


class Traces(Protocol):
    """Writes down what the broker did with messages that carry a trace. Never waits or raises."""

    def note_sent(
        self, entity: str, fragment: int, messages: Sequence[Message], *, came_at: Instant
    ) -> None:
        """Note that messages, which came at an instant, are on disk now."""
        ...

    def note_received(self, entity: str, messages: Sequence[StoredMessage]) -> None:
        """Note that messages have waited until now, and are handed to a receiver."""
        ...
