"""A broker that dies between two calls to its stores: what was called is done, or it is not."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from bendybus.testing.local_broker import StartedStore

# What whoever takes messages elsewhere calls; looking on is still possible.
CALLS: Final = ("acquire", "apply", "find_locked")


class DyingStores:
    """Lets so many calls through. The last of them is made, and its answer never comes."""

    def __init__(self, stores: Sequence[StartedStore]) -> None:
        self._calls_left: int | None = None
        self._death = asyncio.Event()
        for store in stores:
            for name in CALLS:
                setattr(store, name, self._mortal(getattr(store, name)))

    async def live_on(self, calls: int, until: Coroutine[Any, Any, object]) -> None:
        """Go on for so many calls, or until there are no more."""
        self._calls_left = calls
        ends = [asyncio.ensure_future(until), asyncio.ensure_future(self._death.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        self._calls_left = 0

    def _mortal(
        self, call: Callable[..., "asyncio.Future[Any]"]
    ) -> Callable[..., "asyncio.Future[Any]"]:
        def made(*args: Any, **kwargs: Any) -> "asyncio.Future[Any]":
            if self._calls_left is None:
                return call(*args, **kwargs)
            if self._calls_left > 1:
                self._calls_left -= 1
                return call(*args, **kwargs)
            if self._calls_left == 1:
                self._calls_left = 0
                call(*args, **kwargs).add_done_callback(lambda _: self._death.set())
            else:
                self._death.set()
            return asyncio.get_running_loop().create_future()

        return made
