"""What the project promises of the doors beside AMQP."""

from typing import Final

from bench.doors.scenarios import DOORS
from bench.promise import Measured, Promise
from bench.readings import Figure
from bench.scenarios import SMALL_BODY_BYTES

REST_SENDS_PER_SECOND_MIN: Final = 3_000.0


def rest_send(kind: str) -> Measured:
    """Sends over HTTP on 16 kept connections."""
    target = f"bendybus {kind}"
    return lambda readings: readings.median(Figure.REST_SEND, target, SMALL_BODY_BYTES)


DOOR_PROMISES: Final = tuple(
    Promise(f"REST sends/s, {kind}", "rest", rest_send(kind), REST_SENDS_PER_SECOND_MIN)
    for kind in DOORS["rest"].kinds
)
