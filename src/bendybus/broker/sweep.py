"""sweep: locks that ended, messages that expired or are due, stores that came back."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.broker.duplicates import forget_seen
from bendybus.broker.holdings import Holdings
from bendybus.broker.publish_due import publish_due
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.broker.served_topic import ServedTopic
from bendybus.broker.turns import Turns
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
# A store is looked at now and then even if nothing is known to be due there.
LOOK_AGAIN_MS: Final = 30_000
# Where others share it, whoever looks after it does so more often: they do not say what is due.
LOOK_AGAIN_SHARED_MS: Final = 1_000
# Who does not look after a store waits so much longer for what is due there: it is done by then.
LATE_MS: Final = 1_000
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
        self._turns = Turns(stores)
        self._looked_at = [0] * len(stores)
        self._openings = [store.openings for store in stores]

    async def run(self) -> None:
        """Sweep until cancelled. What takes long in one store does not keep another waiting."""
        under_way: dict[int, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            while True:
                for at in range(len(self._stores)):
                    if (at not in under_way or under_way[at].done()) and self._is_due(at):
                        under_way[at] = tasks.create_task(self._sweep_store(at))
                await asyncio.sleep(SWEEP_SECONDS)

    async def sweep_all(self) -> None:
        """Sweep every store that is online, and welcome those that have come back."""
        stores = range(len(self._stores))
        await asyncio.gather(*(self._sweep_store(at) for at in stores if self._is_due(at)))

    def _is_due(self, at: int) -> bool:
        """Say whether to look at a store; if it was away, tell who waits that it is back."""
        store = self._stores[at]
        if not store.is_online:
            return False
        if self._openings[at] != store.openings:
            self._openings[at] = store.openings
            for sub_queue, source in self._places[at].values():
                sub_queue.note_free(source, len(sub_queue.sources))
                if sub_queue.queue.duplicate_window_ms is not None:
                    source.timetable.note_history(source.number, Instant(0))
        now = self._clock.now()
        is_watched = store.is_shared and store.is_caretaker
        again = LOOK_AGAIN_SHARED_MS if is_watched else LOOK_AGAIN_MS
        return now >= self._timetables[at].next_due or now - self._looked_at[at] >= again

    async def _sweep_store(self, at: int) -> None:
        store, places, timetable = self._stores[at], self._places[at], self._timetables[at]
        sessions, clock, turns = self._session_places[at], self._clock, self._turns
        now = self._looked_at[at] = clock.now()
        try:
            if store.is_shared and now < timetable.next_due:
                await self._look(at)
                return
            # What is noted from here on counts, and so does what the store says afterwards.
            timetable.next_due = FOREVER
            await turns.take(partial(sweep_once, store, places, clock))
            await forget_seen(store, places, timetable, clock, turns)
            if sessions:
                await turns.take(partial(end_lapsed, store, sessions, clock))
            await self._look(at)
            timetable.note_swept()
        except BusError as error:
            timetable.note(now)
            _log.warning("sweeping store %d was cut short: %s", at, error)

    async def _look(self, at: int) -> None:
        """Ask a store what will be due, by whatever front end it came there."""
        next_due = await self._stores[at].next_due()
        if next_due is not None:
            late = 0 if self._stores[at].is_caretaker else LATE_MS
            self._timetables[at].note(Instant(next_due + late))


async def sweep_once(store: Store, places: Places, clock: Clock, count_max: int) -> bool:
    """Deal with what is due in one store, up to a bound; say whether there may be more."""
    now = clock.now()
    found = await store.due(now=now, count_max=count_max)
    count = len(found)
    # What a retired entity still holds goes with it; but what is due behind it is not left out.
    found = [due for due in found if due.queue in places]
    if not found:
        return False
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
    for queue in {due.queue for due in found if due.guard is Guard.DUE}:
        places[queue][0].queue.note_use()
    return count == count_max


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


async def end_lapsed(store: Store, session_places: Places, clock: Clock, count_max: int) -> bool:
    """Free sessions whose lock has ended and whose messages are back at their place.

    Says whether there may be more. Which ones they are is not said: whoever waits for a session in
    this store looks again.
    """
    now = clock.now()
    [count] = await store.apply([EndLapsedSessions(count_max)], now=now)
    assert isinstance(count, int)
    if count:
        for sub_queue, source in session_places.values():
            sub_queue.held_sessions.forget_ended(now)
            sub_queue.note_free_sessions(source, count)
    return count == count_max


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
