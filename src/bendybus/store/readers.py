"""What a store tells of readers, and of the messages that they keep for themselves."""

from collections.abc import Awaitable, Sequence
from typing import NamedTuple, Protocol

from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import StoredMessage


class Reservation(NamedTuple):
    """Messages that a reader keeps for itself, as they were counted when it reserved them."""

    number: int
    position: int
    messages: int
    bytes: int
    made_at: Instant


class ReaderRecord(NamedTuple):
    """A reader of one queue, and how much it has reserved there."""

    queue: QueueNumber
    name: str
    token: str
    position: int
    committed: int
    opened_at: Instant
    active_at: Instant
    messages: int
    bytes: int
    # When the oldest of its reservations was made; None if it has none.
    oldest_at: Instant | None


class ReaderStore(Protocol):
    """Tells of readers and what they have reserved; promises 7 and 14."""

    def readers(self, queues: Sequence[QueueNumber] | None = None) -> Awaitable[list[ReaderRecord]]:
        """Return the readers of queues, by queue and name; with None, all that are here."""
        ...

    def reservations(
        self, queue: QueueNumber, reader: str, token: str, *, after: int, until: int, now: Instant
    ) -> Awaitable[list[Reservation]]:
        """Return a reader's reservations of the positions behind one, up to another, in order.

        Raises `ReaderLost` as `Reserve` does, for both. Notes that the reader is active.
        """
        ...

    def read_reserved(
        self, queue: QueueNumber, number: int, *, from_sequence: int, count_max: int, bytes_max: int
    ) -> Awaitable[list[StoredMessage]]:
        """Read messages of a reservation in order; at least one if there is one."""
        ...
