"""forward: messages are taken to the entity that their own forwards to, or names (R6, R5.6).

Of the front ends that share a store, the one that looks after it does so. When another takes its
place, messages that it had in hand are free again, and are taken by the other. It may not know yet,
and hand over what the other has handed over: so for a while the other leaves transfers remembered.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.hand_over import Destinations
from bendybus.broker.mover import Mover
from bendybus.broker.namespaces import Namespaces
from bendybus.broker.served_queue import ServedQueue
from bendybus.model.errors import BusError, EntityNotFound
from bendybus.model.forwarding import place_of, source_of
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.operations import Forget, Transfer
from bendybus.store.port import Store

# How many movers may have a batch in hand: it bounds the memory that all of them take.
MOVERS_TOGETHER_MAX: Final = 32
# How often whoever looks after a shared store looks for messages that he was not told of.
OUTBOXES_SECONDS: Final = 2.0
# Who took a store over is sure after so long that nobody forwards from it on old knowledge: that
# needs to have been confirmed seconds ago, and so does each step (`store.sharing`).
SETTLED_SECONDS: Final = 30.0
# How often transfers are looked for that nobody forgot, how old they are then, and how many at
# once.
TIDY_SECONDS: Final = 600.0
TIDY_AGE_MS: Final = 60_000
TIDY_COUNT_MAX: Final = 100

_BEFORE_ALL: Final = Transfer(-1, -1)

_log = logging.getLogger(__name__)


class Forwarder:
    """Starts a mover for every fragment whose messages are to be taken elsewhere."""

    def __init__(self, namespaces: Namespaces, clock: Clock) -> None:
        self._holdings = namespaces.holdings
        self._clock = clock
        self._namespaces = namespaces
        # Messages stay within their namespace.
        self._destinations: dict[Catalog, Destinations] = {}
        self._store_numbers = {store: at for at, store in enumerate(self._holdings.stores)}
        self._movers: dict[int, Mover] = {}
        # Since when we look after a store, and how often it was opened then.
        self._caretaker_since: dict[Store, tuple[int, float]] = {}

    async def run(self) -> None:
        """Forward until cancelled."""
        turns = asyncio.Semaphore(MOVERS_TOGETHER_MAX)
        await self._note_outboxes(self._holdings.stores)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tidy_for_ever())
            group.create_task(self._look_for_ever())
            while True:
                for store, queue in await self._holdings.departures.taken():
                    at = self._store_numbers[store]
                    number = source_of(at, queue)
                    place = self._holdings.places[at].get(queue)
                    mover = self._movers.get(number)
                    if place is None:
                        continue  # Its entity was deleted.
                    if mover is not None:
                        mover.look(*place)
                    elif store.is_online and store.is_caretaker:
                        destinations = self._destinations_from(place[0].queue)
                        mover = Mover(number, *place, destinations, self._clock, self._is_settled)
                        self._movers[number] = mover
                        group.create_task(self._move(number, mover, turns))

    def _destinations_from(self, queue: ServedQueue) -> Destinations:
        catalog = self._namespaces.named(queue.namespace)
        if catalog not in self._destinations:
            kept = self._destinations.items()
            self._destinations = {each: found for each, found in kept if not each.is_gone}
            self._destinations[catalog] = Destinations(catalog)
        return self._destinations[catalog]

    def _is_settled(self, store: Store) -> bool:
        """Say whether nobody else can be forwarding from a store any more."""
        if not store.is_shared:
            return True
        if not store.is_caretaker:
            return False
        now = asyncio.get_running_loop().time()
        openings, since = self._caretaker_since.get(store, (-1, now))
        if openings != store.openings:
            since = now
        self._caretaker_since[store] = store.openings, since
        return now - since >= SETTLED_SECONDS

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(OUTBOXES_SECONDS)
            await self._note_outboxes(
                [each for each in self._holdings.stores if each.is_shared and each.is_caretaker]
            )

    async def _note_outboxes(self, stores: Sequence[Store]) -> None:
        """Note the transfer queues in which an earlier run, or another front end, left something.

        A store that is away is noted as a whole when it comes back.
        """
        for store in stores:
            with suppress(BusError):
                for queue in await store.occupied(SubQueue.TRANSFER):
                    self._holdings.departures.note(store, queue)

    async def _move(self, number: int, mover: Mover, turns: asyncio.Semaphore) -> None:
        try:
            await mover.run(turns)
        except Exception:  # noqa: BLE001 - what nobody foresaw must not stop all the others
            _log.exception("forwarding failed; what was in hand is tried again after a restart")
        # Nothing happens between its last look and this, so no hint is lost.
        del self._movers[number]

    async def _tidy_for_ever(self) -> None:
        while True:
            await self.tidy()
            await asyncio.sleep(TIDY_SECONDS)

    async def tidy(self) -> None:
        """Let stores forget transfers that a crash kept them from forgetting.

        Those whose message has left where it came from; whether it has, its store says.
        """
        for store in self._holdings.stores:
            try:
                if store.is_online and store.is_caretaker:
                    await self._tidy_store(store)
            except BusError as error:
                _log.warning("looking for old transfers was cut short: %s", error)

    async def _tidy_store(self, store: Store) -> None:
        now = self._clock.now()
        made_until = Instant(now - TIDY_AGE_MS)
        page = [_BEFORE_ALL]
        while page:
            page = await store.transfers(
                after=page[-1], made_until=made_until, count_max=TIDY_COUNT_MAX
            )
            for source, transfers in groupby(page, key=lambda each: each.source):
                departed = await self._departed(source, [each.sequence for each in transfers])
                if departed:
                    await store.apply([Forget(departed)], now=now)

    async def _departed(self, source: int, sequences: list[int]) -> list[Transfer]:
        """Return those of the transfers whose messages are no longer where they came from."""
        number, queue = place_of(source)
        if number >= len(self._holdings.stores) or not self._holdings.stores[number].is_online:
            return []
        try:
            found = await self._holdings.stores[number].find(queue, sequences)
        except EntityNotFound:
            found = []
        there = {message.sequence for message in found}
        return [Transfer(source, each) for each in sequences if each not in there]
