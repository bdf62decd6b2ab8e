"""settle: what receivers say about the messages they hold, and renewing their locks."""

import asyncio
from collections.abc import Sequence

from bendybus.broker.clock import Clock
from bendybus.broker.receive import locks_by_source
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import BusError, InvalidOperation, MessageLockLost, SessionLockLost
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Lock, Marks
from bendybus.model.operations import Operation, Remove, Renew, Unlock
from bendybus.model.outcome import Abandon, Complete, DeadLetter, Defer, Outcome, Release
from bendybus.model.settlement import operations_for

LOCK_LOST = (
    "The lock supplied is invalid. Either the lock expired, or the message has already been"
    " removed from the queue."
)

# The sequence numbers whose settlement failed, and why.
Failures = dict[int, BusError]


async def settle(
    sub_queue: ServedSubQueue, locks: Sequence[Lock], outcome: Outcome, clock: Clock
) -> Failures:
    """Apply one outcome to messages; durable on return. Each fails or succeeds on its own."""
    groups = locks_by_source(sub_queue, list(locks))
    if len(groups) == 1:
        [(source, held)] = groups.items()
        if len(held) == len(locks):
            return await _settle_in(sub_queue, source, held, outcome, clock)
    together = await asyncio.gather(
        *(_settle_in(sub_queue, source, held, outcome, clock) for source, held in groups.items())
    )
    failures: Failures = {
        lock.sequence: MessageLockLost(LOCK_LOST)
        for lock in locks
        if sub_queue.source_of(lock.sequence) is None
    }
    for each in together:
        failures.update(each)
    return failures


async def renew(sub_queue: ServedSubQueue, locks: Sequence[Lock], clock: Clock) -> Instant:
    """Let locks last for the queue's duration from now. Raises `MessageLockLost` if one ended."""
    if sub_queue.has_sessions:
        raise InvalidOperation(
            "A message received from a session is locked as long as its session is. Renew the lock"
            " of the session."
        )
    now = clock.now()
    locked_until = Instant(now + sub_queue.queue.lock_duration_ms)
    groups = locks_by_source(sub_queue, list(locks))
    if sum(map(len, groups.values())) != len(locks):
        raise MessageLockLost(LOCK_LOST)
    for source, held in groups.items():
        if not source.store.is_online:
            raise sub_queue.queue.unavailable(source)
        source.timetable.note(locked_until)
        [lost] = await source.store.apply([Renew(source.number, held, locked_until)], now=now)
        if lost:
            raise MessageLockLost(LOCK_LOST)
    return locked_until


async def _settle_in(
    sub_queue: ServedSubQueue,
    source: Source,
    locks: list[Lock],
    outcome: Outcome,
    clock: Clock,
) -> Failures:
    """Settle messages of one fragment."""
    try:
        if not source.store.is_online:
            raise sub_queue.queue.unavailable(source)
        if isinstance(outcome, Complete):
            lost = await _apply_one(source, Remove(source.number, locks), clock)
        elif isinstance(outcome, Release):
            lost = await _apply_one(source, Unlock(source.number, locks, is_counted=False), clock)
            sub_queue.note_returned(source, locks, clock.now())
        else:
            lost = await _decide_and_apply(sub_queue, source, locks, outcome, clock)
    except BusError as error:
        return {lock.sequence: error for lock in locks}
    if not lost:
        return {}
    nonces = {lock.sequence: lock.nonce for lock in locks}
    return {sequence: _lock_lost(sub_queue, nonces[sequence], clock) for sequence in lost}


def _lock_lost(sub_queue: ServedSubQueue, nonce: int, clock: Clock) -> BusError:
    """Make the refusal for a lock that is not held: that of the message, or of its session."""
    held = sub_queue.held_sessions.with_nonce(nonce)
    if sub_queue.has_sessions and (held is None or held.has_ended(clock.now())):
        return SessionLockLost.ended()
    return MessageLockLost(LOCK_LOST)


async def _apply_one(source: Source, operation: Operation, clock: Clock) -> list[int]:
    [lost] = await source.store.apply([operation], now=clock.now())
    assert isinstance(lost, list)
    return lost


async def _decide_and_apply(
    sub_queue: ServedSubQueue,
    source: Source,
    locks: list[Lock],
    outcome: Outcome,
    clock: Clock,
) -> list[int]:
    """Settle by the rules of the model, which may need what is stored with the message."""
    marks: dict[int, Marks | None] = {}
    if isinstance(outcome, Abandon | Defer | DeadLetter):
        found = await source.store.find_locked(source.number, locks, now=clock.now())
        marks = {message.sequence: message.marks for message in found}
        counts = {message.sequence: message.delivery_count for message in found}
        locks = [lock._replace(delivery_count=counts.get(lock.sequence, 0)) for lock in locks]
    policy = sub_queue.policy(source)
    operations = [
        operation
        for lock in locks
        for operation in operations_for(outcome, lock, marks.get(lock.sequence), policy)
    ]
    now = clock.now()
    answers = await source.store.apply(operations, now=now)
    sub_queue.note_returned(source, locks, now)
    dead_letters = sub_queue.queue.sub_queues[SubQueue.DEAD_LETTER]
    dead_letters.note_added(dead_letters.sources[source.fragment], len(locks))
    return sorted({sequence for lost in answers if isinstance(lost, list) for sequence in lost})
