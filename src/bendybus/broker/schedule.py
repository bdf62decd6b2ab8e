"""schedule: messages that are to come later, and taking them back before they do."""

import contextlib
from collections.abc import Sequence
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.broker.receive import locks_by_source
from bendybus.broker.send import (
    check_open_for_send,
    check_session_ids,
    group_by_fragment,
    send_numbered,
)
from bendybus.broker.served_queue import ServedQueue, Source
from bendybus.broker.served_topic import ServedTopic
from bendybus.model.errors import (
    ArgumentOutOfRange,
    BusError,
    MessageLockLost,
    MessageNotFound,
    StoreUnavailable,
)
from bendybus.model.message import Lock, Message, MessageState
from bendybus.model.operations import Guard, Operation, Remove

# What one request may take back: all of a fragment goes in one step.
CANCELLED_MAX: Final = 4096
NOT_SCHEDULED: Final = (
    "One or more of the messages are not scheduled: the number was never given, or the message was"
    " cancelled, or its time has come."
)


async def schedule(queue: ServedQueue, messages: Sequence[Message], clock: Clock) -> list[int]:
    """Store messages; return the number of each, to cancel it by, and 0 for a duplicate.

    Those of one fragment are stored together or not at all. Nothing is stored if the store of one
    of them is away. If a fragment refuses nevertheless, what others have taken is taken back, as
    far as their stores can be reached. Not with duplicate detection: their ids have been seen by
    then, so if all is scheduled again, it is those that must be there.
    """
    check_open_for_send(queue)
    check_session_ids(queue, messages)
    numbers = [0] * len(messages)
    groups = group_by_fragment(queue, messages)
    for fragment in groups:
        if fragment is not None and not queue.main.sources[fragment].store.is_online:
            raise queue.unavailable(queue.main.sources[fragment])
    for fragment, places in groups.items():
        group = [messages[at] for at in places]
        try:
            if queue.duplicate_window_ms is None and not isinstance(queue, ServedTopic):
                [first] = await send_numbered(queue, [group], fragment, clock)
                given = list(range(first, first + len(group)))
            else:
                # One by one, because some may be left out, or be published, having come due.
                given = await send_numbered(queue, [[each] for each in group], fragment, clock)
        except BusError:
            if queue.duplicate_window_ms is None:
                with contextlib.suppress(MessageNotFound, StoreUnavailable):
                    await cancel(queue, [number for number in numbers if number], clock)
            raise
        for at, number in zip(places, given, strict=True):
            numbers[at] = number
    return numbers


async def cancel(queue: ServedQueue, sequences: Sequence[int], clock: Clock) -> None:
    """Delete messages whose time has not come.

    All of them or none: `MessageNotFound` if one is not there or not scheduled any more. Numbers of
    several fragments are looked up first; only if one of them comes due between that and its
    deletion, the others may be gone.
    """
    check_open_for_send(queue)
    if len(sequences) > CANCELLED_MAX:
        raise ArgumentOutOfRange(f"At most {CANCELLED_MAX} sequence numbers fit in one request.")
    locks = [Lock(sequence, 0) for sequence in dict.fromkeys(sequences)]
    groups = locks_by_source(queue.main, locks)
    if sum(map(len, groups.values())) != len(locks):
        raise MessageNotFound(NOT_SCHEDULED)
    for source in groups:
        if not source.store.is_online:
            raise queue.unavailable(source)
    if len(groups) > 1:
        for source, group in groups.items():
            await check_scheduled(source, group, clock)
    for source, group in groups.items():
        operation: Operation = Remove(source.number, group, Guard.SCHEDULED)
        try:
            await source.store.apply([operation], now=clock.now(), is_strict=True)
        except MessageLockLost:
            raise MessageNotFound(NOT_SCHEDULED) from None


async def check_scheduled(source: Source, locks: Sequence[Lock], clock: Clock) -> None:
    """Raise `MessageNotFound` unless all of the messages are there and their time has not come."""
    found = await source.store.find(source.number, [lock.sequence for lock in locks])
    now = clock.now()
    waiting = [
        each for each in found if each.state == MessageState.SCHEDULED and each.enqueued_at > now
    ]
    if len(waiting) != len(locks):
        raise MessageNotFound(NOT_SCHEDULED)
