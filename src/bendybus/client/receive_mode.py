"""What receiving does to a message."""

from enum import Enum


class ReceiveMode(Enum):
    """Chosen for a receiver when it is made."""

    PEEK_LOCK = "peek-lock"
    """A message is locked; settle it before the lock ends, or it comes again."""
    RECEIVE_AND_DELETE = "receive-and-delete"
    """A message is gone from the entity as soon as it is sent, even if it never arrives."""
