"""What a refusal looks like over Flight: one table of kinds, and what machines read beside it.

Flight has few kinds of errors, so each carries as its extra info a JSON object with our own code,
the sentence alone, whether trying again can help, and the id by which the log knows it.
"""

import json
import logging
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from pyarrow import flight

from bendybus.model.errors import BusError, MessagingInternal

_log = logging.getLogger(__name__)

# What is not here is the caller's mistake, or a state of the entity: `FlightServerError`.
KINDS: Final[Mapping[str, type[Exception]]] = {
    "authentication-failed": flight.FlightUnauthenticatedError,
    "token-malformed": flight.FlightUnauthenticatedError,
    "unauthorized": flight.FlightUnauthorizedError,
    "server-busy": flight.FlightUnavailableError,
    "throttled": flight.FlightUnavailableError,
    "store-unavailable": flight.FlightUnavailableError,
    "store-failed": flight.FlightUnavailableError,
    "operation-timeout": flight.FlightTimedOutError,
    "message-damaged": flight.FlightInternalError,
    "internal-error": flight.FlightInternalError,
}


def flight_error(error: BusError, tracking_id: UUID) -> Exception:
    """Return the error as it is sent."""
    _log.info("refused: %s", error, extra={"code": error.code, "tracking_id": tracking_id})
    kind = KINDS.get(error.code, flight.FlightServerError)
    told = {
        "code": error.code,
        "text": error.message,
        "retryable": error.is_retryable,
        "tracking_id": str(tracking_id),
    }
    text = f"{error.message} TrackingId:{tracking_id}".encode(errors="backslashreplace")
    refusal: Exception = kind(text.decode(), json.dumps(told).encode())
    return refusal


def unforeseen(error: BaseException, tracking_id: UUID) -> Exception:
    """Return what is sent for a defect: its text may hold what callers should not see."""
    _log.error("call failed", exc_info=error, extra={"tracking_id": tracking_id})
    hidden = MessagingInternal("The broker failed to answer; see its log.")
    return flight_error(hidden, tracking_id)
