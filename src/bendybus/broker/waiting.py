"""Receivers that found nothing wait here until there may be something."""

import asyncio
from collections import deque


class Waiting:
    """The receivers waiting on one sub-queue, served in the order they came.

    Waking is a hint: who is woken asks the stores again, and waits again if somebody else was
    faster. Waking as many as there are messages keeps a crowd from running for one message.
    """

    def __init__(self) -> None:
        self._waiters: deque[asyncio.Future[None]] = deque()

    def join(self) -> "asyncio.Future[None]":
        """Return a future that a later `wake` ends. Cancel it to leave."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        return future

    def wake(self, count: int) -> None:
        """Wake up to `count` waiting receivers."""
        waiters = self._waiters
        while count > 0 and waiters:
            future = waiters.popleft()
            if not future.done():
                future.set_result(None)
                count -= 1
