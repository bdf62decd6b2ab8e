"""Where messages may have come that are to be taken elsewhere."""

import asyncio

from bendybus.model.ids import QueueNumber
from bendybus.store.port import Store


class Departures:
    """Hints for who takes messages elsewhere: which queues of which stores to look at.

    A queue that forwards is noted once when it is served, so that what an earlier run left there
    is found. Every entity has a transfer queue, and nearly all are empty: who takes messages asks
    the stores for the others.
    """

    def __init__(self) -> None:
        # A dictionary for its order.
        self._noted: dict[tuple[Store, QueueNumber], None] = {}
        self._hint = asyncio.Event()

    def note(self, store: Store, queue: QueueNumber) -> None:
        """Note that messages may have become free there."""
        self._noted[store, queue] = None
        self._hint.set()

    async def taken(self) -> list[tuple[Store, QueueNumber]]:
        """Wait until something is noted; return it, and begin anew."""
        await self._hint.wait()
        self._hint.clear()
        noted, self._noted = self._noted, {}
        return list(noted)
