"""When a worker that ended is started again: at once, unless it keeps ending."""

from typing import Final

PAUSE_SECONDS_MIN: Final = 0.1
PAUSE_SECONDS_MAX: Final = 10.0
CALM_SECONDS: Final = 30.0
"""Who has lived for so long has not failed to start."""


class Restarts:
    """Remembers how often each worker has ended of late. Time is monotonic, in seconds."""

    def __init__(self, workers: int) -> None:
        self._started_at = [0.0] * workers
        self._pauses = [0.0] * workers
        # Those that are to be started, and when.
        self._due_at: dict[int, float] = {}

    def note_start(self, worker: int, now: float) -> None:
        """Note that a worker was started."""
        self._started_at[worker] = now
        self._due_at.pop(worker, None)

    def note_end(self, worker: int, now: float) -> float:
        """Note that one has ended; returns how long the next one waits."""
        pause = min(max(2 * self._pauses[worker], PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)
        if now - self._started_at[worker] >= CALM_SECONDS:
            pause = PAUSE_SECONDS_MIN
        self._pauses[worker] = pause
        self._due_at[worker] = now + pause
        return pause

    def due(self, now: float) -> list[int]:
        """Return those to be started now."""
        return [worker for worker, at in self._due_at.items() if at <= now]

    def seconds_left(self, now: float) -> float | None:
        """Return how long until one is due; None if none is."""
        return max(min(self._due_at.values()) - now, 0.0) if self._due_at else None
