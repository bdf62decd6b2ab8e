"""How far a store is on its way to another place."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreMoveProgress:
    """A move, under way or ended. The stages: copying, catching up, switching, done, failed."""

    number: int
    # Without its password.
    to: str
    stage: str
    # About: two for each message that there was when it began.
    rows: int
    rows_total: int
    # Contents that an earlier try had copied.
    kept: int
    # Rows that changed meanwhile, and were copied again.
    caught_up: int
    # How long calls to the store had to wait for it to be at its new place.
    pause_seconds: float
    reason: str | None
