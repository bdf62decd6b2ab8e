"""finish staged: batches that were published by half, and stages that nobody will publish."""

import asyncio
import logging
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.broker.namespaces import Namespaces
from bendybus.broker.publish_staged import carry_out
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.stage import Home
from bendybus.model.errors import BusError
from bendybus.model.ids import EntityNumber, Instant, QueueNumber
from bendybus.model.staging import (
    DropStage,
    ExpireStages,
    ForgetStage,
    ForgetWriters,
    Unfinished,
)
from bendybus.store.port import Store

# How long what could not be finished waits for the next try. Shared stores are looked at as often:
# other front ends do not say what they left half-way.
RETRY_SECONDS: Final = 5.0
LOOK_AGAIN_MS: Final = 3_600_000
# How long a stage waits to be published, and how long a writer is remembered that does nothing.
STAGE_AGE_MAX_MS: Final = 24 * 3_600_000
WRITER_AGE_MAX_MS: Final = 365 * 24 * 3_600_000
# What is done in one turn: stages, and chunks, of a megabyte each.
STAGES_TOGETHER: Final = 100
CHUNKS_TOGETHER: Final = 4

_log = logging.getLogger(__name__)


class Finisher:
    """Looks after what writers left behind, when the broker starts and when stores come back."""

    def __init__(self, namespaces: Namespaces, clock: Clock) -> None:
        self._holdings = namespaces.holdings
        self._under_way = namespaces.holdings.under_way
        self._clock = clock
        # As of the last look: how often each store was opened, and when that was.
        self._openings: dict[Store, int] = {}
        self._looked_at: dict[Store, Instant] = {}
        # Why batches wait, as it was last said.
        self._told: dict[tuple[EntityNumber, str], str] = {}

    async def run(self) -> None:
        """Finish and forget until cancelled."""
        while True:
            await self.look()
            await self._under_way.wait(RETRY_SECONDS)

    async def look(self) -> None:
        """Look at every store that has something to be finished, or may have."""
        noted = self._under_way.taken()
        for at, store in enumerate(self._holdings.stores):
            is_old = self._clock.now() - self._looked_at.get(store, 0) >= LOOK_AGAIN_MS
            if not (store.is_online and store.is_caretaker) or not (
                store in noted
                or is_old
                or store.is_shared
                or self._openings.get(store) != store.openings
            ):
                continue
            openings = store.openings
            try:
                is_done = await self._finish(at, store)
                if is_old:
                    await self._forget_old(store)
                is_done &= await self._drop_stale(at, store)
            except BusError as error:
                _log.warning("finishing what is staged in store %d was cut short: %s", at, error)
                is_done = False
            if is_done:
                self._openings[store] = openings
                self._looked_at[store] = self._clock.now()
            else:
                self._openings.pop(store, None)

    async def _finish(self, at: int, store: Store) -> bool:
        """Publish the rest of batches that were decided; say whether none is left."""
        is_done = True
        for each in await store.unfinished():
            place = self._holdings.places[at].get(each.writer.home)
            if place is None:
                continue  # Its entity is being deleted, and this with it.
            sub_queue, source = place
            is_done &= await self._finish_one(sub_queue.queue, Home(source, each.writer), each)
        return is_done

    async def _finish_one(self, queue: ServedQueue, home: Home, each: Unfinished) -> bool:
        turn = self._under_way.turn(queue.number, each.writer.name)
        if turn.locked():
            return True  # Its writer is about to.
        async with turn:
            try:
                await carry_out(queue, home, each.decision, self._clock)
            except BusError as error:
                self._tell(queue, each, error)
                return False
        self._told.pop((queue.number, each.writer.name), None)
        return True

    def _tell(self, queue: ServedQueue, each: Unfinished, error: BusError) -> None:
        """Say why a batch waits, and not again while that is the reason."""
        key = queue.number, each.writer.name
        if self._told.get(key) != error.message:
            self._told[key] = error.message
            _log.warning(
                "batch %d of the writer '%s' waits to be published in '%s': %s",
                each.decision.batch,
                each.writer.name,
                queue.name,
                error,
            )

    async def _forget_old(self, store: Store) -> None:
        now = self._clock.now()
        for operation in (
            ExpireStages(Instant(now - STAGE_AGE_MAX_MS), STAGES_TOGETHER),
            ForgetWriters(Instant(now - WRITER_AGE_MAX_MS), STAGES_TOGETHER),
        ):
            count = STAGES_TOGETHER
            while count == STAGES_TOGETHER:
                [answer] = await store.apply([operation], now=now)
                assert isinstance(answer, int)
                count = answer

    async def _drop_stale(self, at: int, home: Store) -> bool:
        """Drop the chunks of stages that nobody will publish; say whether none is left."""
        is_done = True
        tried: set[int] = set()
        while True:
            found = await home.stale_stages(count_max=STAGES_TOGETHER + len(tried))
            stages = [each for each in found if each[0] not in tried]
            if not stages:
                return is_done
            for stage, queue in stages:
                tried.add(stage)
                # Who brings it drops it; then this is looked at again.
                if stage not in self._under_way.open:
                    is_done &= await self._drop_stage(at, home, stage, queue)

    async def _drop_stage(self, at: int, home: Store, stage: int, queue: QueueNumber) -> bool:
        place = self._holdings.places[at].get(queue)
        if place is None:
            return True
        sources = place[0].queue.main.sources
        now = self._clock.now()
        dropped = 0
        for source in sources:
            if not source.store.is_online:
                return False
            count = CHUNKS_TOGETHER
            while count == CHUNKS_TOGETHER:
                drop = DropStage(source.number, stage, CHUNKS_TOGETHER)
                [answer] = await source.store.apply([drop], now=now)
                assert isinstance(answer, int)
                count = answer
                dropped += count
                await asyncio.sleep(0)
        if dropped and home.is_shared:
            # It may be brought through another front end still: once more, later.
            return False
        await home.apply([ForgetStage(stage)], now=now)
        return True
