"""What a receiver can say about a message it holds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Complete:
    """Done: remove it."""


@dataclass(frozen=True, slots=True)
class Abandon:
    """Failed: give it back and count the failure, with changed properties if any."""

    property_changes: bytes | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Never looked at: give it back as it was, not counted."""


@dataclass(frozen=True, slots=True)
class Defer:
    """Set aside until asked for by sequence number."""

    property_changes: bytes | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Move to the dead-letter queue."""

    reason: str | None = None
    description: str | None = None
    property_changes: bytes | None = None


Outcome = Complete | Abandon | Release | Defer | DeadLetter
