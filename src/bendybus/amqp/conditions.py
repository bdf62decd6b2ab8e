"""Error symbols of the AMQP 1.0 standard (§2.8.15 to §2.8.18, §4.5.8)."""

from __future__ import annotations

from typing import Final

from bendybus.amqp.values import Symbol

INTERNAL_ERROR: Final = Symbol("amqp:internal-error")
NOT_FOUND: Final = Symbol("amqp:not-found")
UNAUTHORIZED_ACCESS: Final = Symbol("amqp:unauthorized-access")
DECODE_ERROR: Final = Symbol("amqp:decode-error")
RESOURCE_LIMIT_EXCEEDED: Final = Symbol("amqp:resource-limit-exceeded")
NOT_ALLOWED: Final = Symbol("amqp:not-allowed")
INVALID_FIELD: Final = Symbol("amqp:invalid-field")
NOT_IMPLEMENTED: Final = Symbol("amqp:not-implemented")
RESOURCE_LOCKED: Final = Symbol("amqp:resource-locked")
PRECONDITION_FAILED: Final = Symbol("amqp:precondition-failed")
RESOURCE_DELETED: Final = Symbol("amqp:resource-deleted")
ILLEGAL_STATE: Final = Symbol("amqp:illegal-state")
FRAME_SIZE_TOO_SMALL: Final = Symbol("amqp:frame-size-too-small")

CONNECTION_FORCED: Final = Symbol("amqp:connection:forced")
FRAMING_ERROR: Final = Symbol("amqp:connection:framing-error")
CONNECTION_REDIRECT: Final = Symbol("amqp:connection:redirect")

WINDOW_VIOLATION: Final = Symbol("amqp:session:window-violation")
ERRANT_LINK: Final = Symbol("amqp:session:errant-link")
HANDLE_IN_USE: Final = Symbol("amqp:session:handle-in-use")
UNATTACHED_HANDLE: Final = Symbol("amqp:session:unattached-handle")

DETACH_FORCED: Final = Symbol("amqp:link:detach-forced")
TRANSFER_LIMIT_EXCEEDED: Final = Symbol("amqp:link:transfer-limit-exceeded")
MESSAGE_SIZE_EXCEEDED: Final = Symbol("amqp:link:message-size-exceeded")
LINK_REDIRECT: Final = Symbol("amqp:link:redirect")
LINK_STOLEN: Final = Symbol("amqp:link:stolen")

TRANSACTION_UNKNOWN_ID: Final = Symbol("amqp:transaction:unknown-id")
TRANSACTION_ROLLBACK: Final = Symbol("amqp:transaction:rollback")
TRANSACTION_TIMEOUT: Final = Symbol("amqp:transaction:timeout")
