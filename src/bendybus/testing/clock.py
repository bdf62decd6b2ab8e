"""A clock that stands still until a test moves it."""

from bendybus.model.ids import Instant

NOON = Instant(1_800_000_000_000)


class ManualClock:
    """Virtual time."""

    def __init__(self, start: Instant = NOON) -> None:
        self._now = start

    def now(self) -> Instant:
        """Return the present instant."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now = Instant(self._now + round(seconds * 1000))
