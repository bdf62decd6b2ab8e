"""What the project promises of growing past one process."""

from typing import Final

from bench.promise import Measured, Promise, ratio
from bench.readings import Figure
from bench.scenarios import SMALL_BODY_BYTES

STORE_SEND_RATIO_MIN: Final = 0.6
STORE_RECEIVE_RATIO_MIN: Final = 0.5
WORKERS_RATIO_MIN: Final = 1.3
VAIN_PERCENT_MAX: Final = 5.0

_STORE: Final = "bendybus postgresql"
_BROKER: Final = "bendybus partitioned"


def _over(figure: Figure, other: Figure, target: str) -> Measured:
    return lambda readings: ratio(
        readings.median(figure, target, SMALL_BODY_BYTES),
        readings.median(other, target, SMALL_BODY_BYTES),
    )


SCALE_PROMISES: Final = (
    Promise(
        "send to a PostgreSQL store / plain INSERT",
        "postgres",
        _over(Figure.STORE_SEND, Figure.PLAIN_INSERT, _STORE),
        at_least=STORE_SEND_RATIO_MIN,
    ),
    Promise(
        "receive and settle from a PostgreSQL store / plain INSERT",
        "postgres",
        _over(Figure.STORE_RECEIVE, Figure.PLAIN_INSERT, _STORE),
        at_least=STORE_RECEIVE_RATIO_MIN,
    ),
    Promise(
        "send by two clients, two workers / one",
        "workers",
        _over(Figure.TWO_WORKERS_SEND, Figure.ONE_WORKER_SEND, _BROKER),
        at_least=WORKERS_RATIO_MIN,
    ),
    Promise(
        "receive by two clients, two workers / one",
        "workers",
        _over(Figure.TWO_WORKERS_RECEIVE, Figure.ONE_WORKER_RECEIVE, _BROKER),
        at_least=WORKERS_RATIO_MIN,
    ),
    Promise(
        "send by two light clients, two workers / one",
        "workers",
        _over(Figure.TWO_WORKERS_LIGHT_SEND, Figure.ONE_WORKER_LIGHT_SEND, _BROKER),
        at_least=WORKERS_RATIO_MIN,
    ),
    Promise(
        "receive by two light clients, two workers / one",
        "workers",
        _over(Figure.TWO_WORKERS_LIGHT_RECEIVE, Figure.ONE_WORKER_LIGHT_RECEIVE, _BROKER),
        at_least=WORKERS_RATIO_MIN,
    ),
    Promise(
        "acquires in vain by three front ends, %",
        "front-ends",
        lambda readings: readings.median(Figure.VAIN_ACQUIRES, _STORE, SMALL_BODY_BYTES),
        at_most=VAIN_PERCENT_MAX,
    ),
)
