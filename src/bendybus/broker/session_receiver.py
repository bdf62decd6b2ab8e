"""receive, from one session: its messages in their order, and no others."""

import asyncio

from bendybus.broker.clock import Clock
from bendybus.broker.held_sessions import HeldSession
from bendybus.broker.receive import (
    ACQUIRE_BYTES_MAX,
    ACQUIRE_COUNT_MAX,
    RETRY_SECONDS,
    ReceiveMode,
    give_back,
    removed,
)
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.broker.sessions import release_session
from bendybus.model.errors import BusError, SessionLockLost
from bendybus.model.message import StoredMessage
from bendybus.store.port import Acquire


class SessionReceiver:
    """One receiver of one session.

    Beside a `Receiver` it has one source, and neither reads ahead nor keeps anything: what it took
    and could not hand out must go back before an abandoned message, or it would overtake it.
    """

    def __init__(
        self, sub_queue: ServedSubQueue, held: HeldSession, mode: ReceiveMode, clock: Clock
    ) -> None:
        self.sub_queue = sub_queue
        self.mode = mode
        self.held = held
        self.waiting = held.waiting
        self._source = sub_queue.source_of_session(held.session_id)
        self._clock = clock
        # What `held.additions` was before an answer that had all there was.
        self._empty_at = -1

    async def receive(self, count_max: int) -> list[StoredMessage]:
        """Return the next messages, at most `count_max`, or none if none is free."""
        held = self.held
        while not held.has_ended(self._clock.now()):
            additions = held.additions
            if additions == self._empty_at:
                return []
            try:
                messages = await self._acquire(count_max)
            except SessionLockLost:
                held.is_lost = True
                return []
            except BusError:
                # Woken when the store is back; asked again when it was only overloaded.
                await asyncio.sleep(RETRY_SECONDS)
                if not self._source.store.is_online:
                    return []
                continue
            if self._is_all(messages, count_max):
                self._empty_at = additions
            if messages:
                if (traces := self.sub_queue.queue.traces) is not None:
                    traces.note_received(self.sub_queue.queue.name, messages)
                return messages
        return []

    async def take_back(self, messages: list[StoredMessage]) -> None:
        """Give back what could not be handed out: what is abandoned must not come after it."""
        await give_back(self.sub_queue, [message.lock for message in messages], self._clock)

    def _is_all(self, messages: list[StoredMessage], count_max: int) -> bool:
        """Whether nothing else was free: neither bound kept another message from coming."""
        if not messages or len(messages) >= min(count_max, ACQUIRE_COUNT_MAX):
            return not messages
        room = ACQUIRE_BYTES_MAX - 2 * self.sub_queue.queue.message_bytes_max
        return sum(len(message.content) for message in messages) <= room

    async def close(self) -> None:
        """Give the session back, with all that it holds."""
        await release_session(self.sub_queue, self.held, self._clock)

    async def _acquire(self, count_max: int) -> list[StoredMessage]:
        held = self.held
        request = Acquire(
            self._source.number,
            min(count_max, ACQUIRE_COUNT_MAX),
            ACQUIRE_BYTES_MAX,
            held.locked_until,
            held.nonce,
            held.session_id,
        )
        messages = await self._source.store.acquire(request, now=self._clock.now())
        if held.has_ended(self._clock.now()):
            # They came late: whoever holds the session by now may have had them.
            raise SessionLockLost.ended()
        if self.mode is ReceiveMode.RECEIVE_AND_DELETE:
            return await removed(self.sub_queue, messages, self._clock)
        return messages
