"""Time as an argument: one clock, given to whoever needs it."""

import time
from typing import Protocol

from bendybus.model.ids import Instant


class Clock(Protocol):
    """Says what time it is."""

    def now(self) -> Instant:
        """Return the present instant."""
        ...


class SystemClock:
    """The machine's clock, never going backwards.

    A step back of the machine's time would lengthen locks and disorder enqueue times; we stand
    still instead until it has caught up.
    """

    def __init__(self) -> None:
        self._latest = 0

    def now(self) -> Instant:
        """Return the present instant."""
        self._latest = max(self._latest, time.time_ns() // 1_000_000)
        return Instant(self._latest)
