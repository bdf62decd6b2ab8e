"""One table from refusals to AMQP conditions, and the words around them."""

import logging
import uuid
from datetime import UTC, datetime
from typing import Final, NamedTuple

from bendybus.amqp.outcomes import (
    Accepted,
    AmqpError,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from bendybus.amqp.values import Symbol
from bendybus.content.outgoing_message import encode_changes
from bendybus.model.errors import ArgumentInvalid, BusError
from bendybus.model.ids import Instant
from bendybus.model.outcome import Abandon, Complete, DeadLetter, Defer, Outcome, Release

ACCEPTED: Final = Accepted()

_log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """How a refusal looks on a link, and as the status of a request."""

    condition: str
    status: int


CONDITIONS: Final[dict[str, Answer]] = {
    "entity-not-found": Answer("amqp:not-found", 404),
    "entity-exists": Answer("com.microsoft:entity-already-exists", 409),
    "entity-disabled": Answer("com.microsoft:entity-disabled", 400),
    "message-lock-lost": Answer("com.microsoft:message-lock-lost", 410),
    "session-lock-lost": Answer("com.microsoft:session-lock-lost", 410),
    "session-cannot-be-locked": Answer("com.microsoft:session-cannot-be-locked", 410),
    "reader-in-use": Answer("bendybus:reader-in-use", 409),
    "reader-lost": Answer("bendybus:reader-lost", 410),
    "message-not-found": Answer("com.microsoft:message-not-found", 404),
    "message-too-large": Answer("amqp:link:message-size-exceeded", 403),
    "message-damaged": Answer("amqp:internal-error", 500),
    "quota-exceeded": Answer("amqp:resource-limit-exceeded", 403),
    "invalid-operation": Answer("amqp:not-allowed", 400),
    "argument-invalid": Answer("com.microsoft:argument-error", 400),
    "argument-out-of-range": Answer("com.microsoft:argument-out-of-range", 400),
    "not-implemented": Answer("amqp:not-implemented", 501),
    "authentication-failed": Answer("com.microsoft:auth-failed", 401),
    "token-malformed": Answer("com.microsoft:auth-failed", 400),
    "unauthorized": Answer("amqp:unauthorized-access", 401),
    "transaction-unknown": Answer("amqp:transaction:unknown-id", 404),
    "transaction-timed-out": Answer("amqp:transaction:timeout", 408),
    "transaction-rolled-back": Answer("amqp:transaction:rollback", 409),
    "server-busy": Answer("com.microsoft:server-busy", 503),
    "throttled": Answer("com.microsoft:server-busy", 503),
    "operation-timeout": Answer("com.microsoft:timeout", 408),
    "store-unavailable": Answer("com.microsoft:server-busy", 503),
    "store-failed": Answer("amqp:internal-error", 500),
    "store-not-found": Answer("amqp:not-found", 404),
    "internal-error": Answer("amqp:internal-error", 500),
}


def amqp_error(error: BusError, now: Instant) -> AmqpError:
    """Return the error as it is sent, with the trailer that the service adds."""
    return AmqpError(Symbol(CONDITIONS[error.code].condition), description_of(error, now), {})


def description_of(error: BusError, now: Instant) -> str:
    """Return the text of an error; tracking id and time let a report be found in the log."""
    moment = datetime.fromtimestamp(now / 1000, UTC)
    tracking_id = uuid.uuid4()
    _log.info("refused: %s", error, extra={"code": error.code, "tracking_id": tracking_id})
    return f"{error} TrackingId:{tracking_id}, Timestamp:{moment:%Y-%m-%dT%H:%M:%S}"


def rejected(error: BusError, now: Instant) -> Rejected:
    """Return the outcome that refuses a delivery or a settlement."""
    return Rejected(amqp_error(error, now))


def outcome_of(state: object) -> Outcome:
    """Translate what a receiver said. No outcome at all means it did nothing with the message."""
    match state:
        case Accepted():
            return Complete()
        case Modified(undeliverable_here=True):
            return Defer(_changes(state.message_annotations))
        case Modified():
            return Abandon(_changes(state.message_annotations))
        case Rejected():
            return _dead_letter(state)
        case TransactionalState():
            raise ArgumentInvalid("The outcome within a transaction is itself transactional.")
        case _:
            return Release()


def answer_state(outcome: Outcome) -> object:
    """Return the state in which the broker confirms a settlement: the same kind, without details.

    Clients insist on the kind, and take a rejected state with an error for a failure.
    """
    match outcome:
        case Complete():
            return ACCEPTED
        case Abandon():
            return Modified(None, False, None)
        case Defer():
            return Modified(None, True, None)
        case DeadLetter():
            return Rejected(None)
        case Release():
            return Released()


def _dead_letter(state: Rejected) -> DeadLetter:
    if state.error is None:
        return DeadLetter()
    given = state.error.info or {}
    info: dict[object, object] = {str(key): value for key, value in given.items()}
    reason = info.pop("DeadLetterReason", None)
    description = info.pop("DeadLetterErrorDescription", None)
    if description is None:
        description = state.error.description
    return DeadLetter(
        reason if isinstance(reason, str) else None,
        description if isinstance(description, str) else None,
        _changes(info),
    )


def _changes(properties: dict[object, object] | None) -> bytes | None:
    return encode_changes(properties) if properties else None
