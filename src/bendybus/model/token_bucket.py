"""A bound on a rate: so many a second over time, and so many at once after a rest.

It is a number that rises with time up to `burst` and falls with what is taken. Time is an
argument, in milliseconds; a clock that goes back adds nothing.
"""


class TokenBucket:
    """One bound, and how far it is used."""

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, per_second: float, burst: float) -> None:
        self._rate = per_second / 1000
        self._burst = burst
        self._level = burst
        self._at: int | None = None

    def take(self, count: int, now: int) -> float:
        """Take so many if there are any; return 0, or the seconds until there are again.

        More than are there may be taken at once: what comes later pays for it.
        """
        self._refill(now)
        if self._level < 1:
            return (1 - self._level) / self._rate / 1000
        self._level -= count
        return 0.0

    def take_debt(self, count: int, now: int) -> float:
        """Take so many in any case; return the seconds until they would have been there."""
        self._refill(now)
        self._level -= count
        return max(0.0, -self._level / self._rate / 1000)

    def _refill(self, now: int) -> None:
        if self._at is not None and now > self._at:
            self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        if self._at is None or now > self._at:
            self._at = now
