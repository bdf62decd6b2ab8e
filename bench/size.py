"""How much a run does: the promised size, and a small one that only shows that everything works."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class FeatureSize:
    """The numbers of the scenarios that hold a feature against the broker without it."""

    # How often the two sides take turns, and how much each sends in a turn.
    repeats: int
    slice: int
    subscriptions: int
    subscriptions_many: int
    sessions: int
    messages_per_session: int
    session_receivers: int
    sessions_few: int
    sessions_many: int
    accepts: int
    ids_in_window: int
    filter_evaluations: int
    # What becomes due at once, how long the client may take to prepare it, and the traffic beside.
    due_at_once: int
    due_repeats: int
    prepare_seconds: float
    beside_per_second: float
    beside_seconds: float


@dataclass(frozen=True, slots=True)
class DoorSize:
    """The numbers of the scenarios over HTTP, and of those of the command line."""

    repeats: int
    requests: int
    redrives: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class SparkSize:
    """The numbers of the scenarios of bulk work."""

    repeats: int
    messages: int
    per_trigger: int
    paced_seconds: float
    # How much is read while the broker's memory is watched.
    messages_read: int


@dataclass(frozen=True, slots=True)
class ScaleSize:
    """The numbers of the scenarios past one process."""

    repeats: int
    messages: int


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
    features: FeatureSize
    doors: DoorSize
    spark: SparkSize
    scale: ScaleSize


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
    features=FeatureSize(
        repeats=5,
        slice=50_000,
        subscriptions=10,
        subscriptions_many=1_000,
        sessions=1_000,
        messages_per_session=200,
        session_receivers=8,
        sessions_few=100,
        sessions_many=100_000,
        accepts=500,
        ids_in_window=1_000_000,
        filter_evaluations=300_000,
        due_at_once=100_000,
        due_repeats=5,
        prepare_seconds=20.0,
        beside_per_second=5_000.0,
        beside_seconds=5.0,
    ),
    doors=DoorSize(repeats=5, requests=20_000, redrives=3, dead_letters=100_000),
    spark=SparkSize(
        repeats=3,
        messages=2_000_000,
        per_trigger=500_000,
        paced_seconds=20.0,
        messages_read=10_000_000,
    ),
    scale=ScaleSize(repeats=5, messages=100_000),
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
    features=FeatureSize(
        repeats=1,
        slice=5_000,
        subscriptions=10,
        subscriptions_many=50,
        sessions=100,
        messages_per_session=50,
        session_receivers=8,
        sessions_few=100,
        sessions_many=2_000,
        accepts=100,
        ids_in_window=10_000,
        filter_evaluations=20_000,
        due_at_once=5_000,
        due_repeats=1,
        prepare_seconds=5.0,
        beside_per_second=2_000.0,
        beside_seconds=3.0,
    ),
    doors=DoorSize(repeats=1, requests=2_000, redrives=1, dead_letters=2_000),
    spark=SparkSize(
        repeats=1,
        messages=40_000,
        per_trigger=10_000,
        paced_seconds=3.0,
        messages_read=100_000,
    ),
    scale=ScaleSize(repeats=1, messages=10_000),
)
