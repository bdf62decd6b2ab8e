"""A message on its way in, at rest, and under lock.

To everything behind the edge a message is opaque `content` with a few fields beside it. The
edge writes the content and reads it back; no rule needs to look inside.
"""

from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Final, NamedTuple

from bendybus.model.ids import Instant


class MessageState(IntEnum):
    """What a stored message waits for. The numbers are stored; the first three are the wire's."""

    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2
    # A reader keeps it for itself. To clients who look at it, it is active.
    RESERVED = 3
    # Its bytes no longer match their checksum. Never handed out again.
    DAMAGED = 9


@dataclass(slots=True)
class Message:
    """One message as a sender gave it. Not frozen: that would double the cost of making one."""

    content: bytes
    message_id: str = ""
    session_id: str | None = None
    partition_key: str | None = None
    time_to_live_ms: int | None = None
    scheduled_at: Instant | None = None
    expires_at: Instant | None = None
    # Only of messages that come from another queue: what happened to them there.
    marks: "Marks | None" = None
    # What stands for its id, where that was made already: `digests.digest_of`.
    digest: bytes | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """What happened to a message since it was sent. Most messages have none."""

    dead_letter_reason: str | None = None
    dead_letter_description: str | None = None
    dead_letter_source: str | None = None
    # The sequence number it had first, where its content does not tell; see `StoredMessage`.
    enqueued_sequence: int | None = None
    # Application properties changed by receivers, encoded by the edge.
    property_changes: bytes | None = None
    # How many times it was forwarded (R6), and where to, of one that is on its way (R5.6).
    hops: int | None = None
    destination: str | None = None

    @property
    def tell_only_the_way(self) -> bool:
        """Whether they say nothing but where the message has been."""
        return (
            self.property_changes is None
            and self.dead_letter_reason is None
            and self.dead_letter_description is None
            and self.dead_letter_source is None
        )


_MARKS: Final = tuple(field.name for field in fields(Marks))


def joined_marks(before: Marks | None, later: Marks | None) -> Marks | None:
    """Add later marks to earlier ones; where both say something, the later count."""
    if before is None or later is None:
        return later or before
    said = {name: value for name in _MARKS if (value := getattr(later, name)) is not None}
    return replace(before, **said)


class Lock(NamedTuple):
    """A receiver's hold on a message: sequence number and nonce are the token.

    The nonce is new for every acquire, so a token never holds twice. The delivery count is what
    it was when the lock was taken; while the lock is valid nobody else can change it.
    """

    sequence: int
    nonce: int
    delivery_count: int = 0


class StoredMessage(NamedTuple):
    """One message as a store returns it. A tuple, because thousands a second are made."""

    sequence: int
    enqueued_at: int
    delivery_count: int
    content: bytes
    expires_at: int | None
    session_id: str | None
    partition_key: str | None
    marks: Marks | None
    state: int
    locked_until: int | None
    nonce: int | None
    # The number under which its content came in, if that was another: in the queue that it moved
    # from, at a topic, or when it was scheduled.
    enqueued_sequence: int | None = None

    @property
    def lock(self) -> Lock:
        """The lock it is under. Only for messages that `acquire` returned."""
        assert self.nonce is not None
        return Lock(self.sequence, self.nonce, self.delivery_count)
