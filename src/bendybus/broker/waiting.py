"""Receivers that found nothing wait here until there may be something."""

import asyncio


class Waiting:
    """The receivers waiting on one sub-queue, served in the order they came.

    Waking is a hint: who is woken asks the stores again, and waits again if somebody else was
    faster. Waking as many as there are messages keeps a crowd from running for one message.
    """

    def __init__(self) -> None:
        # A dictionary for its order, and so that leaving from the middle costs nothing.
        self._waiters: dict[asyncio.Future[None], None] = {}

    @property
    def count(self) -> int:
        """How many receivers wait."""
        return len(self._waiters)

    def join(self) -> "asyncio.Future[None]":
        """Return a future that a later `wake` ends. `leave` with it if it is not wanted."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[future] = None
        return future

    def leave(self, future: "asyncio.Future[None]") -> None:
        """Wait no more. A wake that had just come is passed on."""
        if self._waiters.pop(future, self) is self and not future.cancelled():
            self.wake(1)
        future.cancel()

    def wake(self, count: int) -> None:
        """Wake up to `count` waiting receivers."""
        waiters = self._waiters
        while count > 0 and waiters:
            future = next(iter(waiters))
            del waiters[future]
            if not future.done():
                future.set_result(None)
                count -= 1
