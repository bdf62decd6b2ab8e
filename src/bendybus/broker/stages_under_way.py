"""What the broker remembers of staging while it runs: hints alone, the stores know the rest."""

import asyncio
from contextlib import suppress
from weakref import WeakValueDictionary

from bendybus.model.ids import EntityNumber
from bendybus.store.port import Store


class StagesUnderWay:
    """Stages that are being brought, and stores that have something to be finished."""

    def __init__(self) -> None:
        # Who brings them drops what is left of them; nobody else may.
        self.open: set[int] = set()
        self._unfinished: set[Store] = set()
        self._noticed = asyncio.Event()
        self._turns: WeakValueDictionary[tuple[EntityNumber, str], asyncio.Lock] = (
            WeakValueDictionary()
        )

    def turn(self, entity: EntityNumber, writer: str) -> asyncio.Lock:
        """Return what lets one publish at a time for a writer; another would be in its way."""
        return self._turns.setdefault((entity, writer), asyncio.Lock())

    def note(self, home: Store) -> None:
        """Note that a batch was published by half, or that stages there are stale."""
        self._unfinished.add(home)
        self._noticed.set()

    def taken(self) -> set[Store]:
        """Return the stores that were noted, and begin anew."""
        noted, self._unfinished = self._unfinished, set()
        self._noticed.clear()
        return noted

    async def wait(self, seconds: float) -> None:
        """Wait until a store is noted, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._noticed.wait()
