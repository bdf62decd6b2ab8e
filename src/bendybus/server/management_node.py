"""`$management` of an entity: operations by request and response (R7.4)."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from bendybus.amqp.values import AmqpArray, Int, Symbol, Timestamp
from bendybus.broker.browse import browse
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.deferred import receive_deferred
from bendybus.broker.open_transactions import OpenTransactions
from bendybus.broker.receive import ReceiveMode, check_status_for_receive
from bendybus.broker.redrive_route import MaySend
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.broker.settle import renew, settle
from bendybus.content.outgoing_message import careful_payload, lock_token
from bendybus.model.errors import (
    ArgumentInvalid,
    ArgumentOutOfRange,
    BusError,
    NotImplementedYet,
)
from bendybus.server.management_deleting import (
    delete_messages,
    delete_messages_of_state,
    delete_selected_messages,
)
from bendybus.server.management_redriving import redrive_messages
from bendybus.server.management_rules import (
    add_rule_requested,
    list_rules,
    remove_rule_requested,
)
from bendybus.server.management_scheduling import cancel_scheduled, schedule_messages
from bendybus.server.management_selecting import queue_extent
from bendybus.server.management_transactions import OUTSIDE_TRANSACTIONS, join_transaction
from bendybus.server.request_body import (
    Response,
    locks,
    nothing_found,
    number,
    sequences,
    settlement,
    succeeded,
    text,
)
from bendybus.server.requests import Request
from bendybus.server.session_requests import FindSession, SessionRequests
from bendybus.server.translate import CONDITIONS, description_of

# Ours, not the protocol's; see `management_deleting` and `management_selecting`.
DELETE_OF_STATE: Final = "bendybus:delete-messages"
DELETE_SELECTED: Final = "bendybus:delete-selected-messages"
EXTENT: Final = "bendybus:queue-extent"
REDRIVE: Final = "bendybus:redrive-messages"
# Those that need an entity that is open for receiving. Settling and renewing do not: what a
# receiver holds it may finish.
RECEIVING: Final = frozenset(
    {
        "peek-message",
        "receive-by-sequence-number",
        "batch-delete-messages",
        DELETE_OF_STATE,
        DELETE_SELECTED,
        REDRIVE,
    }
)

# Those that take nothing from whoever forwards the messages.
LOOKING: Final = frozenset({"peek-message"})


class ManagementNode:
    """Answers management requests for one sub-queue."""

    def __init__(
        self,
        sub_queue: ServedSubQueue,
        catalog: Catalog,
        clock: Clock,
        transactions: OpenTransactions,
        find_session: FindSession,
        may_send: MaySend,
    ) -> None:
        self._sub_queue = sub_queue
        self._clock = clock
        self._transactions = transactions
        sessions = self._sessions = SessionRequests(sub_queue, clock, find_session)
        self._operations: dict[str, Callable[[dict[str, Any]], Awaitable[Response]]] = {
            "peek-message": self._peek,
            "renew-lock": self._renew,
            "receive-by-sequence-number": self._receive,
            "update-disposition": self._settle,
            "schedule-message": partial(schedule_messages, sub_queue, clock),
            "cancel-scheduled-message": partial(cancel_scheduled, sub_queue, clock),
            "batch-delete-messages": partial(delete_messages, sub_queue, clock),
            DELETE_OF_STATE: partial(delete_messages_of_state, sub_queue, clock),
            DELETE_SELECTED: partial(delete_selected_messages, sub_queue, catalog, clock),
            EXTENT: partial(queue_extent, sub_queue),
            REDRIVE: partial(redrive_messages, sub_queue, catalog, clock, may_send),
            "renew-session-lock": sessions.renew,
            "get-session-state": sessions.state,
            "set-session-state": sessions.set_state,
            "get-message-sessions": sessions.list,
            "add-rule": partial(add_rule_requested, catalog, sub_queue, clock),
            "remove-rule": partial(remove_rule_requested, catalog, sub_queue, clock),
            "enumerate-rules": partial(list_rules, sub_queue),
        }

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
        if not isinstance(request.body, dict):
            raise ArgumentInvalid("The body of the request is not a map.")
        # Requests of one link are answered one after the other.
        self._sessions.link_name = request.text("associated-link-name")
        perform = self._operations.get(operation)
        if perform is None:
            raise NotImplementedYet(f"There is no operation '{operation}'.")
        if operation in RECEIVING:
            check_status_for_receive(self._sub_queue, may_forward=operation in LOOKING)
        if request.transaction_id is not None and operation not in OUTSIDE_TRANSACTIONS:
            return await join_transaction(
                self._transactions, request.transaction_id, self._sub_queue, operation, request.body
            )
        return await perform(request.body)

    async def _peek(self, body: dict[str, Any]) -> Response:
        from_sequence = number(body, "from-sequence-number", 0)
        count = number(body, "message-count", 1)
        if count < 1:
            raise ArgumentOutOfRange("message-count must be at least 1.")
        session_id = text(body, "session-id")
        messages = await browse(self._sub_queue, from_sequence, count, session_id)
        if not messages:
            return nothing_found("messages"), {"messages": []}
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
        return succeeded(), {"messages": found}

    async def _renew(self, body: dict[str, Any]) -> Response:
        held = locks(body)
        expires_at = await renew(self._sub_queue, held, self._clock)
        expirations = AmqpArray(Timestamp, (Timestamp(expires_at),) * len(held))
        return succeeded(), {"expirations": expirations}

    async def _receive(self, body: dict[str, Any]) -> Response:
        mode = ReceiveMode.PEEK_LOCK
        if number(body, "receiver-settle-mode", 1) == 0:
            mode = ReceiveMode.RECEIVE_AND_DELETE
        is_locked = mode is ReceiveMode.PEEK_LOCK
        is_partitioned = self._sub_queue.queue.is_partitioned
        held = self._sessions.held(body) if self._sub_queue.has_sessions else None
        messages = await receive_deferred(self._sub_queue, sequences(body), mode, self._clock, held)
        found: list[dict[object, object]] = []
        for message in messages:
            payload = careful_payload(message, is_locked=is_locked, is_partitioned=is_partitioned)
            entry: dict[object, object] = {"message": payload}
            if is_locked:
                entry["lock-token"] = lock_token(message.lock)
            found.append(entry)
        return succeeded(), {"messages": found}

    async def _settle(self, body: dict[str, Any]) -> Response:
        held = locks(body)
        failures = await settle(self._sub_queue, held, settlement(body), self._clock)
        for failure in failures.values():
            raise failure
        return succeeded(), None
