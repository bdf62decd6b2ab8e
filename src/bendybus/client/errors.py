"""What can go wrong for a client, one class per thing that a program would do differently.

Every error has the AMQP condition it came with, if any, and says whether trying the same again
can help. The broker's own words are the text.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from bendybus.amqp.outcomes import AmqpError


class ClientError(Exception):
    """Something was refused or failed; unless a subclass says otherwise, nothing was done."""

    default_retryable: ClassVar[bool] = False

    def __init__(
        self, description: str, *, condition: str | None = None, is_retryable: bool | None = None
    ) -> None:
        super().__init__(description)
        self.description = description
        self.condition = condition
        self.is_retryable = self.default_retryable if is_retryable is None else is_retryable


class ClientClosed(ClientError):
    """The client, sender or receiver was closed by the program itself."""


class ConnectionLost(ClientError):
    """There is no connection, or it ended; what was under way may or may not have been done."""

    default_retryable = True


class NotTrusted(ConnectionLost):
    """Nobody that this machine trusts vouches for the certificate of the server."""

    default_retryable = False


class LinkLost(ClientError):
    """The broker ended a link; what was under way on it may or may not have been done."""

    default_retryable = True


class TimedOut(ClientError):
    """The time allowed ran out; what was under way may or may not be done yet."""

    default_retryable = True


class ServerBusy(ClientError):
    """The broker, or the store that is needed, cannot now; later it can."""

    default_retryable = True


class ServerFailed(ClientError):
    """The broker failed; whether it did what was asked is unknown."""

    default_retryable = True


class EntityNotFound(ClientError):
    """No queue, topic or subscription has that name."""


class EntityExists(ClientError):
    """There is an entity of that name already."""


class EntityDisabled(ClientError):
    """The entity's status forbids this."""


class Unauthorized(ClientError):
    """The key or token is not good, or its rule lacks the right."""


class MessageLockLost(ClientError):
    """The lock on the message ended before it was settled; the message will come again."""


class SessionLockLost(ClientError):
    """The session is no longer held; accept it again."""


class SessionUnavailable(ClientError):
    """Another receiver holds the session."""


class MessageNotFound(ClientError):
    """No message answers to that sequence number."""


class MessageNotLocked(ClientError):
    """The message cannot be settled: it was peeked at, or received and deleted."""


class MessageTooLarge(ClientError):
    """The message or batch is larger than the entity takes."""


class QuotaExceeded(ClientError):
    """The entity is full, or the namespace has as many as it may have."""


class InvalidOperation(ClientError):
    """The request contradicts itself or the entity; it will never be allowed."""


class ArgumentInvalid(ClientError):
    """A value of the request is malformed or out of its bounds."""


class NotServed(ClientError):
    """The broker does not offer this operation."""


class TransactionFailed(ClientError):
    """The transaction was rolled back: nothing of it was done."""


class PartlyFailed(ClientError):
    """Of several messages some were done and some not; indices are those of the call's list.

    `refused` says why for each that was refused. Of `unknown` nothing is known: they were handed
    over, and the connection ended before the answer. All in `untried` were not handed over.
    """

    def __init__(
        self,
        cause: ClientError,
        *,
        done: list[int],
        refused: Mapping[int, ClientError],
        unknown: list[int],
        untried: list[int],
    ) -> None:
        parts = (("refused", refused), ("without an answer", unknown), ("not tried", untried))
        counts = ", ".join(f"{len(some)} {name}" for name, some in parts if some)
        super().__init__(
            f"{len(done)} done, {counts}: {cause.description}",
            condition=cause.condition,
            is_retryable=cause.is_retryable,
        )
        self.done = done
        self.refused = refused
        self.unknown = unknown
        self.untried = untried


_CLASSES: Final[Mapping[str, type[ClientError]]] = {
    "amqp:not-found": EntityNotFound,
    "com.microsoft:entity-disabled": EntityDisabled,
    "amqp:unauthorized-access": Unauthorized,
    "com.microsoft:auth-failed": Unauthorized,
    "com.microsoft:message-lock-lost": MessageLockLost,
    "com.microsoft:session-lock-lost": SessionLockLost,
    "com.microsoft:session-cannot-be-locked": SessionUnavailable,
    "com.microsoft:message-not-found": MessageNotFound,
    "amqp:link:message-size-exceeded": MessageTooLarge,
    "amqp:resource-limit-exceeded": QuotaExceeded,
    "amqp:not-allowed": InvalidOperation,
    "com.microsoft:argument-error": ArgumentInvalid,
    "com.microsoft:argument-out-of-range": ArgumentInvalid,
    "amqp:not-implemented": NotServed,
    "com.microsoft:server-busy": ServerBusy,
    "com.microsoft:timeout": TimedOut,
    "amqp:internal-error": ServerFailed,
    "amqp:link:detach-forced": LinkLost,
    "amqp:connection:forced": ConnectionLost,
    "amqp:transaction:rollback": TransactionFailed,
    "amqp:transaction:unknown-id": TransactionFailed,
    "amqp:transaction:timeout": TransactionFailed,
}
_BY_STATUS: Final[Mapping[int, type[ClientError]]] = {
    400: ArgumentInvalid,
    401: Unauthorized,
    403: Unauthorized,
    404: EntityNotFound,
    408: TimedOut,
    409: EntityExists,
    429: ServerBusy,
    500: ServerFailed,
    501: NotServed,
    503: ServerBusy,
}


def error_of(error: AmqpError | None, otherwise: type[ClientError] = ClientError) -> ClientError:
    """Translate what the broker sent; `otherwise` is for a condition that is not on the list."""
    if error is None:
        return otherwise("The broker gave no reason.")
    kind = _CLASSES.get(error.condition, otherwise)
    return kind(error.description or error.condition, condition=str(error.condition))


def error_of_status(status: int, description: str, condition: str | None) -> ClientError:
    """Translate the answer to a request: its condition says more than its number."""
    kind = _CLASSES.get(condition or "") or _BY_STATUS.get(status, ClientError)
    return kind(description or f"status {status}", condition=condition)
