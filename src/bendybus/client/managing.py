"""Operations by request and response on one entity: what links alone cannot do."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from bendybus.amqp.values import AmqpArray, Int, Long, Timestamp, Uint
from bendybus.client.connecting import Connector
from bendybus.client.connection import Connection
from bendybus.client.encoded_message import instant, moment
from bendybus.client.errors import ServerFailed
from bendybus.client.merged_peek import MergedPeek
from bendybus.client.message import Message, MessageState, ReceivedMessage
from bendybus.client.request_pair import Response
from bendybus.client.requesting import request
from bendybus.client.settlement import Settlement
from bendybus.client.steps import Step

DELETED_PER_CALL_MAX: Final = 4000
LAST_MOMENT: Final = datetime.max.replace(tzinfo=UTC)
_SESSIONS_PER_PAGE: Final = 100
_ALL_SESSIONS: Final = Timestamp(253402300800000)
"""The end of the calendar stands for: every session that has messages."""
_DELETE: Final = 0
_LOCK: Final = 1


class DeleteWish(NamedTuple):
    """Which messages to delete: of a state, and enqueued until a time.

    A scheduled message counts as enqueued at the time that it is scheduled for.
    """

    state: MessageState
    until: datetime

    @classmethod
    def of(cls, state: MessageState, until: datetime | None, now: datetime) -> "DeleteWish":
        """Make a wish; without a time it means those that are there now."""
        latest = LAST_MOMENT if state is MessageState.SCHEDULED else now
        return cls(state, until or latest)


class Extent(NamedTuple):
    """How many messages there are, and of each fragment the last number; None if it is away."""

    messages: int
    last_sequences: list[int | None]


class PartDone(NamedTuple):
    """What was done to a part of a queue, and where the next begins; None at the end."""

    done: int
    looked_at: int
    locked: int
    refused: int
    refusal: str | None
    next_sequence: int | None
    # It was asked for twice: what the first answer would have said is not known.
    is_repeated: bool


class ManagedEntity:
    """One entity, or a sub-queue of it, as its management node sees it.

    `others` are entities that requests concern as well: the broker wants tokens for them, too.
    """

    def __init__(self, connector: Connector, path: str, others: Sequence[str] = ()) -> None:
        self.path = path
        self._connector = connector
        self._others = others

    # Messages

    def peek(
        self, from_sequence: int, count: int, deadline: float, session_id: str | None = None
    ) -> Step[list[ReceivedMessage]]:
        """Look at messages without locking them, in the order of their sequence numbers."""
        body: dict[object, object] = {
            "from-sequence-number": Long(from_sequence),
            "message-count": Int(count),
        }
        if session_id is not None:
            body["session-id"] = session_id
        found = yield from self._ask_again("peek-message", body, deadline)
        return [ReceivedMessage(payload) for payload, _ in _messages(found)]

    def peek_merged(self, count: int, deadline: float) -> Step[list[ReceivedMessage]]:
        """Look at the oldest messages of all fragments together, by the time they were taken."""
        merged = MergedPeek(count)
        found: list[ReceivedMessage] = []
        while len(found) < count:
            while (wanted := merged.wanted()) is not None:
                merged.take((yield from self.peek(wanted, merged.page, deadline)))
            message = merged.next()
            if message is None:
                break
            found.append(message)
        return found

    def renew_lock(self, token: uuid.UUID, deadline: float) -> Step[datetime]:
        """Hold a message for another lock duration; return until when."""
        body: dict[object, object] = {"lock-tokens": AmqpArray(uuid.UUID, (token,))}
        answer = yield from self._ask_again("renew-lock", body, deadline)
        expirations = _items(answer, "expirations")
        return _moment(expirations[0] if expirations else None)

    def settle(
        self, token: uuid.UUID, settlement: Settlement, deadline: float, session_id: str | None
    ) -> Step[None]:
        """Settle by lock token alone: the link that the message came on is gone."""
        body: dict[object, object] = {
            "disposition-status": settlement.status,
            "lock-tokens": AmqpArray(uuid.UUID, (token,)),
            **settlement.fields,
        }
        if session_id is not None:
            body["session-id"] = session_id
        yield from self._ask("update-disposition", body, deadline)

    def receive_deferred(
        self, numbers: Sequence[int], deadline: float, *, is_deleting: bool, session_id: str | None
    ) -> Step[list[ReceivedMessage]]:
        """Receive messages that were set aside, by their numbers."""
        body: dict[object, object] = {
            "sequence-numbers": numbers_array(numbers),
            "receiver-settle-mode": Uint(_DELETE if is_deleting else _LOCK),
        }
        if session_id is not None:
            body["session-id"] = session_id
        found = yield from self._ask("receive-by-sequence-number", body, deadline)
        return [ReceivedMessage(payload, lock_token=token) for payload, token in _messages(found)]

    def schedule(self, messages: Sequence[Message], deadline: float) -> Step[list[int]]:
        """Let messages be taken at their scheduled time; return numbers to cancel them by."""
        entries = []
        for message in messages:
            entry: dict[object, object] = {
                "message-id": str(message.message_id),
                "message": message.encode(),
            }
            if message.session_id is not None:
                entry["session-id"] = message.session_id
            if message.partition_key is not None:
                entry["partition-key"] = message.partition_key
            entries.append(entry)
        answer = yield from self._ask("schedule-message", {"messages": entries}, deadline)
        return [int(each) for each in _items(answer, "sequence-numbers") if isinstance(each, int)]

    def cancel(self, numbers: Sequence[int], deadline: float) -> Step[None]:
        """Take back messages that were scheduled and are not due yet."""
        body: dict[object, object] = {"sequence-numbers": numbers_array(numbers)}
        yield from self._ask("cancel-scheduled-message", body, deadline)

    def delete(
        self, wish: "DeleteWish", count: int, deadline: float, session_id: str | None
    ) -> Step[int]:
        """Delete the oldest messages, unread; return how many. Locked ones stay."""
        body: dict[object, object] = {
            "message-count": Int(count),
            "enqueued-time-utc": instant(wish.until),
        }
        if session_id is not None:
            body["session-id"] = session_id
        operation = "com.microsoft:batch-delete-messages"
        if wish.state is not MessageState.ACTIVE:
            operation = "bendybus:delete-messages"
            body["message-state"] = Int(wish.state.value)
        answer = yield from self._ask(operation, body, deadline)
        deleted = _field(answer, "message-count")
        return deleted if isinstance(deleted, int) else 0

    def extent(self, deadline: float) -> Step[Extent]:
        """Return how much there is to go through."""
        answer = yield from self._ask_again("bendybus:queue-extent", {}, deadline)
        ends = [each for each in _items(answer, "last-sequence-numbers") if isinstance(each, int)]
        return Extent(_number(answer, "message-count"), [end if end >= 0 else None for end in ends])

    def pass_through(
        self,
        operation: str,
        body: dict[object, object],
        deadline: float,
        *,
        is_repeatable: bool,
    ) -> Step[PartDone]:
        """Have something done to a part of the queue."""
        ask = self._ask_again if is_repeatable else self._ask
        before = yield from self._connector.connected(deadline)
        answer = yield from ask(operation, body, deadline)
        refusal, following = _field(answer, "refusal"), _field(answer, "next-sequence-number")
        return PartDone(
            _number(answer, "message-count"),
            _number(answer, "looked-at"),
            _number(answer, "locked"),
            _number(answer, "refused"),
            refusal if isinstance(refusal, str) else None,
            following if isinstance(following, int) else None,
            is_repeated=self._connector.connection is not before,
        )

    # Sessions

    def renew_session(self, session_id: str, deadline: float) -> Step[datetime]:
        """Hold a session for another lock duration; return until when."""
        body: dict[object, object] = {"session-id": session_id}
        answer = yield from self._ask_again("renew-session-lock", body, deadline)
        return _moment(_field(answer, "expiration"))

    def session_state(self, session_id: str, deadline: float) -> Step[bytes | None]:
        """Return what was kept with the session."""
        body: dict[object, object] = {"session-id": session_id}
        answer = yield from self._ask_again("get-session-state", body, deadline)
        state = _field(answer, "session-state")
        return state if isinstance(state, bytes) else None

    def set_session_state(
        self, session_id: str, state: bytes | None, deadline: float
    ) -> Step[None]:
        """Keep something with the session; None forgets it."""
        body: dict[object, object] = {"session-id": session_id, "session-state": state}
        yield from self._ask_again("set-session-state", body, deadline)

    def sessions(self, deadline: float) -> Step[list[str]]:
        """Return the ids of all sessions that have messages."""
        found: list[str] = []
        while True:
            body: dict[object, object] = {
                "last-updated-time": _ALL_SESSIONS,
                "skip": Int(len(found)),
                "top": Int(_SESSIONS_PER_PAGE),
            }
            answer = yield from self._ask_again("get-message-sessions", body, deadline)
            page = [str(each) for each in _items(answer, "sessions-ids")]
            found += page
            if len(page) < _SESSIONS_PER_PAGE:
                return found

    # How

    def _ask(self, operation: str, body: dict[object, object], deadline: float) -> Step[Response]:
        """Ask once. When the connection is lost, whether it was done is unknown."""
        connection = yield from self._connector.authorized(self.path, deadline)
        return (yield from self._request(connection, operation, body, deadline))

    def _ask_again(
        self, operation: str, body: dict[object, object], deadline: float
    ) -> Step[Response]:
        """Ask something that can be asked twice, on another connection if one is lost."""
        return (
            yield from self._connector.persistently(
                self.path,
                deadline,
                lambda connection: self._request(connection, operation, body, deadline),
            )
        )

    def _request(
        self, connection: Connection, operation: str, body: dict[object, object], deadline: float
    ) -> Step[Response]:
        for path in self._others:
            yield from self._connector.renew_token(connection, path, deadline)
        name = operation if ":" in operation else f"com.microsoft:{operation}"
        properties: dict[object, object] = {"operation": name}
        node = connection.management(self.path)
        return (yield from request(connection, node, properties, body, deadline))


def numbers_array(numbers: Sequence[int]) -> AmqpArray:
    """Return sequence numbers as requests name them."""
    return AmqpArray(Long, tuple(Long(each) for each in numbers))


def _field(answer: Response, name: str) -> object:
    return answer.body.get(name) if isinstance(answer.body, dict) else None


def _number(answer: Response, name: str) -> int:
    value = _field(answer, name)
    return value if isinstance(value, int) else 0


def _items(answer: Response, name: str) -> Sequence[object]:
    """Return an array or a list of the answer; brokers differ in which they send."""
    value = _field(answer, name)
    if isinstance(value, AmqpArray):
        return value.items
    return value if isinstance(value, list) else ()


def _messages(answer: Response) -> list[tuple[bytes, uuid.UUID | None]]:
    found: list[tuple[bytes, uuid.UUID | None]] = []
    for entry in _items(answer, "messages"):
        payload = entry.get("message") if isinstance(entry, dict) else None
        token = entry.get("lock-token") if isinstance(entry, dict) else None
        if not isinstance(payload, bytes):
            raise ServerFailed("The broker's response has no message where one should be.")
        found.append((payload, token if isinstance(token, uuid.UUID) else None))
    return found


def _moment(value: object) -> datetime:
    at = moment(value)
    if at is None:
        raise ServerFailed("The broker's response has no time where one should be.")
    return at
