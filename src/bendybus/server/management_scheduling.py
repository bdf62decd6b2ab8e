"""Management requests for messages that are to come later: schedule, and take back."""

from collections.abc import Sequence
from typing import Any

from bendybus.amqp.values import AmqpArray, Long
from bendybus.broker.clock import Clock
from bendybus.broker.schedule import cancel, schedule
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue
from bendybus.content.incoming_message import read_message
from bendybus.model.errors import ArgumentInvalid, InvalidOperation, MessageTooLarge
from bendybus.model.ids import SubQueue
from bendybus.model.message import Message
from bendybus.server.request_body import Response, sequences, succeeded


async def schedule_messages(
    sub_queue: ServedSubQueue, clock: Clock, body: dict[str, Any]
) -> Response:
    """Take messages that say themselves when they are to come."""
    queue = scheduling_queue(sub_queue)
    numbers = await schedule(queue, messages_to_schedule(queue, body), clock)
    return numbered(numbers)


async def cancel_scheduled(
    sub_queue: ServedSubQueue, clock: Clock, body: dict[str, Any]
) -> Response:
    """Delete messages whose time has not come."""
    await cancel(scheduling_queue(sub_queue), sequences(body), clock)
    return succeeded(), None


def numbered(numbers: Sequence[int]) -> Response:
    """Return the response that tells the numbers of scheduled messages."""
    return succeeded(), {"sequence-numbers": AmqpArray(Long, tuple(map(Long, numbers)))}


def scheduling_queue(sub_queue: ServedSubQueue) -> ServedQueue:
    """Return the queue, if messages can be scheduled there."""
    if sub_queue.sub_queue is not SubQueue.MAIN:
        raise InvalidOperation("Messages cannot be scheduled in a dead-letter queue.")
    return sub_queue.queue


def messages_to_schedule(queue: ServedQueue, body: dict[str, Any]) -> list[Message]:
    """Read the messages of a request. What stands beside each is in the message, too."""
    entries = body.get("messages")
    if not isinstance(entries, list) or not entries:
        raise ArgumentInvalid("messages must be a list of at least one map.")
    payloads = [each.get("message") if isinstance(each, dict) else None for each in entries]
    binaries = [each for each in payloads if isinstance(each, bytes)]
    if len(binaries) != len(entries):
        raise ArgumentInvalid("messages must be a list of maps that have a binary message.")
    size = sum(map(len, binaries))
    if size > queue.message_bytes_max:
        raise MessageTooLarge(
            f"The messages have {size} bytes; the entity '{queue.name}' takes"
            f" {queue.message_bytes_max} in one request."
        )
    is_id_wanted = queue.duplicate_window_ms is not None
    messages = [read_message(each, is_id_wanted=is_id_wanted) for each in binaries]
    if any(message.scheduled_at is None for message in messages):
        raise ArgumentInvalid(
            "A message has no x-opt-scheduled-enqueue-time, so nobody knows when it is to come."
        )
    return messages
