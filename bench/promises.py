"""What the project promises of speed and size, each a named check with its threshold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.doors.promises import DOOR_PROMISES
from bench.features.promises import FEATURE_PROMISES
from bench.promise import Measured, Promise, ratio
from bench.readings import Figure, Readings
from bench.scale.promises import SCALE_PROMISES
from bench.scenarios import NO_BODY, SMALL_BODY_BYTES
from bench.size import FULL
from bench.spark.promises import SPARK_PROMISES

PARTITIONED: Final = "bendybus partitioned"
CONVENTIONAL: Final = "bendybus conventional"
PEERS: Final = ("rabbitmq classic", "rabbitmq quorum")

SEND_RATIO_MIN: Final = 1.5
RECEIVE_RATIO_MIN: Final = 4.0
PARTITIONED_RATIO_MIN: Final = 0.8
BACKLOG_RATIO_MIN: Final = 0.9
BACKLOG_RESIDENT_MB_MAX: Final = 60.0
RESTART_SECONDS_MAX: Final = 2.0
CONNECTION_KB_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A promise and what was measured of it; no value means that it was not measured."""

    promise: Promise
    value: float | None

    def is_kept(self) -> bool:
        """Whether it was measured and honoured."""
        return self.value is not None and self.promise.is_kept(self.value)


def judge(readings: Readings, scenarios: Sequence[str]) -> list[Verdict]:
    """Hold the readings against the promises of the scenarios that ran."""
    return [
        Verdict(promise, promise.measured(readings))
        for promise in PROMISES
        if promise.scenario in scenarios
    ]


def against_better_peer(figure: Figure, body_bytes: int) -> Measured:
    """Our partitioned queue over the better of the peer's queues."""
    return lambda readings: ratio(
        readings.median(figure, PARTITIONED, body_bytes),
        readings.best(figure, PEERS, body_bytes),
    )


def against_own_conventional(figure: Figure, body_bytes: int) -> Measured:
    """Our partitioned queue over our conventional one."""
    return lambda readings: ratio(
        readings.median(figure, PARTITIONED, body_bytes),
        readings.median(figure, CONVENTIONAL, body_bytes),
    )


def wait_against_peer(figure: Figure) -> Measured:
    """Our wait over the peer's. Only one of the peer's queues is read for it: its fastest."""
    return lambda readings: ratio(
        readings.median(figure, PARTITIONED, SMALL_BODY_BYTES),
        readings.best(figure, PEERS, SMALL_BODY_BYTES),
    )


def within_partitioned(figure: Figure, over: Figure) -> Measured:
    """One figure of our partitioned queue over another."""
    return lambda readings: ratio(value_of(readings, figure), value_of(readings, over))


def growth(readings: Readings) -> float | None:
    """Resident memory that a backlog adds to the empty broker."""
    backlog = value_of(readings, Figure.RESIDENT_BACKLOG)
    empty = value_of(readings, Figure.RESIDENT_EMPTY)
    return None if backlog is None or empty is None else backlog - empty


def value_of(readings: Readings, figure: Figure) -> float | None:
    """A figure of our partitioned queue."""
    return readings.median(figure, PARTITIONED, SMALL_BODY_BYTES)


def of_partitioned(figure: Figure) -> Measured:
    """The figure itself."""
    return lambda readings: value_of(readings, figure)


def throughput_promises(body_bytes: int) -> list[Promise]:
    """The promises that hold at every body size."""

    def promise(name: str, measured: Measured, at_least: float) -> Promise:
        return Promise(f"{name}, {body_bytes} B", "throughput", measured, at_least=at_least)

    send, receive = Figure.SEND, Figure.RECEIVE
    return [
        promise("send / better peer", against_better_peer(send, body_bytes), SEND_RATIO_MIN),
        promise(
            "receive / better peer", against_better_peer(receive, body_bytes), RECEIVE_RATIO_MIN
        ),
        promise(
            "send, partitioned / conventional",
            against_own_conventional(send, body_bytes),
            PARTITIONED_RATIO_MIN,
        ),
        promise(
            "receive, partitioned / conventional",
            against_own_conventional(receive, body_bytes),
            PARTITIONED_RATIO_MIN,
        ),
        Promise(
            f"messages back after receive, {body_bytes} B",
            "throughput",
            lambda readings: readings.median(Figure.BACK_AFTER_RECEIVE, PARTITIONED, body_bytes),
            at_most=0,
        ),
    ]


PROMISES: Final = (
    *(promise for body_bytes in FULL.body_bytes for promise in throughput_promises(body_bytes)),
    Promise(
        "acknowledgement p50 / peer",
        "latency",
        wait_against_peer(Figure.ACKNOWLEDGE_P50),
        at_most=1,
    ),
    Promise(
        "acknowledgement p99 / peer",
        "latency",
        wait_against_peer(Figure.ACKNOWLEDGE_P99),
        at_most=1,
    ),
    Promise(
        "memory per idle connection, KB",
        "idle",
        lambda readings: readings.median(Figure.CONNECTION_RESIDENT, PARTITIONED, NO_BODY),
        at_most=CONNECTION_KB_MAX,
    ),
    Promise(
        "send, backlog / empty",
        "backlog",
        within_partitioned(Figure.BACKLOG_SEND, Figure.EMPTY_SEND),
        at_least=BACKLOG_RATIO_MIN,
    ),
    Promise(
        "receive, backlog / empty",
        "backlog",
        within_partitioned(Figure.BACKLOG_RECEIVE, Figure.EMPTY_RECEIVE),
        at_least=BACKLOG_RATIO_MIN,
    ),
    Promise("memory of the backlog, MB", "backlog", growth, at_most=BACKLOG_RESIDENT_MB_MAX),
    Promise(
        "restart to first delivery, stopped, s",
        "backlog",
        of_partitioned(Figure.RESTART_STOPPED),
        at_most=RESTART_SECONDS_MAX,
    ),
    Promise(
        "restart to first delivery, killed, s",
        "backlog",
        of_partitioned(Figure.RESTART_KILLED),
        at_most=RESTART_SECONDS_MAX,
    ),
    *FEATURE_PROMISES,
    *DOOR_PROMISES,
    *SPARK_PROMISES,
    *SCALE_PROMISES,
)
