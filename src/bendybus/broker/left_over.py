"""Messages that have arrived elsewhere and are still where they came from: an end lay between.

Handed over to the same place once more they are left out there. But by now they may be meant for
another place, or for none: the queue forwards elsewhere or no more, or the place is gone. That they
have arrived is remembered where they did, so the stores are asked before they are taken on again.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

from bendybus.model.errors import BusError, EntityNotFound
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.operations import Transfer
from bendybus.store.port import Store

# A source is the number of its store, and behind it that of the queue.
QUEUE_BITS: Final = 32
QUEUE_MASK: Final = (1 << QUEUE_BITS) - 1
# How many are asked for at once.
COUNT_MAX: Final = 500
WHENEVER: Final = Instant(1 << 62)


class LeftOver:
    """Asks the stores what has arrived there and has not left."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores
        # By the number of a store: how often it had been opened when it was asked for, and what
        # was left over by then, by source.
        self._found: dict[int, tuple[int, dict[int, set[int]]]] = {}
        self._asking = asyncio.Lock()

    async def sources(self, number: int) -> Collection[int]:
        """Return the sources in a store from which something was left over when it was opened."""
        store = self._stores[number]
        async with self._asking:
            openings, found = self._found.get(number, (-1, {}))
            if openings != store.openings:
                openings = store.openings
                found = await self._ask(number << QUEUE_BITS, number + 1 << QUEUE_BITS)
                self._found[number] = openings, found
        return [source for source, sequences in found.items() if sequences]

    async def at_opening(self, source: int) -> set[int]:
        """Return the messages of a source that were left over when its store was opened.

        Whoever takes one of them away takes it out of this set, too.
        """
        await self.sources(source >> QUEUE_BITS)
        return self._found[source >> QUEUE_BITS][1].get(source, set())

    async def now(self, source: int) -> set[int]:
        """Return those that are left over at this moment."""
        return (await self._ask(source, source + 1)).get(source, set())

    async def _ask(self, first: int, end: int) -> dict[int, set[int]]:
        """Ask every store that is there for what came from some sources and is still in them."""
        remembered: dict[int, set[int]] = {}
        for store in self._stores:
            if store.is_online:
                with suppress(BusError):
                    for transfer in await _transfers(store, first, end):
                        remembered.setdefault(transfer.source, set()).add(transfer.sequence)
        return {
            source: await self._still_there(source, sorted(sequences))
            for source, sequences in remembered.items()
        }

    async def _still_there(self, source: int, sequences: Sequence[int]) -> set[int]:
        store, queue = self._stores[source >> QUEUE_BITS], QueueNumber(source & QUEUE_MASK)
        there: set[int] = set()
        with suppress(EntityNotFound):
            for start in range(0, len(sequences), COUNT_MAX):
                found = await store.find(queue, sequences[start : start + COUNT_MAX])
                there.update(message.sequence for message in found)
        return there


async def _transfers(store: Store, first: int, end: int) -> list[Transfer]:
    """Return what a store remembers of some sources."""
    found: list[Transfer] = []
    page = [Transfer(first, -1)]
    while page and page[-1].source < end:
        page = await store.transfers(after=page[-1], made_until=WHENEVER, count_max=COUNT_MAX)
        found += [each for each in page if each.source < end]
    return found
