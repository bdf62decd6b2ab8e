"""What can be said of a pipeline while it runs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """How far a pipeline has come, at one moment."""

    stage: str
    rows: int = 0
    rows_per_second: float = 0.0
    # Messages that wait to be read; None if nobody knows.
    lag: int | None = None
    # The last batch of a stream that is done.
    batch: int | None = None
    # Of the work that Spark has in hand: how many of its tasks are done, and how many there are.
    tasks_done: int = 0
    tasks: int = 0
