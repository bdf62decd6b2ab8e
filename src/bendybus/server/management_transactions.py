"""Management requests that are part of a transaction."""

from typing import Any, Final

from bendybus.broker.open_transactions import OpenTransactions
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.errors import BusError, InvalidOperation, NotImplementedYet
from bendybus.server.management_scheduling import (
    messages_to_schedule,
    numbered,
    scheduling_queue,
)
from bendybus.server.request_body import Response, locks, sequences, settlement, succeeded

# What does not change messages happens at once, whatever transaction a client has open: locking
# and looking are not part of one.
OUTSIDE_TRANSACTIONS: Final = frozenset(
    {
        "peek-message",
        "renew-lock",
        "receive-by-sequence-number",
        "renew-session-lock",
        "get-session-state",
        "set-session-state",
        "get-message-sessions",
        "enumerate-rules",
    }
)
_RULES: Final = frozenset({"add-rule", "remove-rule"})


async def join_transaction(
    transactions: OpenTransactions,
    transaction_id: bytes,
    sub_queue: ServedSubQueue,
    operation: str,
    body: dict[str, Any],
) -> Response:
    """Let what a request asks for join a transaction; a refusal dooms it."""
    try:
        if operation == "update-disposition":
            await transactions.settle(transaction_id, sub_queue, locks(body), settlement(body))
        elif operation == "cancel-scheduled-message":
            queue = scheduling_queue(sub_queue)
            await transactions.cancel(transaction_id, queue, sequences(body))
        elif operation == "schedule-message":
            queue = scheduling_queue(sub_queue)
            messages = messages_to_schedule(queue, body)
            return numbered(await transactions.schedule(transaction_id, queue, messages))
        elif operation in _RULES and sub_queue.queue.is_partitioned:
            raise InvalidOperation(
                "Rules of a partitioned entity cannot be added or removed in a transaction."
            )
        else:
            raise NotImplementedYet(f"'{operation}' cannot be part of a transaction.")
    except BusError as error:
        transactions.fail(transaction_id, error)
        raise
    return succeeded(), None
