"""Every write that a store can be told to make: a closed list.

Deciding which one to make is policy and happens in this package; a store only checks that the
locks named are still what the decision took them for (`Guard`), and refuses what would break
its own constraints.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import Lock, Marks, Message


class Guard(Enum):
    """What must still be true of a message when the operation reaches it."""

    HELD = "its lock is this one and has not ended"
    LAPSED = "its lock is this one and has ended"
    FREE = "it is under no lock and its time to live has ended"


@dataclass(slots=True)
class Append:
    """Add messages at the end. Answered with the first sequence number; the rest follow on.

    Refused with `QuotaExceeded` when the fragment would hold more than `bytes_max`.
    """

    queue: QueueNumber
    messages: Sequence[Message]
    bytes_max: int


@dataclass(slots=True)
class Remove:
    """Delete messages for good."""

    queue: QueueNumber
    locks: Sequence[Lock]
    guard: Guard = Guard.HELD


@dataclass(slots=True)
class Unlock:
    """Make messages free again, at their old place."""

    queue: QueueNumber
    locks: Sequence[Lock]
    is_counted: bool
    guard: Guard = Guard.HELD


@dataclass(slots=True)
class SetAside:
    """Free messages and defer them: only who knows their sequence number gets them."""

    queue: QueueNumber
    locks: Sequence[Lock]


@dataclass(slots=True)
class Rewrite:
    """Replace the marks of one message; its lock stays."""

    queue: QueueNumber
    lock: Lock
    marks: Marks


@dataclass(slots=True)
class Move:
    """Move one message to the end of another queue of the same store, free and with no expiry."""

    queue: QueueNumber
    to_queue: QueueNumber
    lock: Lock
    marks: Marks
    is_counted: bool
    guard: Guard = Guard.HELD


@dataclass(slots=True)
class Renew:
    """Let locks last until another time."""

    queue: QueueNumber
    locks: Sequence[Lock]
    locked_until: Instant


Operation = Append | Remove | Unlock | SetAside | Rewrite | Move | Renew

# The answer to one operation: for Append the first sequence number, for all others the sequence
# numbers of the messages that their guard refused. Empty is the normal case.
Answer = int | list[int]
