"""Takes the messages of one fragment elsewhere: the queue they are in is the outbox (D7).

    acquire ──► hand over, where it is remembered ──► remove ──► let it be forgotten

A crash anywhere leaves the message where it came from, at worst with its transfer remembered
where it went; doing all of it again does no harm. Messages are held while they are on their way
(`UNTIL_REOPENED`), so nothing else happens to them, and one fragment has one mover, so order is
kept: a message waits for those before it that go to the same place, and for no others.
"""

import asyncio
import logging
import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.broker.hand_over import FORGOTTEN_TOGETHER_MAX, Destinations, Group, Parcel, Place
from bendybus.broker.receive import ACQUIRE_BYTES_MAX, ACQUIRE_COUNT_MAX, NONCE_BITS
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import BusError, EntityNotFound, StoreFailed, StoreUnavailable
from bendybus.model.forwarding import Undeliverable, dead_lettered, sub_queue_for
from bendybus.model.ids import FragmentIndex, Instant, SubQueue
from bendybus.model.message import Lock, StoredMessage
from bendybus.model.operations import Answer, Operation, Remove, Unlock
from bendybus.store.port import UNTIL_REOPENED, Acquire, Store

# How long a place that could not take messages is left alone, at first and at most.
PAUSE_SECONDS: Final = 0.25
PAUSE_SECONDS_MAX: Final = 5.0
# How many messages of one fragment may wait for their places while those behind them go on.
HELD_MAX: Final = 5000
# Where the source is shared, it was ours a moment ago. A process that was paused since then must
# not hand over when it goes on: another may have done so, and the transfer be forgotten.
HAND_OVER_SECONDS: Final = 5.0
ANY_TIME: Final = Instant(0)
# In place of where messages wait for, when that is not known any more.
ANYWHERE: Final = Place("", FragmentIndex(0))

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Line:
    """Messages that wait for one place, in order; how long each is, to take them in bounds."""

    held: deque[tuple[Lock, int]] = field(default_factory=deque)
    pause: float = PAUSE_SECONDS
    retry_at: float = 0.0
    # How often ways had been changed when it was decided to try it; they may lead elsewhere since.
    changes: int = -1
    # The first of them may be there already: the store failed while it took them.
    is_unsure: bool = False


class Mover:
    """The one who takes messages from one fragment of one sub-queue."""

    def __init__(
        self,
        number: int,
        sub_queue: ServedSubQueue,
        source: Source,
        destinations: Destinations,
        clock: Clock,
        is_settled: Callable[[Store], bool],
    ) -> None:
        # The store and the queue in one number: what transfers are named by.
        self._number = number
        self._sub_queue = sub_queue
        self._source = source
        self._destinations = destinations
        self._clock = clock
        self._is_settled = is_settled
        self._lines: dict[Place, _Line] = {}
        self._hint = asyncio.Event()
        self._openings = -1
        # Whether messages may have been handed over that are free here again.
        self._is_unsure = True

    def look(self, sub_queue: ServedSubQueue, source: Source) -> None:
        """Look at the fragment again: there may be messages. It may also be served anew by now."""
        self._sub_queue = sub_queue
        self._source = source
        self._hint.set()

    async def run(self, turns: asyncio.Semaphore) -> None:
        """Take messages until there are none left; turns bound how many movers work at once."""
        while True:
            self._hint.clear()
            try:
                async with turns:
                    has_moved = await self._turn()
            except BusError as error:
                if isinstance(error, EntityNotFound) or not self._is_ours:
                    # Deleted; or whoever sees the store come back says so, and a mover begins.
                    return
                _log.warning("forwarding from '%s' paused: %s", self._sub_queue.queue.name, error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if has_moved:
                continue
            if self._lines:
                await self._rest()
                continue
            await self._destinations.forget(least=1, now=self._clock.now())
            if not self._hint.is_set():
                return

    @property
    def _is_ours(self) -> bool:
        """Whether it is ours to take messages from the store. If not, they are not held, either."""
        return self._source.store.is_online and self._source.store.is_caretaker

    def _check_ours(self) -> None:
        if not self._source.store.is_caretaker:
            number = self._source.store.status().number
            raise StoreUnavailable(number, "another front end looks after it now")

    async def _turn(self) -> bool:
        """Take one batch on its way; say whether there was any."""
        self._check_ours()
        openings = self._source.store.openings
        if openings != self._openings:
            # What was held is free again, whether it was handed over or not.
            self._openings = openings
            self._lines.clear()
            self._is_unsure = True
        if self._sub_queue.queue.is_gone or not self._sub_queue.is_left:
            await self._stay([lock for line in self._lines.values() for lock, _ in line.held])
            self._lines.clear()
            return False
        known, is_unsure = self._destinations.changes, self._is_unsure
        batch = await self._first_in_line()
        if batch:
            await self._take(await self._still_there(batch, known))
        elif batch := await self._acquired():
            if known == self._destinations.changes:
                await self._take(batch)
            else:
                # Behind those that wait, which may go the same way now, and to be read again.
                line = self._lines.setdefault(ANYWHERE, _Line(is_unsure=is_unsure))
                line.held.extend(_held(batch))
        if batch:
            await self._destinations.forget(least=FORGOTTEN_TOGETHER_MAX, now=self._clock.now())
        return bool(batch)

    async def _still_there(
        self, messages: list[StoredMessage], known: int
    ) -> Sequence[StoredMessage]:
        """Read messages again if something was changed since they were read.

        They may go another way now, and those that had arrived by the old one are cleared away.
        """
        while messages and known != self._destinations.changes:
            known = self._destinations.changes
            locks = [message.lock for message in messages]
            messages = await self._source.store.find_locked(
                self._source.number, locks, now=self._clock.now()
            )
        return messages

    async def _acquired(self) -> list[StoredMessage]:
        """Hold the oldest free messages, unless enough of them wait already."""
        if sum(len(line.held) for line in self._lines.values()) >= HELD_MAX:
            return []
        # One that may have been handed over must not expire here as well.
        now = ANY_TIME if self._is_unsure else self._clock.now()
        nonce = secrets.randbits(NONCE_BITS)
        request = Acquire(
            self._source.number, ACQUIRE_COUNT_MAX, ACQUIRE_BYTES_MAX, UNTIL_REOPENED, nonce
        )
        messages = await self._source.store.acquire(request, now=now)
        self._is_unsure = False
        return messages

    async def _first_in_line(self) -> list[StoredMessage]:
        """Read the first of those that wait for a place which can be tried again."""
        time = asyncio.get_running_loop().time()
        for place, line in list(self._lines.items()):
            if line.changes == self._destinations.changes:
                if line.retry_at > time:
                    continue
                if not self._destinations.is_reachable(place):
                    line.retry_at = time + PAUSE_SECONDS
                    continue
            while line.held:
                messages = await self._called_up(line)
                if messages:
                    return messages
            del self._lines[place]
        return []

    async def _called_up(self, line: _Line) -> list[StoredMessage]:
        """Take the first out of a line, as many as one batch may have, and read them."""
        locks = _first_locks(line)
        now = self._clock.now()
        messages = await self._source.store.find_locked(self._source.number, locks, now=now)
        for _ in locks:
            line.held.popleft()
        return messages if line.is_unsure else await self._without_expired(messages, now)

    async def _without_expired(
        self, messages: list[StoredMessage], now: Instant
    ) -> list[StoredMessage]:
        """Let go of messages whose time ended while they waited: they expire here."""
        expired = [each.lock for each in messages if (each.expires_at or UNTIL_REOPENED) <= now]
        if not expired:
            return messages
        await self._write([Unlock(self._source.number, expired, is_counted=False)])
        self._sub_queue.note_returned(self._source, expired, now)
        gone = set(expired)
        return [each for each in messages if each.lock not in gone]

    async def _take(self, batch: Sequence[StoredMessage]) -> None:
        """Hand messages over, and remove those that have arrived or cannot be delivered."""
        if not self._sub_queue.is_left:
            await self._stay([message.lock for message in batch])
            return
        known = self._destinations.changes
        groups, refused = self._destinations.sort(batch, self._sub_queue)
        arrivals = await asyncio.gather(
            *(self._hand_over(place, group, known) for place, group in groups.items())
        )
        if refused:
            await self._dead_letter(refused)
        locks = [parcel.stored.lock for arrived in arrivals for parcel in arrived]
        if not locks:
            return
        [lost] = await self._write([Remove(self._source.number, locks)])
        assert isinstance(lost, list), "a removal is answered with what its guard refused"
        if not self._is_settled(self._source.store):
            return  # They are found as left over, some day.
        for place, arrived in zip(groups, arrivals, strict=True):
            sequences = {parcel.stored.sequence for parcel in arrived}
            self._destinations.note_departed(
                place, self._number, sorted(sequences.difference(lost))
            )

    async def _stay(self, locks: Sequence[Lock]) -> None:
        """Let go of messages that are to be forwarded no longer: they are for receivers again."""
        if locks and not self._sub_queue.queue.is_gone:
            await self._write([Unlock(self._source.number, locks, is_counted=False)])
            self._sub_queue.note_returned(self._source, locks, self._clock.now())

    async def _hand_over(self, place: Place, group: Group, known: int) -> list[Parcel]:
        """Hand over what goes to one place by what is known, and return what has arrived.

        The rest waits: the place cannot have it now, or not before what came earlier.
        """
        parcels = group.parcels
        line = self._lines.get(place)
        if line is not None and line.held:
            first = line.held[0][0].sequence
            line.held.extend(_held(each.stored for each in parcels if each.stored.sequence > first))
            parcels = [each for each in parcels if each.stored.sequence < first]
        if not parcels:
            return []
        self._check_ours()
        try:
            within = HAND_OVER_SECONDS if self._source.store.is_shared else None
            await self._destinations.hand_over(
                place, self._number, group._replace(parcels=parcels), self._clock.now(), within
            )
        except BusError as error:
            self._wait(place, parcels, known, error)
            return []
        if line is not None:
            _log.info("forwarding to '%s' (fragment %d) goes on", *place)
            line.pause, line.is_unsure = PAUSE_SECONDS, False
            if not line.held:
                del self._lines[place]
        return parcels

    def _wait(self, place: Place, parcels: list[Parcel], known: int, error: BusError) -> None:
        """Let messages wait, before those that wait for the same place already."""
        line = self._lines.get(place)
        if line is None:
            _log.warning("forwarding to '%s' (fragment %d) waits: %s", *place, error)
            line = self._lines[place] = _Line()
        else:
            line.pause = min(line.pause * 2, PAUSE_SECONDS_MAX)
        line.held.extendleft(reversed(list(_held(parcel.stored for parcel in parcels))))
        # Not those of now: what was changed meanwhile may lead them elsewhere, before all others.
        line.changes = known
        line.retry_at = asyncio.get_running_loop().time() + line.pause
        line.is_unsure = line.is_unsure or isinstance(error, StoreFailed)

    async def _rest(self) -> None:
        """Wait until a place can be tried again, or more messages come."""
        time = asyncio.get_running_loop().time()
        soonest = min(line.retry_at for line in self._lines.values())
        try:
            async with asyncio.timeout(max(soonest - time, 0.0)):
                await self._hint.wait()
        except TimeoutError:
            return

    async def _write(self, operations: Sequence[Operation]) -> list[Answer]:
        """Write at the source. While it is only busy, ask again: nobody else can let go."""
        while True:
            try:
                return await self._source.store.apply(operations, now=self._clock.now())
            except (EntityNotFound, StoreFailed, StoreUnavailable):
                raise
            except BusError as error:
                _log.warning("'%s' cannot let messages go: %s", self._sub_queue.queue.name, error)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _dead_letter(self, refused: Sequence[tuple[StoredMessage, Undeliverable]]) -> None:
        """Keep messages here that cannot be delivered, with the reason."""
        queue, source = self._sub_queue.queue, self._source
        moves: list[Operation] = []
        kinds = Counter[SubQueue]()
        for stored, why in refused:
            kind = sub_queue_for(why, self._sub_queue.sub_queue)
            to_queue = queue.sub_queues[kind].sources[source.fragment].number
            moves.append(dead_lettered(stored, why, queue.name, (source.number, to_queue)))
            kinds[kind] += 1
        await self._write(moves)
        for kind, count in kinds.items():
            dead_letters = queue.sub_queues[kind]
            dead_letters.note_added(dead_letters.sources[source.fragment], count)


def _held(messages: Iterable[StoredMessage]) -> Iterable[tuple[Lock, int]]:
    return ((message.lock, len(message.content)) for message in messages)


def _first_locks(line: _Line) -> list[Lock]:
    """Return the first in line, as many as one batch may have."""
    locks: list[Lock] = []
    size = 0
    for lock, length in line.held:
        size += length
        if locks and (size > ACQUIRE_BYTES_MAX or len(locks) == ACQUIRE_COUNT_MAX):
            break
        locks.append(lock)
    return locks
