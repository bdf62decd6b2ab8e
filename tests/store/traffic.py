"""A short, seeded life of a store: sends, locks, settlements, alone and together."""

import asyncio
from random import Random

from bendybus.model.errors import StoreFailed, StoreUnavailable
from bendybus.model.ids import Instant
from bendybus.model.message import Marks, Message, StoredMessage
from bendybus.model.operations import Answer, Append, Move, Operation, Remove, Renew, Unlock
from bendybus.store.port import Acquire, Store
from bendybus.testing.store_contract.subject import DEAD, LOCK_MS, MAIN, NOON, ROOMY
from tests.store.ledger import Entry, Ledger

SIZES = (1, 40, 300, 300, 3000, 9000)


class Traffic:
    """Drives one store and writes down what it was told."""

    def __init__(self, store: Store, ledger: Ledger, random: Random) -> None:
        self._store = store
        self._ledger = ledger
        self._random = random
        self._nonce = 0
        self._sent = 0
        self._held: list[StoredMessage] = []

    async def run(self, steps: int) -> None:
        """Do that many random steps. A store that fails ends none of them early."""
        for _ in range(steps):
            await self._random.choices(
                [
                    self.send,
                    self.send_together,
                    self.lock,
                    self.renew,
                    self.settle,
                    self.settle_all,
                ],
                [3, 2, 4, 1, 3, 1],
            )[0]()

    async def send(self) -> None:
        """Append a few messages."""
        contents = [self._content() for _ in range(self._random.randint(1, 4))]
        append = Append(MAIN, [Message(content) for content in contents], ROOMY)
        entry = self._ledger.append(contents)
        if await self._attempt([append], [entry]) is not None:
            self._ledger.answer(entry)

    async def send_together(self) -> None:
        """Let several callers append at once, with somebody locking among them."""
        await asyncio.gather(self.send(), self.lock(), self.send(), self.send())

    async def lock(self) -> None:
        """Acquire a few messages: a commit that is not synced."""
        self._nonce += 1
        wish = Acquire(MAIN, 3, ROOMY, Instant(NOON + LOCK_MS), self._nonce)
        try:
            self._held += await self._store.acquire(wish, now=NOON)
        except (StoreUnavailable, StoreFailed):
            return

    async def renew(self) -> None:
        """Renew what is held: also not synced."""
        locks = [message.lock for message in self._held]
        await self._attempt([Renew(MAIN, locks, Instant(NOON + 2 * LOCK_MS))])

    async def settle(self) -> None:
        """Settle one message in one of three ways."""
        if not self._held:
            return
        held = self._held.pop(self._random.randrange(len(self._held)))
        others: list[Operation] = [
            Unlock(MAIN, [held.lock], is_counted=True),
            Move(MAIN, DEAD, held.lock, Marks("why"), is_counted=True),
        ]
        if self._random.random() < 0.5:
            await self._remove([held])
        else:
            await self._attempt([self._random.choice(others)])

    async def settle_all(self) -> None:
        """Remove all that is held."""
        held, self._held = self._held, []
        await self._remove(held)

    async def _remove(self, held: list[StoredMessage]) -> None:
        entries = {message.sequence: self._ledger.removal(message.content) for message in held}
        removal = Remove(MAIN, [message.lock for message in held])
        answers = await self._attempt([removal], [*entries.values()])
        if answers is None:
            return
        [lost] = answers
        assert isinstance(lost, list)
        for sequence, entry in entries.items():
            # Locks are not synced, so a failure may have undone some.
            if sequence in lost:
                self._ledger.refuse(entry)
            else:
                self._ledger.answer(entry)

    async def _attempt(
        self, operations: list[Operation], entries: list[Entry] | None = None
    ) -> list[Answer] | None:
        try:
            return await self._store.apply(operations, now=NOON)
        except StoreUnavailable:
            for entry in entries or []:
                self._ledger.refuse(entry)
        except StoreFailed:
            pass  # Written or not: nobody knows.
        return None

    def _content(self) -> bytes:
        self._sent += 1
        return b"%d:" % self._sent + self._random.randbytes(self._random.choice(SIZES))
