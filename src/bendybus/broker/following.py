"""Following what other front ends change in the catalog: soon by itself, at once when it matters.

A front end that serves an entity or a key as it was a moment ago is no worse than one that was
asked a moment ago. One that says "there is none" of what was made through another is: clients do
not try again. So whoever finds nothing looks first, here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from bendybus.model.errors import EntityNotFound
from bendybus.store.port import Store

T = TypeVar("T")

# How often it is looked whether a store has come back, or has changed.
LOOK_SECONDS: Final = 0.25
# However many find nothing, the stores are not asked more often; nor waited for longer.
LOOK_APART_SECONDS: Final = 0.05
LOOK_SECONDS_MAX: Final = 1.0


class Following:
    """Keeps what is served as the stores say."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores
        # Each brings one part of what is served to what the stores say.
        self.agreeing: list[Callable[[], Awaitable[None]]] = []
        self._hint = asyncio.Event()
        # A look that has not begun yet: it will see all that has happened until now.
        self._next: asyncio.Task[None] | None = None
        self._under_way: asyncio.Task[None] | None = None

    def note_changed(self) -> None:
        """Note that another front end has changed something."""
        self._hint.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            if self._hint.is_set():
                self._hint.clear()
                await self._ask()
            await self.agree()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._hint.wait()

    async def agree(self) -> None:
        """Serve what the stores are known to say, and let those that came back say the same."""
        for agree in self.agreeing:
            await agree()

    async def look(self) -> None:
        """Learn what other front ends have changed until now, as far as stores answer."""
        if not any(store.is_shared for store in self._stores):
            return
        if self._next is None:
            self._next = asyncio.create_task(self._look_after(self._under_way))
        # Whoever gives up must not take it from the others.
        await asyncio.shield(self._next)

    async def _look_after(self, before: "asyncio.Task[None] | None") -> None:
        if before is not None:
            await asyncio.wait([before])
            await asyncio.sleep(LOOK_APART_SECONDS)
        self._under_way, self._next = self._next, None
        await self._ask()
        await self.agree()

    async def _ask(self) -> None:
        """Make shared stores say how old they are: with any call that they answer."""
        calls = [
            asyncio.ensure_future(store.numbers_given())
            for store in self._stores
            if store.is_shared and store.is_online
        ]
        if calls:
            answered, late = await asyncio.wait(calls, timeout=LOOK_SECONDS_MAX)
            for call in late:
                call.cancel()
            for call in answered:
                # Looked at, and no more: a store that fails is seen to be away.
                call.exception()


async def found(following: Following, find: Callable[[], T]) -> T:
    """Return what is found, at once or after a look. Raises `EntityNotFound`."""
    try:
        return find()
    except EntityNotFound:
        await following.look()
    return find()
