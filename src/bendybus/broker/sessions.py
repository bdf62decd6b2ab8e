"""sessions: accept one, named or the next; renew its lock, keep its state, give it back."""

import asyncio
import secrets

from bendybus.broker.clock import Clock
from bendybus.broker.held_sessions import HeldSession
from bendybus.broker.receive import NONCE_BITS, RETRY_SECONDS, check_status_for_receive
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import (
    ArgumentOutOfRange,
    BusError,
    InvalidOperation,
    SessionCannotBeLocked,
    SessionLockLost,
)
from bendybus.model.ids import Instant
from bendybus.model.operations import Operation, ReleaseSession, RenewSession, SetSessionState
from bendybus.store.port import AcceptSession, SessionRefusal


def check_sessions(sub_queue: ServedSubQueue) -> None:
    """Refuse what needs sessions where there are none."""
    if not sub_queue.has_sessions:
        raise InvalidOperation(
            "A sessionful message receiver cannot be created on an entity that does not require"
            " sessions."
        )


async def accept_session(
    sub_queue: ServedSubQueue, session_id: str | None, clock: Clock
) -> HeldSession:
    """Lock a session: the one named, or the next that has a message, waiting for it.

    Raises `SessionCannotBeLocked` for a named one that somebody holds. Cancelled: none is locked.
    """
    check_sessions(sub_queue)
    check_status_for_receive(sub_queue)
    if session_id is None:
        return await _accept_next(sub_queue, clock)
    return await _accept_named(sub_queue, session_id, clock)


async def _accept_named(sub_queue: ServedSubQueue, session_id: str, clock: Clock) -> HeldSession:
    source = sub_queue.source_of_session(session_id)
    while True:
        if not source.store.is_online:
            raise sub_queue.queue.unavailable(source)
        answer = await _asked(sub_queue, source, session_id, clock)
        if isinstance(answer, HeldSession):
            return answer
        if answer is SessionRefusal.IS_LOCKED:
            raise SessionCannotBeLocked(
                f"The requested session '{session_id}' cannot be accepted. It may be locked by"
                " another receiver."
            )
        # Its lock has ended: what it held must be counted and free before anybody gets it.
        await source.timetable.swept(clock.now())


async def _accept_next(sub_queue: ServedSubQueue, clock: Clock) -> HeldSession:
    """Ask the fragments in turn, from another one each time; nothing there: wait for a hint."""
    while True:
        for source in list(sub_queue.candidates()):
            additions = source.additions
            try:
                answer = await _asked(sub_queue, source, None, clock)
            except BusError:
                # Its store went away or is overloaded: it is asked again a little later.
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if isinstance(answer, HeldSession):
                if source.heard_at == additions:
                    # Nobody said how many there are: who comes next may look, too.
                    sub_queue.waiting.wake(1)
                return answer
            if answer is SessionRefusal.NONE_WAITS:
                source.empty_at = additions
        if not any(source.may_have_messages for source in sub_queue.sources):
            await _hint(sub_queue)


async def _hint(sub_queue: ServedSubQueue) -> None:
    hint = sub_queue.waiting.join()
    try:
        await hint
    except asyncio.CancelledError:
        sub_queue.waiting.leave(hint)
        raise


async def _asked(
    sub_queue: ServedSubQueue, source: Source, session_id: str | None, clock: Clock
) -> HeldSession | SessionRefusal:
    """Ask one store. Cancelled: what it gives nevertheless goes back, for nobody would hold it."""
    asking = asyncio.ensure_future(_ask(sub_queue, source, session_id, clock))
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        answer = await asking
        if isinstance(answer, HeldSession):
            await release_session(sub_queue, answer, clock)
        raise


async def _ask(
    sub_queue: ServedSubQueue, source: Source, session_id: str | None, clock: Clock
) -> HeldSession | SessionRefusal:
    now = clock.now()
    locked_until = Instant(now + sub_queue.queue.lock_duration_ms)
    nonce = secrets.randbits(NONCE_BITS)
    source.timetable.note(locked_until)
    request = AcceptSession(source.number, session_id, locked_until, nonce)
    answer = await source.store.accept_session(request, now=now)
    if isinstance(answer, SessionRefusal):
        return answer
    held = HeldSession(answer, nonce, locked_until)
    sub_queue.held_sessions.add(held)
    return held


async def release_session(sub_queue: ServedSubQueue, held: HeldSession, clock: Clock) -> None:
    """Give a session back; its messages are free again, uncounted.

    One whose lock has ended is left to the sweep, and so is one whose store is away.
    """
    sub_queue.held_sessions.remove(held)
    source = sub_queue.source_of_session(held.session_id)
    operation = ReleaseSession(source.number, held.session_id, held.nonce)
    now = clock.now()
    try:
        [answer] = await source.store.apply([operation], now=now)
    except BusError:
        return
    if answer != 1:
        # What came back may have expired meanwhile.
        source.timetable.note(now)
    sub_queue.note_free_sessions(source, 1)


async def renew_session(sub_queue: ServedSubQueue, held: HeldSession, clock: Clock) -> Instant:
    """Hold a session for the queue's lock duration from now. Raises `SessionLockLost`."""
    source = sub_queue.source_of_session(held.session_id)
    now = clock.now()
    locked_until = Instant(now + sub_queue.queue.lock_duration_ms)
    source.timetable.note(locked_until)
    operation = RenewSession(source.number, held.session_id, held.nonce, locked_until)
    await _apply_to_held(sub_queue, source, held, operation, now)
    held.locked_until = locked_until
    return locked_until


async def set_session_state(
    sub_queue: ServedSubQueue, held: HeldSession, state: bytes | None, clock: Clock
) -> None:
    """Keep what the holder wants to be kept with the session; None clears it."""
    size_max = sub_queue.queue.message_bytes_max
    if state is not None and len(state) > size_max:
        raise ArgumentOutOfRange(
            f"The state of a session has {len(state)} bytes; the entity '{sub_queue.queue.name}'"
            f" keeps {size_max}."
        )
    source = sub_queue.source_of_session(held.session_id)
    operation = SetSessionState(source.number, held.session_id, held.nonce, state)
    await _apply_to_held(sub_queue, source, held, operation, clock.now())


async def session_state(sub_queue: ServedSubQueue, held: HeldSession, clock: Clock) -> bytes | None:
    """Return what is kept with a session. Raises `SessionLockLost`."""
    source = sub_queue.source_of_session(held.session_id)
    if not source.store.is_online:
        raise sub_queue.queue.unavailable(source)
    return await source.store.session_state(
        source.number, held.session_id, held.nonce, now=clock.now()
    )


async def _apply_to_held(
    sub_queue: ServedSubQueue,
    source: Source,
    held: HeldSession,
    operation: Operation,
    now: Instant,
) -> None:
    if not source.store.is_online:
        raise sub_queue.queue.unavailable(source)
    [count] = await source.store.apply([operation], now=now)
    if count == 0:
        held.is_lost = True
        raise SessionLockLost.ended()
