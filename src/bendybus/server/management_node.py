"""`$management` of an entity: operations by request and response (R7.4)."""

import uuid
from typing import Any, Final

from bendybus.amqp.values import AmqpArray, Int, Symbol, Timestamp
from bendybus.broker.browse import browse
from bendybus.broker.clock import Clock
from bendybus.broker.deferred import receive_deferred
from bendybus.broker.receive import ReceiveMode
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.broker.settle import LOCK_LOST, renew, settle
from bendybus.model.access import Right
from bendybus.model.errors import (
    ArgumentInvalid,
    ArgumentOutOfRange,
    BusError,
    MessageLockLost,
    MessageNotFound,
    NotImplementedYet,
)
from bendybus.model.message import Lock
from bendybus.model.outcome import Abandon, Complete, DeadLetter, Defer, Outcome, Release
from bendybus.server.outgoing_message import (
    careful_payload,
    encode_changes,
    lock_of_token,
    lock_token,
)
from bendybus.server.requests import Request
from bendybus.server.translate import CONDITIONS, description_of

LOCK_TOKENS_MAX: Final = 4096
_NUMBER_MAX: Final = 2**63 - 1

# Operations of the protocol that this version does not serve, and the right each will need.
NOT_YET_SERVED: Final = frozenset(
    {
        "schedule-message",
        "cancel-scheduled-message",
        "renew-session-lock",
        "set-session-state",
        "get-session-state",
        "get-message-sessions",
        "add-rule",
        "remove-rule",
        "enumerate-rules",
        "batch-delete-messages",
    }
)

Response = tuple[dict[object, object], object]


class ManagementNode:
    """Answers management requests for one sub-queue."""

    def __init__(self, sub_queue: ServedSubQueue, clock: Clock) -> None:
        self._sub_queue = sub_queue
        self._clock = clock

    async def answer(self, request: Request) -> Response:
        """Do what the request asks; return properties and body of the response."""
        try:
            return await self._perform(request)
        except BusError as error:
            return self.refusal(error)

    def refusal(self, error: BusError) -> Response:
        """Return the response that says why not."""
        answer = CONDITIONS[error.code]
        properties: dict[object, object] = {
            "statusCode": Int(answer.status),
            "statusDescription": description_of(error, self._clock.now()),
            "errorCondition": Symbol(answer.condition),
        }
        return properties, None

    async def _perform(self, request: Request) -> Response:
        operation = (request.text("operation") or "").removeprefix("com.microsoft:")
        if operation in NOT_YET_SERVED:
            raise NotImplementedYet(f"The operation '{operation}' is not served by this version.")
        if not isinstance(request.body, dict):
            raise ArgumentInvalid("The body of the request is not a map.")
        match operation:
            case "peek-message":
                return await self._peek(request.body)
            case "renew-lock":
                return await self._renew(request.body)
            case "receive-by-sequence-number":
                return await self._receive(request.body)
            case "update-disposition":
                return await self._settle(request.body)
            case _:
                raise NotImplementedYet(f"There is no operation '{operation}'.")

    async def _peek(self, body: dict[str, Any]) -> Response:
        from_sequence = _number(body, "from-sequence-number", 0)
        count = _number(body, "message-count", 1)
        if count < 1:
            raise ArgumentOutOfRange("message-count must be at least 1.")
        if body.get("session-id") is not None:
            raise NotImplementedYet("Sessions are not served by this version.")
        messages = await browse(self._sub_queue, from_sequence, count)
        if not messages:
            properties: dict[object, object] = {
                "statusCode": Int(204),
                "statusDescription": "No messages.",
                "errorCondition": Symbol("com.microsoft:message-not-found"),
            }
            return properties, {"messages": []}
        found = [
            {
                "message": careful_payload(
                    message,
                    is_locked=False,
                    is_partitioned=self._sub_queue.queue.is_partitioned,
                    is_body_left_out=body.get("omit-message-body") is True,
                )
            }
            for message in messages
        ]
        return _ok(), {"messages": found}

    async def _renew(self, body: dict[str, Any]) -> Response:
        locks = _locks(body)
        expires_at = await renew(self._sub_queue, locks, self._clock)
        expirations = AmqpArray(Timestamp, (Timestamp(expires_at),) * len(locks))
        return _ok(), {"expirations": expirations}

    async def _receive(self, body: dict[str, Any]) -> Response:
        mode = ReceiveMode.PEEK_LOCK
        if _number(body, "receiver-settle-mode", 1) == 0:
            mode = ReceiveMode.RECEIVE_AND_DELETE
        is_locked = mode is ReceiveMode.PEEK_LOCK
        is_partitioned = self._sub_queue.queue.is_partitioned
        sequences = _sequences(body)
        messages = await receive_deferred(self._sub_queue, sequences, mode, self._clock)
        found: list[dict[object, object]] = []
        for message in messages:
            payload = careful_payload(message, is_locked=is_locked, is_partitioned=is_partitioned)
            entry: dict[object, object] = {"message": payload}
            if is_locked:
                entry["lock-token"] = lock_token(message.lock)
            found.append(entry)
        return _ok(), {"messages": found}

    async def _settle(self, body: dict[str, Any]) -> Response:
        locks = _locks(body)
        failures = await settle(self._sub_queue, locks, _outcome(body), self._clock)
        for failure in failures.values():
            raise failure
        return _ok(), None


def right_for(operation: str) -> Right:
    """Return the right that an operation needs."""
    name = operation.removeprefix("com.microsoft:")
    if name in ("schedule-message", "cancel-scheduled-message"):
        return Right.SEND
    return Right.MANAGE if name.endswith(("-rule", "-rules")) else Right.LISTEN


def _ok() -> dict[object, object]:
    return {"statusCode": Int(200), "statusDescription": "OK"}


def _number(body: dict[str, Any], name: str, default: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentInvalid(f"{name} must be a number.")
    return int(value)


def _sequences(body: dict[str, Any]) -> list[int]:
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


def _locks(body: dict[str, Any]) -> list[Lock]:
    tokens = body.get("lock-tokens")
    items = tokens.items if isinstance(tokens, AmqpArray) else tokens
    if not isinstance(items, list | tuple) or not items:
        raise ArgumentInvalid("lock-tokens must be an array of at least one uuid.")
    if len(items) > LOCK_TOKENS_MAX:
        raise ArgumentOutOfRange(f"At most {LOCK_TOKENS_MAX} lock-tokens fit in one request.")
    locks: list[Lock] = []
    for token in items:
        if not isinstance(token, uuid.UUID):
            raise ArgumentInvalid("lock-tokens must be an array of uuid.")
        lock = lock_of_token(token)
        if lock.sequence > _NUMBER_MAX or lock.nonce > _NUMBER_MAX:
            raise MessageLockLost(LOCK_LOST)
        locks.append(lock)
    return locks


def _outcome(body: dict[str, Any]) -> Outcome:
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
                _text(body, "deadletter-reason"), _text(body, "deadletter-description"), encoded
            )
        case status:
            raise ArgumentInvalid(f"disposition-status '{status}' is not known.")


def _text(body: dict[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise ArgumentInvalid(f"{name} must be a string.")
    return value
