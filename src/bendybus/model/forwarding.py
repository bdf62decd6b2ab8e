"""Which messages can be taken to another entity, where to exactly, and what they bring along (R6).

A message that cannot be taken there, ever, is dead-lettered where it is. What may pass (a store
that is away, a destination that is full) is no reason: such a message waits.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from bendybus.model.entity import QueueProperties, SubscriptionProperties, TopicProperties
from bendybus.model.ids import (
    COUNTER_MASK,
    FragmentIndex,
    QueueNumber,
    StoreNumber,
    SubQueue,
    fragment_of,
)
from bendybus.model.message import Marks, Message, StoredMessage
from bendybus.model.operations import Move
from bendybus.model.partitioning import fragment_for, key_of

# How many times a message may be forwarded; whoever chains more, or a loop, gets it back.
HOPS_MAX: Final = 4

_QUEUE_BITS: Final = 32
_QUEUE_MASK: Final = (1 << _QUEUE_BITS) - 1


class Undeliverable(NamedTuple):
    """Why a message cannot be taken to its destination, as its dead-letter properties say it."""

    reason: str
    description: str
    is_lost_on_the_way: bool = False


def why_undeliverable(
    message: StoredMessage, name: str, destination: QueueProperties | None
) -> Undeliverable | None:
    """Say why the entity of that name cannot have the message, or None if it can.

    Its properties are those of a queue, or those that a topic amounts to; None if it is missing.
    """
    if destination is None:
        return Undeliverable(
            "MessagingEntityNotFound", f"The destination '{name}' could not be found."
        )
    if not destination.status.allows_send:
        return Undeliverable(
            "MessagingEntityDisabled", f"The destination '{name}' is disabled for sending."
        )
    size, size_max = len(message.content), destination.max_message_size_kilobytes * 1024
    if size > size_max:
        return Undeliverable(
            "MessageSizeExceeded",
            f"The message has {size} bytes; the destination '{name}' takes {size_max}.",
        )
    if destination.requires_session and message.session_id is None:
        return Undeliverable(
            "Session id is null.",
            f"The message has no SessionId, and the destination '{name}' requires one.",
        )
    return None


def why_no_further(message: StoredMessage, name: str) -> Undeliverable | None:
    """Say whether the message was forwarded too often to be forwarded once more."""
    hops = message.marks.hops if message.marks else None
    if (hops or 0) < HOPS_MAX:
        return None
    return Undeliverable(
        "MaxTransferHopCountExceeded",
        f"The message was forwarded {hops} times and may not be forwarded on to '{name}'.",
        is_lost_on_the_way=True,
    )


def sub_queue_for(undeliverable: Undeliverable, sub_queue: SubQueue) -> SubQueue:
    """Return where an undeliverable message goes.

    To the dead letters of the entity it is in. Those that are dead letters already, that a
    transaction sent, or that were forwarded too often have a queue of their own.
    """
    if sub_queue is SubQueue.MAIN and not undeliverable.is_lost_on_the_way:
        return SubQueue.DEAD_LETTER
    return SubQueue.TRANSFER_DEAD_LETTER


def dead_lettered(
    message: StoredMessage,
    undeliverable: Undeliverable,
    entity_name: str,
    queues: tuple[QueueNumber, QueueNumber],
) -> Move:
    """Decide the write that moves an undeliverable message from one queue to another."""
    return Move(
        *queues,
        message.lock,
        replace(
            message.marks or Marks(),
            dead_letter_reason=undeliverable.reason,
            dead_letter_description=undeliverable.description,
            dead_letter_source=entity_name,
        ),
        is_counted=False,
    )


def marks_of_forwarded(message: StoredMessage) -> Marks:
    """Return what a forwarded message brings along: all that happened to it, and one hop more."""
    marks, number = message.marks, message.enqueued_sequence or message.sequence
    if marks is None:
        return Marks(hops=1, enqueued_sequence=number)
    number = marks.enqueued_sequence or number
    return replace(marks, hops=(marks.hops or 0) + 1, enqueued_sequence=number)


def marks_of_transferred(message: StoredMessage) -> Marks | None:
    """Return what a message that a transaction sent brings along: nothing of its way."""
    marks = replace(message.marks or Marks(), destination=None)
    return None if marks == Marks() else marks


def fragment_at(
    message: Message, sequence: int, fragment_count: int, *, has_duplicate_detection: bool
) -> FragmentIndex:
    """Choose the fragment of a destination: the same one whenever it is asked for.

    That of its key, as for any message that is sent there. Without one it follows from the number
    that it has where it comes from, spread evenly: a repeated transfer must find the store that
    may have it already.
    """
    if fragment_count == 1:
        return FragmentIndex(0)
    key = key_of(message, has_duplicate_detection=has_duplicate_detection)
    if key is not None:
        return fragment_for(key, fragment_count)
    return FragmentIndex(((sequence & COUNTER_MASK) + fragment_of(sequence)) % fragment_count)


def source_of(store: int, queue: QueueNumber) -> int:
    """Return the number by which transfers name the queue that they come from."""
    return store << _QUEUE_BITS | queue


def place_of(source: int) -> tuple[StoreNumber, QueueNumber]:
    """Return the store and the queue that transfers come from."""
    return StoreNumber(source >> _QUEUE_BITS), QueueNumber(source & _QUEUE_MASK)


def ways_left(
    before: QueueProperties | SubscriptionProperties,
    after: QueueProperties | SubscriptionProperties,
) -> list[SubQueue]:
    """Return those of an entity's sub-queues that do not forward to where they did."""
    ways = (
        (SubQueue.MAIN, before.forward_to, after.forward_to),
        (
            SubQueue.DEAD_LETTER,
            before.forward_dead_lettered_messages_to,
            after.forward_dead_lettered_messages_to,
        ),
    )
    return [sub_queue for sub_queue, old, new in ways if old is not None and old != new]


def takes_less(
    before: QueueProperties | TopicProperties, after: QueueProperties | TopicProperties
) -> bool:
    """Say whether an entity takes no longer all that it took."""
    return (before.status.allows_send and not after.status.allows_send) or (
        after.max_message_size_kilobytes < before.max_message_size_kilobytes
    )
