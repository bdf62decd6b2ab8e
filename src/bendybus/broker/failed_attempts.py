"""Slows down who guesses keys, without harm to those who have one.

Each address may fail a few times at once. Beyond that each failure is answered late, so that it
cannot fail more often than `FAILURES_PER_SECOND`; what is good is answered at once throughout.
Only if very many of its failures wait is the rest refused unchecked.
"""

from asyncio import sleep
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.model.errors import AuthenticationFailed, ServerBusy
from bendybus.model.token_bucket import TokenBucket

FAILURES_PER_SECOND: Final = 5
FAILURES_AT_ONCE: Final = 20
WAITING_MAX: Final = 50
ADDRESSES_MAX: Final = 10_000


class _Failures:
    """Those of one address."""

    __slots__ = ("bucket", "waiting")

    def __init__(self) -> None:
        self.bucket = TokenBucket(FAILURES_PER_SECOND, FAILURES_AT_ONCE)
        self.waiting = 0


class FailedAttempts:
    """Remembers who failed lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._addresses: dict[str, _Failures] = {}

    @asynccontextmanager
    async def slowing(self, address: str) -> AsyncIterator[None]:
        """Hold back an `AuthenticationFailed` that leaves the block for as long as it must wait."""
        failures = self._addresses.get(address)
        if failures is not None and failures.waiting >= WAITING_MAX:
            raise ServerBusy("Too many attempts with wrong tokens or keys; try again later.")
        try:
            yield
        except AuthenticationFailed:
            await self._wait(self._failures(address))
            raise

    async def _wait(self, failures: _Failures) -> None:
        seconds = failures.bucket.take_debt(1, self._clock.now())
        if seconds <= 0:
            return
        failures.waiting += 1
        try:
            await sleep(seconds)
        finally:
            failures.waiting -= 1

    def _failures(self, address: str) -> _Failures:
        """Return the entry of an address as the last to be forgotten."""
        failures = self._addresses.pop(address, None) or _Failures()
        if len(self._addresses) >= ADDRESSES_MAX:
            del self._addresses[next(iter(self._addresses))]
        self._addresses[address] = failures
        return failures
