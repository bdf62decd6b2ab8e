"""Many messages as columns: what a store returns to those who want very many.

One buffer per column, never an object per message. Numbers are 64 bits wide, in the machine's own
order; texts and contents stand one behind the other, with where each begins and ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bendybus.model.ids import Instant
from bendybus.model.message import Marks

# Among the instants of a column: there is none.
NO_INSTANT: Final = Instant((1 << 63) - 1)


class Slices(NamedTuple):
    """Texts or contents in one buffer. One that is not there begins and ends at -1."""

    joined: bytes
    starts: memoryview
    ends: memoryview


@dataclass(frozen=True, slots=True)
class KeptColumns:
    """Messages that still are the columns in which they came: some of these, or from one on.

    None in place of bytes that nobody asked for.
    """

    beside: bytes | None
    bodies: bytes | None
    first: int
    count: int
    # Places within the columns; None for all that follow on the first.
    places: memoryview | None = None


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one scan found, in order; and where the next one goes on, None at the end."""

    count: int
    next_sequence: int | None
    sequences: memoryview
    enqueued_at: memoryview
    delivery_counts: memoryview
    states: memoryview
    # `NO_INSTANT` for those that live on.
    expires_at: memoryview
    # None where no message of these has any, or they were not asked for.
    session_ids: Slices | None
    partition_keys: Slices | None
    marks: Sequence[Marks | None] | None
    contents: Slices | None
    # In place of contents and keys, one behind the other.
    kept: Sequence[KeptColumns] | None = None
