"""How much a run does: the promised size, and a small one that only shows that everything works."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Size:
    """Every number that decides how long a run takes."""

    name: str
    rounds: int
    messages: int
    body_bytes: tuple[int, ...]
    in_flight: int
    latency_seconds: float
    backlog: int
    backlog_slice: int
    backlog_repeats: int
    connections: int


FULL: Final = Size(
    name="full",
    rounds=3,
    messages=200_000,
    body_bytes=(200, 1024),
    in_flight=2_000,
    latency_seconds=10.0,
    backlog=1_000_000,
    backlog_slice=100_000,
    backlog_repeats=7,
    connections=1_000,
)

QUICK: Final = Size(
    name="quick",
    rounds=1,
    messages=20_000,
    body_bytes=(200, 1024),
    in_flight=2_000,
    latency_seconds=2.0,
    backlog=60_000,
    backlog_slice=20_000,
    backlog_repeats=1,
    connections=100,
)
