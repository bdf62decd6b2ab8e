"""What the project promises of the doors beside AMQP."""

from typing import Final

from bench.doors.scenarios import DOORS
from bench.promise import Measured, Promise
from bench.readings import Figure
from bench.scenarios import SMALL_BODY_BYTES

REST_SENDS_PER_SECOND_MIN: Final = 3_000.0
MANAGEMENT_GETS_PER_SECOND_MIN: Final = 500.0
REDRIVEN_PER_SECOND_MIN: Final = 20_000.0


def rest_send(kind: str) -> Measured:
    """Sends over HTTP on 16 kept connections."""
    target = f"bendybus {kind}"
    return lambda readings: readings.median(Figure.REST_SEND, target, SMALL_BODY_BYTES)


def management_get(kind: str) -> Measured:
    """An entity shown, of a thousand, on 16 kept connections."""
    target = f"bendybus {kind}"
    return lambda readings: readings.median(Figure.MANAGEMENT_GET, target, SMALL_BODY_BYTES)


def redriven(kind: str) -> Measured:
    """Dead letters moved back to their queue."""
    target = f"bendybus {kind}"
    return lambda readings: readings.median(Figure.REDRIVE, target, SMALL_BODY_BYTES)


DOOR_PROMISES: Final = (
    *(
        Promise(f"REST sends/s, {kind}", "rest", rest_send(kind), REST_SENDS_PER_SECOND_MIN)
        for kind in DOORS["rest"].kinds
    ),
    *(
        Promise(
            f"management gets/s of 1,000 entities, {kind}",
            "management",
            management_get(kind),
            MANAGEMENT_GETS_PER_SECOND_MIN,
        )
        for kind in DOORS["management"].kinds
    ),
    *(
        Promise(
            f"dead letters redriven/s, {kind}", "redrive", redriven(kind), REDRIVEN_PER_SECOND_MIN
        )
        for kind in DOORS["redrive"].kinds
    ),
)
