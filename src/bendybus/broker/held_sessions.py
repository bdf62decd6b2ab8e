"""The sessions of one sub-queue that receivers of this broker hold, and how they are woken."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from bendybus.broker.waiting import Waiting
from bendybus.model.ids import Instant
from bendybus.model.message import Lock

# Who is woken by a hint that names no session looks for nothing, mostly. However many hints come,
# all who hold sessions cost the stores no more than one look in such a time.
LOOK_APART_SECONDS: Final = 0.002


class HeldSession:
    """A lock on a session, as far as its holder knows: the store decides whether it holds."""

    __slots__ = ("additions", "is_lost", "locked_until", "nonce", "session_id", "waiting")

    def __init__(self, session_id: str, nonce: int, locked_until: Instant) -> None:
        self.session_id = session_id
        self.nonce = nonce
        self.locked_until = locked_until
        # The store said so, before the time was up.
        self.is_lost = False
        # Rises whenever the session may have got a message, as `Source.additions` does.
        self.additions = 0
        self.waiting = Waiting()

    def has_ended(self, now: Instant) -> bool:
        """Whether the lock is no longer held."""
        return self.is_lost or self.locked_until <= now

    def wake(self) -> None:
        """Let the holder look again."""
        self.additions += 1
        self.waiting.wake(1)


class HeldSessions:
    """The sessions held, by their ids and by the nonces of their locks."""

    def __init__(self) -> None:
        self._by_id: dict[str, HeldSession] = {}
        self._by_nonce: dict[int, HeldSession] = {}
        self._woken_at = 0.0
        self._waking: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """How many sessions are held."""
        return len(self._by_id)

    def add(self, held: HeldSession) -> None:
        """Enter a session that was accepted. Who held it before has lost it."""
        self._by_id[held.session_id] = held
        self._by_nonce[held.nonce] = held

    def remove(self, held: HeldSession) -> None:
        """Strike out a session that was released or lost."""
        self._by_nonce.pop(held.nonce, None)
        if self._by_id.get(held.session_id) is held:
            del self._by_id[held.session_id]

    def forget_ended(self, now: Instant) -> None:
        """Strike out what was lost, before its holder has noticed: others get its messages."""
        for held in [each for each in self._by_nonce.values() if each.has_ended(now)]:
            self.remove(held)

    def with_nonce(self, nonce: int) -> HeldSession | None:
        """Return the session that is held under a nonce."""
        return self._by_nonce.get(nonce)

    def wake(self, session_ids: Iterable[str | None]) -> int:
        """Wake the holders of sessions; return how many of the sessions nobody holds."""
        free = 0
        for session_id in session_ids:
            held = self._by_id.get(session_id) if session_id is not None else None
            if held is None:
                free += 1
            else:
                held.wake()
        return free

    def wake_holders(self, locks: Sequence[Lock]) -> None:
        """Wake those who hold sessions that got messages back."""
        for nonce in {lock.nonce for lock in locks}:
            held = self._by_nonce.get(nonce)
            if held is not None:
                held.wake()

    def wake_in_turn(self) -> None:
        """Wake every holder, at once or, the more there are, a little later."""
        if self._waking is not None:
            return
        loop = asyncio.get_running_loop()
        ready_at = self._woken_at + len(self._by_id) * LOOK_APART_SECONDS
        if loop.time() >= ready_at:
            self._woken_at = loop.time()
            self.wake_all()
        else:
            self._waking = loop.call_at(ready_at, self._wake_late)

    def _wake_late(self) -> None:
        self._waking = None
        self._woken_at = asyncio.get_running_loop().time()
        self.wake_all()

    def wake_all(self) -> None:
        """Wake every holder."""
        for held in list(self._by_id.values()):
            held.wake()
