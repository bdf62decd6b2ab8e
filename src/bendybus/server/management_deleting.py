"""Management requests that delete messages, many at once.

The protocol's operation deletes active messages. Another state can be named by `message-state`,
with the numbers of `x-opt-message-state`: that is our own addition (docs/deleting.md).
"""

from typing import Any, Final

from bendybus.amqp.values import Int, Timestamp
from bendybus.broker.clock import Clock
from bendybus.broker.purge import PURGED_MAX, PurgeWish, purge
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange
from bendybus.model.ids import Instant
from bendybus.model.message import MessageState
from bendybus.server.request_body import Response, nothing_found, number, succeeded, text

_PURGED_STATES: Final = (MessageState.ACTIVE, MessageState.DEFERRED, MessageState.SCHEDULED)


async def delete_messages(
    sub_queue: ServedSubQueue, clock: Clock, body: dict[str, Any]
) -> Response:
    """Delete the oldest messages that were enqueued until a time."""
    deleted = await purge(sub_queue, _wish(body), clock)
    if not deleted:
        return nothing_found("messages"), {"message-count": Int(0)}
    return succeeded(), {"message-count": Int(deleted)}


def _wish(body: dict[str, Any]) -> PurgeWish:
    count = number(body, "message-count", 0)
    if not 1 <= count <= PURGED_MAX:
        raise ArgumentOutOfRange(f"message-count must be between 1 and {PURGED_MAX}.")
    until = body.get("enqueued-time-utc")
    if not isinstance(until, Timestamp):
        raise ArgumentInvalid("enqueued-time-utc must be a timestamp.")
    state = number(body, "message-state", int(MessageState.ACTIVE))
    if state not in _PURGED_STATES:
        raise ArgumentOutOfRange("message-state must be 0 (active), 1 (deferred) or 2 (scheduled).")
    return PurgeWish(count, Instant(int(until)), MessageState(state), text(body, "session-id"))
