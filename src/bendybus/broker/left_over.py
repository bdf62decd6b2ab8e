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

# Messages that have arrived elsewhere, by their number, by source.
Arrived = dict[int, set[int]]


class LeftOver:
    """Asks the stores what has arrived there and has not left."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores
        # By the number of a store: how often it had been opened when it was asked for, and what
        # was left over by then, by source.
        self._found: dict[int, tuple[int, Arrived]] = {}
        # Likewise what the others remember of one that nobody has asked for yet.
        self._remembered: dict[int, tuple[int, Arrived]] = {}
        self._asking = asyncio.Lock()

    async def sources(self, number: int) -> Collection[int]:
        """Return the sources in a store from which something was left over when it was opened."""
        async with self._asking:
            if not self._is_known(number):
                openings, remembered = await self._remembered_of(number)
                self._found[number] = openings, await self._still_there(remembered)
        return [source for source, sequences in self._found[number][1].items() if sequences]

    async def at_opening(self, source: int) -> set[int]:
        """Return the messages of a source that were left over when its store was opened.

        Whoever takes one of them away takes it out of this set, too.
        """
        await self.sources(source >> QUEUE_BITS)
        return self._found[source >> QUEUE_BITS][1].get(source, set())

    async def now(self, source: int) -> set[int]:
        """Return those that are left over at this moment."""
        return (await self._still_there(await self._ask(source, source + 1))).get(source, set())

    def _is_known(self, number: int) -> bool:
        return number in self._found and self._found[number][0] == self._stores[number].openings

    async def _remembered_of(self, number: int) -> tuple[int, Arrived]:
        """Return what all stores remember of one. At a start each is asked once, for every one."""
        opened = self._stores[number].openings
        if number not in self._remembered or self._remembered[number][0] != opened:
            new = [at for at in range(len(self._stores)) if not self._is_known(at)]
            openings = {at: self._stores[at].openings for at in new}
            asked = await self._ask(min(new) << QUEUE_BITS, max(new) + 1 << QUEUE_BITS)
            for at in new:
                of_it = {each: asked[each] for each in asked if each >> QUEUE_BITS == at}
                self._remembered[at] = openings[at], of_it
        return self._remembered.pop(number)

    async def _ask(self, first: int, end: int) -> Arrived:
        """Ask every store that is there for what came from some sources."""
        online = [store for store in self._stores if store.is_online]
        remembered: Arrived = {}
        for transfers in await asyncio.gather(*(_transfers(each, first, end) for each in online)):
            for transfer in transfers:
                remembered.setdefault(transfer.source, set()).add(transfer.sequence)
        return remembered

    async def _still_there(self, arrived: Arrived) -> Arrived:
        """Return those that are still where they came from."""
        return {source: await self._in(source, sorted(arrived[source])) for source in arrived}

    async def _in(self, source: int, sequences: Sequence[int]) -> set[int]:
        store, queue = self._stores[source >> QUEUE_BITS], QueueNumber(source & QUEUE_MASK)
        there: set[int] = set()
        with suppress(EntityNotFound):
            for start in range(0, len(sequences), COUNT_MAX):
                found = await store.find(queue, sequences[start : start + COUNT_MAX])
                there.update(message.sequence for message in found)
        return there


async def _transfers(store: Store, first: int, end: int) -> list[Transfer]:
    """Return what a store remembers of some sources; nothing if it goes away meanwhile."""
    found: list[Transfer] = []
    page = [Transfer(first, -1)]
    with suppress(BusError):
        while page and page[-1].source < end:
            page = await store.transfers(after=page[-1], made_until=WHENEVER, count_max=COUNT_MAX)
            found += [each for each in page if each.source < end]
    return found
