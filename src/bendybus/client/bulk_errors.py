"""What the bulk door refuses, as the errors of every client."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyarrow import ArrowException, flight

from bendybus.client.errors import (
    ArgumentInvalid,
    ClientError,
    ConnectionLost,
    EntityDisabled,
    EntityNotFound,
    InvalidOperation,
    MessageTooLarge,
    NotServed,
    QuotaExceeded,
    ServerBusy,
    ServerFailed,
    TimedOut,
    Unauthorized,
)

_BY_CODE: Final[Mapping[str, type[ClientError]]] = {
    "entity-not-found": EntityNotFound,
    "entity-disabled": EntityDisabled,
    "message-too-large": MessageTooLarge,
    "quota-exceeded": QuotaExceeded,
    "invalid-operation": InvalidOperation,
    "argument-invalid": ArgumentInvalid,
    "argument-out-of-range": ArgumentInvalid,
    "not-implemented": NotServed,
    "authentication-failed": Unauthorized,
    "token-malformed": Unauthorized,
    "unauthorized": Unauthorized,
    "server-busy": ServerBusy,
    "throttled": ServerBusy,
    "operation-timeout": TimedOut,
    "store-unavailable": ServerBusy,
    "store-failed": ServerFailed,
    "message-damaged": ServerFailed,
    "internal-error": ServerFailed,
}


@contextmanager
def translated(endpoint: str) -> Iterator[None]:
    """Raise as a `ClientError` whatever goes wrong in a call to an endpoint."""
    try:
        yield
    except ArrowException as error:
        raise error_of_flight(error, endpoint) from None


def error_of_flight(error: Exception, endpoint: str) -> ClientError:
    """Translate an error of Flight: what the broker told of it, or what gRPC made of it."""
    told = _told(error)
    if told is not None:
        kind = _BY_CODE.get(told["code"], ClientError)
        return kind(told["text"], condition=told["code"], is_retryable=told["retryable"])
    # The rest is gRPC's own account of it, with the place in its source.
    text = str(error).partition(". Detail:")[0].partition(". gRPC client debug context")[0]
    if isinstance(error, flight.FlightUnavailableError):
        return ConnectionLost(f"no broker answers at {endpoint} ({text})")
    if isinstance(error, flight.FlightTimedOutError):
        return TimedOut(f"{endpoint} did not answer in time")
    if isinstance(error, flight.FlightCancelledError):
        return ConnectionLost(f"the call to {endpoint} was cut off ({text})")
    return ClientError(f"{endpoint}: {text}")


def _told(error: Exception) -> dict[str, Any] | None:
    if not isinstance(error, flight.FlightError):
        return None
    try:
        told = json.loads(error.extra_info)
    except ValueError:
        return None
    return told if isinstance(told, dict) and {"code", "text", "retryable"} <= set(told) else None
