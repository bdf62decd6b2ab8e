"""From a thread of gRPC into the broker's loop, and back with the answer."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from bendybus.model.errors import OperationTimeout, ServerBusy

Answer = TypeVar("Answer")

STEP_SECONDS_MAX: Final = 60.0
"""How long an ordinary call may take in the broker, a step of a stream too."""
LONG_SECONDS_MAX: Final = 600.0
"""How long one may take that goes through many messages."""


class Hop:
    """Runs what the broker does in its loop, for threads that wait for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(self, work: Coroutine[Any, Any, Answer]) -> "Future[Answer]":
        """Begin something; raises `ServerBusy` if the loop has ended."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise ServerBusy("The broker is stopping.") from None

    def wait(self, work: "Future[Answer]", seconds_max: float = STEP_SECONDS_MAX) -> Answer:
        """Return what it came to. Raises what it raised, and `OperationTimeout`."""
        try:
            return work.result(seconds_max)
        except TimeoutError:
            work.cancel()
            raise OperationTimeout(
                f"The broker did not get it done within {seconds_max:g} seconds."
            ) from None

    def run(
        self, work: Coroutine[Any, Any, Answer], seconds_max: float = STEP_SECONDS_MAX
    ) -> Answer:
        """Do something, and return what it came to."""
        return self.wait(self.start(work), seconds_max)
