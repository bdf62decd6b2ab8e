"""Every refusal the broker can give, one class each, with a code that never changes.

Two families, because two audiences read them:

1. `BusError`: a client's request was refused. The edges turn it into an AMQP condition
   (`server/translate.py`) or an HTTP answer (`http/problems.py`), by one table each.
2. `StartRefused`: the broker will not start. The command line prints it as one line.

Codes are part of the interface: docs/errors.md lists all of them, and a test keeps it so.
"""

import math
from collections.abc import Iterator
from typing import ClassVar, TypeVar

Refusal = TypeVar("Refusal", bound=Exception)


class BusError(Exception):
    """A request was refused; nothing it asked for was done unless the subclass says otherwise."""

    code: ClassVar[str] = "bus-error"
    is_retryable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class EntityNotFound(BusError):
    """No queue, topic or subscription has that name."""

    code = "entity-not-found"

    @classmethod
    def named(cls, resource: str) -> "EntityNotFound":
        """Make the refusal with the text by which the JavaScript and Java clients recognise it."""
        return cls(
            f"The messaging entity '{resource}' could not be found."
            " To know more visit https://aka.ms/sbResourceMgrExceptions."
        )


class EntityExists(BusError):
    """An entity of that name is there already."""

    code = "entity-exists"


class EntityDisabled(BusError):
    """The entity's status forbids this direction."""

    code = "entity-disabled"


class MessageLockLost(BusError):
    """The lock on the message ended, or was never this token's."""

    code = "message-lock-lost"


class SessionLockLost(BusError):
    """The lock on the session ended."""

    code = "session-lock-lost"

    @classmethod
    def ended(cls) -> "SessionLockLost":
        """Make the refusal in the service's own words."""
        return cls(
            "The session lock has expired on the MessageSession. Accept a new MessageSession."
        )


class SessionCannotBeLocked(BusError):
    """Another receiver holds the session."""

    code = "session-cannot-be-locked"


class ReaderInUse(BusError):
    """Somebody else has used the reader within the last minute."""

    code = "reader-in-use"

    @classmethod
    def named(cls, name: str, seconds: int) -> "ReaderInUse":
        """Make the refusal that says how long ago, and what to do."""
        return cls(
            f"The reader '{name}' is in use by another query, which was active {seconds} seconds"
            " ago. Stop that one, or read under another name."
        )


class ReaderLost(BusError):
    """The token is not, or no longer, the one of the reader, or its place is not where it says."""

    code = "reader-lost"

    @classmethod
    def unknown(cls, name: str) -> "ReaderLost":
        """Make the refusal for a reader that is not here."""
        return cls(
            f"There is no reader '{name}': what it had reserved was given back, or the entity is"
            " another one of the same name. Begin anew, with a new checkpoint."
        )

    @classmethod
    def taken_over(cls, name: str) -> "ReaderLost":
        """Make the refusal for one who had the reader before."""
        return cls(f"The reader '{name}' was taken over by another query, or is being released.")

    @classmethod
    def elsewhere(cls, name: str, position: int, committed: int, last: int) -> "ReaderLost":
        """Make the refusal for a place that is behind or beyond what the reader has."""
        return cls(
            f"The reader '{name}' is done with its reservations up to {committed} and has none"
            f" beyond {last}; {position} is not between them. A checkpoint of another time or"
            " another entity was used; begin anew, with a new one."
        )


class MessageNotFound(BusError):
    """No message answers to that sequence number."""

    code = "message-not-found"


class MessageTooLarge(BusError):
    """The message, or a batch of them, exceeds the entity's limit."""

    code = "message-too-large"


class MessageDamaged(BusError):
    """The stored bytes no longer match their checksum; they are never delivered as good."""

    code = "message-damaged"


class QuotaExceeded(BusError):
    """The entity or the namespace is full."""

    code = "quota-exceeded"


class InvalidOperation(BusError):
    """The request contradicts itself or the entity: allowed for nobody, however often retried."""

    code = "invalid-operation"


class ArgumentInvalid(BusError):
    """A value of the request is malformed; `argument` names it where that is known."""

    code = "argument-invalid"

    def __init__(self, message: str, *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class ArgumentOutOfRange(ArgumentInvalid):
    """A value of the request is well formed but outside its bounds."""

    code = "argument-out-of-range"


class NotImplementedYet(BusError):
    """The operation belongs to the protocol, but this version does not serve it."""

    code = "not-implemented"


class AuthenticationFailed(BusError):
    """The token proves nothing: wrong signature, unknown rule, expired or for something else."""

    code = "authentication-failed"


class TokenMalformed(AuthenticationFailed):
    """The text is not a token at all. Apart, because `$cbs` answers 400 to it and not 401."""

    code = "token-malformed"


class Unauthorized(BusError):
    """The caller is known but lacks the right."""

    code = "unauthorized"

    @classmethod
    def missing(cls, right: str, resource: str) -> "Unauthorized":
        """Make the refusal for a right (`Send`, `Listen`, `Manage`) in the service's own words."""
        return cls(
            f"Unauthorized access. '{right}' claim(s) are required to perform this operation."
            f" Resource: '{resource}'."
        )


class TransactionUnknown(BusError):
    """No open transaction of this connection has that id."""

    code = "transaction-unknown"


class TransactionTimedOut(BusError):
    """The transaction was open for too long and has been rolled back."""

    code = "transaction-timed-out"


class TransactionRolledBack(BusError):
    """The transaction could not be committed; nothing of it has happened."""

    code = "transaction-rolled-back"


class ServerBusy(BusError):
    """A bound of the broker was reached; trying again later will help."""

    code = "server-busy"
    is_retryable = True


class Throttled(ServerBusy):
    """More requests came in a second than are let through."""

    code = "throttled"

    def __init__(self, message: str, retry_after_seconds: int = 1) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds

    @classmethod
    def for_seconds(cls, seconds: float) -> "Throttled":
        """Make the refusal that says when to come back."""
        whole = max(1, math.ceil(seconds))
        return cls(f"Too many requests in a second; try again in {whole} seconds.", whole)


class OperationTimeout(BusError):
    """The time the client allowed ran out."""

    code = "operation-timeout"
    is_retryable = True


class StoreUnavailable(BusError):
    """The store that the request needs is offline. Nothing was written."""

    code = "store-unavailable"
    is_retryable = True

    def __init__(
        self, store: int, reason: str, *, entity: str | None = None, fragment: int | None = None
    ) -> None:
        place = "" if fragment is None else f", which holds fragment {fragment} of '{entity}',"
        super().__init__(f"Messaging store {store}{place} is unavailable: {reason}.")
        self.store = store
        self.reason = reason
        self.entity = entity
        self.fragment = fragment


class StoreFailed(BusError):
    """The store failed during the write, so whether it was kept is unknown.

    Unlike `StoreUnavailable` the request must not be moved to another store: it could then
    exist twice. The client decides, as it would after a lost connection.
    """

    code = "store-failed"
    is_retryable = True

    def __init__(self, store: int, reason: str) -> None:
        super().__init__(f"Messaging store {store} failed while writing: {reason}.")
        self.store = store
        self.reason = reason


class StoreNotFound(BusError):
    """There is no messaging store of that number."""

    code = "store-not-found"


class MessagingInternal(BusError):
    """A defect of the broker, caught at the edge."""

    code = "internal-error"
    is_retryable = True


class StartRefused(Exception):
    """The broker will not start; the text says why and what to do."""

    code: ClassVar[str] = "start-refused"


class SettingInvalid(StartRefused):
    """An option, environment variable or setting of the file has a value we cannot use."""

    code = "setting-invalid"


class KeyRequired(StartRefused):
    """The well-known development key was about to be served beyond this machine."""

    code = "key-required"


class EncryptionRequired(StartRefused):
    """Messages and keys were about to be readable on the way to other machines."""

    code = "encryption-required"


class CertificateRefused(StartRefused):
    """The certificate or its key cannot be served; the text says what is wrong with which."""

    code = "certificate-refused"


class ConfigInvalid(StartRefused):
    """The configuration file is wrong; the text names the place and what would be right."""

    code = "config-invalid"


class DataFolderUnusable(StartRefused):
    """The data folder cannot be created, read or written."""

    code = "data-folder-unusable"


class DataFolderInUse(StartRefused):
    """Another broker runs on the data folder."""

    code = "data-folder-in-use"


class StoreRefused(StartRefused):
    """A database server will not serve a store as it was asked for, until somebody mends that."""

    code = "store-refused"


class StoreMismatch(StartRefused):
    """A database is not the store that it is listed as."""

    code = "store-mismatch"


class BackupUnusable(StartRefused):
    """A folder cannot take a backup, or the one that it holds cannot be restored."""

    code = "backup-unusable"


class PortInUse(StartRefused):
    """Another process listens on the port."""

    code = "port-in-use"


def every_refusal() -> Iterator[type[BusError]]:
    """Yield each class of `BusError`, so that tests can hold tables and docs against the list."""
    return _descendants(BusError)


def every_start_refusal() -> Iterator[type[StartRefused]]:
    """Yield each class of `StartRefused`, for the same purpose."""
    return _descendants(StartRefused)


def _descendants(root: type[Refusal]) -> Iterator[type[Refusal]]:
    for child in root.__subclasses__():
        yield child
        yield from _descendants(child)
