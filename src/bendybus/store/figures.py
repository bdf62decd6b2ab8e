"""Figures of a store's work since the broker started: plain numbers, added to once per batch.

Written by the store's own thread, read by others as copies. What was undone is never counted.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# Upper ends of the ranges that commits are counted in.
COMMIT_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
COMMIT_CALLERS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Event(StrEnum):
    """What can happen to messages."""

    ACCEPTED = "accepted"
    ACCEPTED_BYTES = "accepted_bytes"
    FORWARDED = "forwarded"
    DROPPED = "dropped"
    DELIVERED = "delivered"
    RETURNED = "returned"
    COMPLETED = "completed"
    ABANDONED = "abandoned"
    DEFERRED = "deferred"
    DEAD_LETTERED = "dead_lettered"
    EXPIRED = "expired"
    LAPSED = "lapsed"
    REFUSED = "refused"
    ACTIVATED = "activated"
    CANCELLED = "cancelled"
    PURGED = "purged"
    REDRIVEN = "redriven"


# In which queue what happened, and of dead letters the reason, one of few.
Happened = tuple[int, Event, str]
Traffic = Mapping[Happened, int]


@dataclass(frozen=True, slots=True)
class Distribution:
    """How many values lay in each range, one more than there are ends, and their sum."""

    ends: Sequence[float]
    counts: Sequence[int]
    sum: float


class Histogram:
    """Counts values by range."""

    __slots__ = ("_counts", "_ends", "_sum")

    def __init__(self, ends: Sequence[float]) -> None:
        self._ends = ends
        self._counts = [0] * (len(ends) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._ends, value)] += 1
        self._sum += value

    def so_far(self) -> Distribution:
        """Return what was counted."""
        return Distribution(self._ends, self._counts.copy(), self._sum)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFigures:
    """The work of a store so far, and what it has in hand."""

    commit_seconds: Distribution
    commit_callers: Distribution
    failures: int
    write_backs: int
    # Calls that wait for their turn.
    waiting: int
    # The size of the log that is written back from time to time.
    log_bytes: int
    traffic: Traffic
