"""Management requests that delete messages, many at once.

`batch-delete-messages` of the protocol deletes active messages. `bendybus:delete-messages` is our
own and deletes those of the state that it names. It has another name because the service passes
over fields that it does not know: it would delete active messages in place of others.
`bendybus:delete-selected-messages` goes through the queue as `management_selecting` says.
"""

from typing import Any, Final

from bendybus.amqp.values import Int, Timestamp
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.purge import PURGED_MAX, PurgeWish, purge, purge_selected
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange
from bendybus.model.ids import Instant
from bendybus.model.message import MessageState
from bendybus.server.management_selecting import flag, part_done, selection, stretch
from bendybus.server.request_body import Response, nothing_found, number, succeeded, text

_PURGED_STATES: Final = (MessageState.ACTIVE, MessageState.DEFERRED, MessageState.SCHEDULED)


async def delete_messages(
    sub_queue: ServedSubQueue, clock: Clock, body: dict[str, Any]
) -> Response:
    """Delete the oldest active messages that were enqueued until a time."""
    return await _delete(sub_queue, clock, body, MessageState.ACTIVE)


async def delete_messages_of_state(
    sub_queue: ServedSubQueue, clock: Clock, body: dict[str, Any]
) -> Response:
    """Delete the oldest messages of a state."""
    return await _delete(sub_queue, clock, body, _state(body))


async def delete_selected_messages(
    sub_queue: ServedSubQueue, catalog: Catalog, clock: Clock, body: dict[str, Any]
) -> Response:
    """Delete those of the next messages that are meant."""
    done = await purge_selected(
        sub_queue,
        stretch(body),
        selection(body, _state(body)),
        catalog.reader,
        clock,
        is_dry_run=flag(body, "dry-run"),
    )
    return succeeded(), part_done(done.deleted, done.looked_at, done.locked, done.next_sequence)


def _state(body: dict[str, Any]) -> MessageState:
    state = number(body, "message-state", -1)
    if state not in _PURGED_STATES:
        raise ArgumentOutOfRange("message-state must be 0 (active), 1 (deferred) or 2 (scheduled).")
    return MessageState(state)


async def _delete(
    sub_queue: ServedSubQueue, clock: Clock, body: dict[str, Any], state: MessageState
) -> Response:
    deleted = await purge(sub_queue, _wish(body, state), clock)
    if not deleted:
        return nothing_found("messages"), {"message-count": Int(0)}
    return succeeded(), {"message-count": Int(deleted)}


def _wish(body: dict[str, Any], state: MessageState) -> PurgeWish:
    count = number(body, "message-count", 0)
    if not 1 <= count <= PURGED_MAX:
        raise ArgumentOutOfRange(f"message-count must be between 1 and {PURGED_MAX}.")
    until = body.get("enqueued-time-utc")
    if not isinstance(until, Timestamp):
        raise ArgumentInvalid("enqueued-time-utc must be a timestamp.")
    return PurgeWish(count, Instant(int(until)), state, text(body, "session-id"))
