"""What a filter sees of a message that is in a queue, beyond what its content says."""

from collections.abc import Callable, Mapping
from typing import Final

from bendybus.model.content_reader import ContentReader
from bendybus.model.ids import Instant
from bendybus.model.message import Message, StoredMessage
from bendybus.model.message_view import MessageView

_KNOWN_HERE: Final[dict[str, Callable[[StoredMessage], object]]] = {
    "DeliveryCount": lambda stored: stored.delivery_count,
    "EnqueuedSequenceNumber": lambda stored: (
        (stored.marks and stored.marks.enqueued_sequence)
        or stored.enqueued_sequence
        or stored.sequence
    ),
    "EnqueuedTimeUtc": lambda stored: stored.enqueued_at,
    "ExpiresAtUtc": lambda stored: stored.expires_at,
    "LockedUntilUtc": lambda stored: stored.locked_until,
    "SequenceNumber": lambda stored: stored.sequence,
    "State": lambda stored: int(stored.state),
}


class StoredView:
    """One message in its queue. Nothing is decoded before it is asked for."""

    __slots__ = ("_content", "_stored")

    def __init__(self, stored: StoredMessage, content: MessageView) -> None:
        self._stored = stored
        self._content = content

    @property
    def user(self) -> Mapping[str, object]:
        """The application properties, with those that receivers changed."""
        return self._content.user

    def system(self, name: str) -> object:
        """The value of a property of the system, None where the message has none."""
        read = _KNOWN_HERE.get(name)
        return self._content.system(name) if read is None else read(self._stored)


def view_of(stored: StoredMessage, reader: ContentReader) -> StoredView:
    """Show a message that is in a queue."""
    message = Message(
        stored.content,
        "",
        stored.session_id,
        stored.partition_key,
        reader.time_to_live(stored.content),
        marks=stored.marks,
    )
    return StoredView(stored, reader.view(message, Instant(stored.enqueued_at)))
