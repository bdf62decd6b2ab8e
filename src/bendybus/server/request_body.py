"""The bodies of management requests and responses: fields taken out, or a clear refusal."""

import uuid
from typing import Any, Final

from bendybus.amqp.values import AmqpArray, Int, Symbol
from bendybus.broker.settle import LOCK_LOST
from bendybus.content.outgoing_message import encode_changes, lock_of_token
from bendybus.model.errors import (
    ArgumentInvalid,
    ArgumentOutOfRange,
    MessageLockLost,
    MessageNotFound,
)
from bendybus.model.message import Lock
from bendybus.model.outcome import Abandon, Complete, DeadLetter, Defer, Outcome, Release

LOCK_TOKENS_MAX: Final = 4096
_NUMBER_MAX: Final = 2**63 - 1

# The properties and the body of a response.
Response = tuple[dict[object, object], object]


def succeeded() -> dict[object, object]:
    """Return the properties of a response that says yes."""
    return {"statusCode": Int(200), "statusDescription": "OK"}


def nothing_found(
    what: str, condition: str = "com.microsoft:message-not-found"
) -> dict[object, object]:
    """Return the properties of a response that says: yes, but there is nothing."""
    return {
        "statusCode": Int(204),
        "statusDescription": f"No {what}.",
        "errorCondition": Symbol(condition),
    }


def number(body: dict[str, Any], name: str, default: int) -> int:
    """Return a whole number."""
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentInvalid(f"{name} must be a number.")
    return int(value)


def sequences(body: dict[str, Any]) -> list[int]:
    """Return the sequence numbers that a request names; at least one."""
    given = body.get("sequence-numbers")
    items = given.items if isinstance(given, AmqpArray) else given
    if not isinstance(items, list | tuple) or not items:
        raise ArgumentInvalid("sequence-numbers must be an array of at least one long.")
    numbers = [int(each) for each in items if isinstance(each, int) and type(each) is not bool]
    if len(numbers) != len(items):
        raise ArgumentInvalid("sequence-numbers must be an array of long.")
    if min(numbers) < 0 or max(numbers) > _NUMBER_MAX:
        raise MessageNotFound("There is no message with a negative sequence number.")
    return numbers


def locks(body: dict[str, Any]) -> list[Lock]:
    """Return the locks that a request names by their tokens; at least one."""
    tokens = body.get("lock-tokens")
    items = tokens.items if isinstance(tokens, AmqpArray) else tokens
    if not isinstance(items, list | tuple) or not items:
        raise ArgumentInvalid("lock-tokens must be an array of at least one uuid.")
    if len(items) > LOCK_TOKENS_MAX:
        raise ArgumentOutOfRange(f"At most {LOCK_TOKENS_MAX} lock-tokens fit in one request.")
    found: list[Lock] = []
    for token in items:
        if not isinstance(token, uuid.UUID):
            raise ArgumentInvalid("lock-tokens must be an array of uuid.")
        lock = lock_of_token(token)
        if lock.sequence > _NUMBER_MAX or lock.nonce > _NUMBER_MAX:
            raise MessageLockLost(LOCK_LOST)
        found.append(lock)
    return found


def text(body: dict[str, Any], name: str) -> str | None:
    """Return a text, or None if there is none."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise ArgumentInvalid(f"{name} must be a string.")
    return value


def settlement(body: dict[str, Any]) -> Outcome:
    """Return what is to become of the messages that an `update-disposition` names."""
    changes = body.get("properties-to-modify")
    if changes is not None and not isinstance(changes, dict):
        raise ArgumentInvalid("properties-to-modify must be a map.")
    encoded = encode_changes(changes) if changes else None
    match body.get("disposition-status"):
        case "completed":
            return Complete()
        case "abandoned":
            return Abandon(encoded)
        case "unlocked":
            return Release()
        case "defered" | "deferred":  # The protocol's own spelling, and the right one.
            return Defer(encoded)
        case "suspended":
            return DeadLetter(
                text(body, "deadletter-reason"), text(body, "deadletter-description"), encoded
            )
        case status:
            raise ArgumentInvalid(f"disposition-status '{status}' is not known.")
