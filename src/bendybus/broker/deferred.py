"""deferred: messages that were set aside, received by their sequence numbers."""

import secrets
from collections.abc import Sequence
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.broker.held_sessions import HeldSession
from bendybus.broker.receive import NONCE_BITS, ReceiveMode, give_back, locks_by_source
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.errors import (
    ArgumentOutOfRange,
    MessageNotFound,
    ServerBusy,
    SessionLockLost,
)
from bendybus.model.ids import Instant
from bendybus.model.message import Lock, StoredMessage
from bendybus.model.operations import Remove
from bendybus.store.port import AcquireDeferred

# What one request may name. The answer holds all of them whole.
SEQUENCES_MAX: Final = 256


async def receive_deferred(
    sub_queue: ServedSubQueue,
    sequences: Sequence[int],
    mode: ReceiveMode,
    clock: Clock,
    held: HeldSession | None = None,
) -> list[StoredMessage]:
    """Return deferred messages, locked or removed, in the order they were asked for.

    Where there are sessions, only who holds theirs gets them (`held`).

    All of them or none: if one is not there, not deferred or under a lock, `MessageNotFound` is
    raised and the others are as before. The numbers may be of several fragments.
    """
    if len(sequences) > SEQUENCES_MAX:
        raise ArgumentOutOfRange(f"At most {SEQUENCES_MAX} sequence numbers fit in one request.")
    wanted = list(dict.fromkeys(sequences))
    found = await _acquire(sub_queue, wanted, clock, held)
    locks = [message.lock for message in found.values()]
    if len(found) != len(wanted):
        await give_back(sub_queue, locks, clock)
        raise MessageNotFound(
            "Failed to lock one or more specified messages. The message does not exist."
        )
    if mode is ReceiveMode.RECEIVE_AND_DELETE:
        for source, group in locks_by_source(sub_queue, locks).items():
            [lost] = await source.store.apply([Remove(source.number, group)], now=clock.now())
            assert isinstance(lost, list)
            for sequence in lost:
                del found[sequence]
    return [found[sequence] for sequence in wanted if sequence in found]


async def _acquire(
    sub_queue: ServedSubQueue, sequences: Sequence[int], clock: Clock, held: HeldSession | None
) -> dict[int, StoredMessage]:
    now = clock.now()
    if held is None:
        locked_until = Instant(now + sub_queue.queue.lock_duration_ms)
        nonce, session_id = secrets.randbits(NONCE_BITS), None
    else:
        locked_until, nonce, session_id = held.locked_until, held.nonce, held.session_id
    found: dict[int, StoredMessage] = {}
    asked = [Lock(sequence, nonce) for sequence in sequences]
    for source, group in locks_by_source(sub_queue, asked).items():
        if session_id is not None and source is not sub_queue.source_of_session(session_id):
            # Another fragment has nothing of this session.
            continue
        if not source.store.is_online:
            await give_back(sub_queue, [message.lock for message in found.values()], clock)
            raise sub_queue.queue.unavailable(source)
        numbers = [lock.sequence for lock in group]
        request = AcquireDeferred(source.number, numbers, locked_until, nonce, session_id)
        source.timetable.note(locked_until)
        messages = await source.store.acquire_deferred(request, now=now)
        found.update({message.sequence: message for message in messages})
    if held is not None and held.has_ended(clock.now()):
        raise SessionLockLost.ended()
    if locked_until <= clock.now():
        raise ServerBusy(
            f"The messages of '{sub_queue.queue.name}' came so late from their store that their"
            " locks have ended. Try again."
        )
    return found
