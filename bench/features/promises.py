"""What the project promises that a feature may cost, each held against the broker without it."""

from typing import Final

from bench.features.filters import IN_PROCESS
from bench.features.scenarios import FEATURES
from bench.promise import Measured, Promise, ratio
from bench.readings import Figure
from bench.scenarios import NO_BODY, SMALL_BODY_BYTES
from bench.size import FULL

TOPIC_SEND_RATIO_MIN: Final = 0.35
TOPIC_STORED_RATIO_MAX: Final = 1.3
SESSIONS_RATIO_MIN: Final = 0.5
ACCEPT_RATIO_MAX: Final = 3.0
DUPLICATES_RATIO_MIN: Final = 0.7
SQL_FILTER_PER_SECOND_MIN: Final = 300_000.0
CORRELATIONS_RATIO_MAX: Final = 3.0
BESIDE_RATIO_MAX: Final = 2.0


def over(figure: Figure, other: Figure, kind: str, body_bytes: int) -> Measured:
    """One figure of our own over another, of the same kind of entity."""
    target = f"bendybus {kind}"
    return lambda readings: ratio(
        readings.median(figure, target, body_bytes), readings.median(other, target, body_bytes)
    )


def topic_promises(kind: str) -> list[Promise]:
    """Sends and bytes of a topic against a queue's, at every size of body."""
    promises = []
    for body_bytes in FULL.body_bytes:
        send = over(Figure.TOPIC_SEND, Figure.NO_TOPIC_SEND, kind, body_bytes)
        stored = over(Figure.TOPIC_STORED, Figure.NO_TOPIC_STORED, kind, body_bytes)
        where = f"{kind}, {body_bytes} B"
        promises += [
            Promise(f"send, topic / queue, {where}", "topics", send, TOPIC_SEND_RATIO_MIN),
            Promise(
                f"stored, topic / queue, {where}", "topics", stored, at_most=TOPIC_STORED_RATIO_MAX
            ),
        ]
    return promises


def session_promises(kind: str) -> list[Promise]:
    """Receiving in sessions against receiving without; many sessions against few."""
    receive = over(Figure.SESSIONS_RECEIVE, Figure.NO_SESSIONS_RECEIVE, kind, SMALL_BODY_BYTES)
    accept = over(Figure.ACCEPT_MANY, Figure.ACCEPT_FEW, kind, NO_BODY)
    return [
        Promise(f"receive, sessions / none, {kind}", "sessions", receive, SESSIONS_RATIO_MIN),
        Promise(
            f"accept next, many sessions / few, {kind}",
            "sessions",
            accept,
            at_most=ACCEPT_RATIO_MAX,
        ),
    ]


def duplicate_promises(kind: str) -> list[Promise]:
    """Sends with duplicate detection against sends without."""
    send = over(Figure.DUPLICATES_SEND, Figure.NO_DUPLICATES_SEND, kind, SMALL_BODY_BYTES)
    name = f"send, duplicate detection / none, {kind}"
    return [Promise(name, "duplicates", send, DUPLICATES_RATIO_MIN)]


def filter_promises(kind: str) -> list[Promise]:
    """A filter by itself, and the cost of a send, which is the inverse of the rate."""
    cost = over(Figure.CORRELATIONS_FEW_SEND, Figure.CORRELATIONS_MANY_SEND, kind, SMALL_BODY_BYTES)
    return [
        Promise(
            "SQL filter, evaluations/s on one core",
            "filters",
            lambda readings: readings.median(Figure.SQL_FILTER, IN_PROCESS, NO_BODY),
            SQL_FILTER_PER_SECOND_MIN,
        ),
        Promise(
            f"cost of a send, many correlation filters / few, {kind}",
            "filters",
            cost,
            at_most=CORRELATIONS_RATIO_MAX,
        ),
    ]


def due_promises(kind: str) -> list[Promise]:
    """The waits of other traffic, with much becoming due against nothing becoming due."""
    nothing = Figure.BESIDE_NOTHING_P99
    schedules = over(Figure.BESIDE_SCHEDULES_P99, nothing, kind, SMALL_BODY_BYTES)
    locks = over(Figure.BESIDE_LOCKS_P99, nothing, kind, SMALL_BODY_BYTES)
    return [
        Promise("p99 beside schedules due / nothing", "due", schedules, at_most=BESIDE_RATIO_MAX),
        Promise("p99 beside locks ending / nothing", "due", locks, at_most=BESIDE_RATIO_MAX),
    ]


_MAKERS: Final = {
    "topics": topic_promises,
    "sessions": session_promises,
    "duplicates": duplicate_promises,
    "filters": filter_promises,
    "due": due_promises,
}

FEATURE_PROMISES: Final = tuple(
    promise
    for name, feature in FEATURES.items()
    for kind in feature.kinds
    for promise in _MAKERS[name](kind)
)
