"""sweep: locks that ended, messages that expired or are due, stores that came back."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.broker.duplicates import forget_seen
from bendybus.broker.holdings import Holdings
from bendybus.broker.publish_due import publish_due
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.broker.served_topic import ServedTopic
from bendybus.model.errors import BusError
from bendybus.model.ids import Instant, QueueNumber, SubQueue
from bendybus.model.message import Lock
from bendybus.model.operations import (
    Activate,
    EndLapsedSessions,
    Guard,
    Operation,
    Remove,
    Unlock,
)
from bendybus.model.settlement import DeliveryPolicy, operation_for_due
from bendybus.store.port import Due, Store

SWEEP_SECONDS: Final = 0.25
# What one store is told in one turn. When there is more, the next follows at once; what others want
# of the store comes between, so a turn is as much as they have to wait for at most.
SWEEP_COUNT_MAX: Final = 100
# A store is looked at now and then even if nothing is known to be due there.
LOOK_AGAIN_MS: Final = 30_000
FOREVER: Final = Instant(2**63 - 1)

# The place of every queue that a store holds.
Places = Mapping[QueueNumber, tuple[ServedSubQueue, Source]]

_log = logging.getLogger(__name__)


class Sweep:
    """Deals with what is due, store by store, in bounded turns."""

    def __init__(self, holdings: Holdings, clock: Clock) -> None:
        stores = self._stores = holdings.stores
        self._places: Sequence[Places] = holdings.places
        self._session_places: Sequence[Places] = holdings.session_places
        self._timetables = holdings.timetables
        self._clock = clock
        self._looked_at = [0] * len(stores)
        self._openings = [store.openings for store in stores]
        # How many stores are being swept just now.
        self._sweeping = 0

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await self.sweep_all()
            await asyncio.sleep(SWEEP_SECONDS)

    async def sweep_all(self) -> None:
        """Sweep every store that is online, and welcome those that have come back."""
        await asyncio.gather(*(self._sweep_store(at) for at in range(len(self._stores))))

    async def _sweep_store(self, at: int) -> None:
        store, places = self._stores[at], self._places[at]
        if not store.is_online:
            return
        if self._openings[at] != store.openings:
            self._openings[at] = store.openings
            for sub_queue, source in places.values():
                sub_queue.note_added(source, len(sub_queue.sources))
                if sub_queue.queue.duplicate_window_ms is not None:
                    source.timetable.note_history(source.number, Instant(0))
        now, timetable = self._clock.now(), self._timetables[at]
        if now < timetable.next_due and now - self._looked_at[at] < LOOK_AGAIN_MS:
            return
        self._looked_at[at] = now
        # What is noted from here on counts, and so does what the store says afterwards.
        timetable.next_due = FOREVER
        try:
            await self._sweep_due(store, places)
            await forget_seen(store, places, timetable, self._clock)
            while await end_lapsed_sessions(store, self._session_places[at], self._clock):
                continue
            next_due = await store.next_due()
            if next_due is not None:
                timetable.note(next_due)
            timetable.note_swept()
        except BusError as error:
            timetable.note(now)
            _log.warning("sweeping store %d was cut short: %s", at, error)

    async def _sweep_due(self, store: Store, places: Places) -> None:
        """Take turns until nothing is due, with a rest after each that was full.

        Of all stores that have much to do one is at work on average, and none for more than half
        of the time: the rest belongs to the clients. A store that hangs holds up no other.
        """
        time = asyncio.get_running_loop().time
        self._sweeping += 1
        try:
            begun = time()
            while await sweep_once(store, places, self._clock) == SWEEP_COUNT_MAX:
                await asyncio.sleep((time() - begun) * self._sweeping)
                begun = time()
        finally:
            self._sweeping -= 1


async def sweep_once(store: Store, places: Places, clock: Clock) -> int:
    """Deal with what is due in one store, up to a bound; return how much there was."""
    now = clock.now()
    found = await store.due(now=now, count_max=SWEEP_COUNT_MAX)
    count = len(found)
    # What a retired entity still holds goes with it; but what is due behind it is not left out.
    found = [due for due in found if due.queue in places]
    if not found:
        return 0
    found = await _publish_delayed(found, places, clock)
    operations = _decide(found, places)
    if operations:
        await store.apply(operations, now=now)
    for queue in {due.queue for due in found}:
        sub_queue, source = places[queue]
        if not sub_queue.has_sessions or any(due.guard is Guard.DUE for due in found):
            sub_queue.note_added(source, len(found))
        dead_letters = sub_queue.queue.sub_queues[SubQueue.DEAD_LETTER]
        dead_letters.note_added(dead_letters.sources[source.fragment], len(found))
    return min(count, SWEEP_COUNT_MAX)


async def _publish_delayed(found: Sequence[Due], places: Places, clock: Clock) -> list[Due]:
    """Publish what waited at topics for its time; return the rest."""
    rest: list[Due] = []
    delayed: dict[QueueNumber, list[Lock]] = {}
    for due in found:
        if due.guard is Guard.DUE and isinstance(places[due.queue][0].queue, ServedTopic):
            delayed.setdefault(due.queue, []).append(due.lock)
        else:
            rest.append(due)
    for queue, locks in delayed.items():
        sub_queue, source = places[queue]
        assert isinstance(sub_queue.queue, ServedTopic), "as looked up above"
        await publish_due(sub_queue.queue, source, locks, clock)
    return rest


async def end_lapsed_sessions(store: Store, session_places: Places, clock: Clock) -> bool:
    """Free sessions whose lock has ended and whose messages are back at their place.

    Says whether there may be more. Which ones they are is not said: whoever waits for a session in
    this store looks again.
    """
    if not session_places:
        return False
    now = clock.now()
    [count] = await store.apply([EndLapsedSessions(SWEEP_COUNT_MAX)], now=now)
    assert isinstance(count, int)
    if count:
        for sub_queue, source in session_places.values():
            sub_queue.held_sessions.forget_ended(now)
            sub_queue.note_free_sessions(source, count)
    return count == SWEEP_COUNT_MAX


def _decide(found: Sequence[Due], places: Places) -> list[Operation]:
    """Decide for each, and join what one queue is told alike: a store makes that in one step.

    Activations stay in the order of their times, which is the order in which they are found.
    """
    moves: list[Operation] = []
    unlocks: dict[tuple[QueueNumber, Guard], list[Lock]] = {}
    removals: dict[tuple[QueueNumber, Guard], list[Lock]] = {}
    activations: dict[QueueNumber, list[int]] = {}
    policies = {queue: _policy(places[queue]) for queue in {due.queue for due in found}}
    for due in found:
        queue = due.queue
        match operation_for_due(due.guard, due.lock, due.marks, policies[queue]):
            case Unlock(locks=locks, guard=guard):
                unlocks.setdefault((queue, guard), []).extend(locks)
            case Remove(locks=locks, guard=guard):
                removals.setdefault((queue, guard), []).extend(locks)
            case Activate(sequences=sequences):
                activations.setdefault(queue, []).extend(sequences)
            case operation:
                moves.append(operation)
    return [
        *moves,
        *(
            Unlock(queue, locks, is_counted=True, guard=guard)
            for (queue, guard), locks in unlocks.items()
        ),
        *(Remove(queue, locks, guard) for (queue, guard), locks in removals.items()),
        *(Activate(queue, sequences) for queue, sequences in activations.items()),
    ]


def _policy(place: tuple[ServedSubQueue, Source]) -> DeliveryPolicy:
    sub_queue, source = place
    return sub_queue.policy(source)
