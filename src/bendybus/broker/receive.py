"""receive: lock free messages of all fragments, for one receiver."""

import asyncio
import secrets
from collections import deque
from collections.abc import Collection
from enum import Enum
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue, Source
from bendybus.broker.served_topic import ServedTopic
from bendybus.model.errors import BusError, EntityDisabled, InvalidOperation
from bendybus.model.ids import COUNTER_BITS, Instant, SubQueue
from bendybus.model.message import Lock, StoredMessage
from bendybus.model.operations import Operation, Remove, Renew, Unlock
from bendybus.store.port import Acquire

# One acquire asks one fragment for at most so much. Fewer, larger ones cost less per message.
ACQUIRE_COUNT_MAX: Final = 500
ACQUIRE_BYTES_MAX: Final = 2 * 1024 * 1024
# A receiver that renews its credit in small steps is read ahead for, up to this part of the most
# that it ever asked for at once: one acquire of many costs little more than one of few.
READ_AHEAD_PART: Final = 4
# A cached message is handed out only while this part of its lock is left.
FRESH_PART: Final = 2
NONCE_BITS: Final = 63
# How long a store may take to answer before others are asked for the same messages (R3.1).
PATIENCE_SECONDS: Final = 0.02
# How long to leave a store alone that could not answer.
RETRY_SECONDS: Final = 0.05


class ReceiveMode(Enum):
    """Whether a message stays, locked, until it is settled, or is gone when handed out."""

    PEEK_LOCK = "peek-lock"
    RECEIVE_AND_DELETE = "receive-and-delete"


def check_status_for_receive(sub_queue: ServedSubQueue, *, may_forward: bool = False) -> None:
    """Refuse when the entity is gone, is closed for receiving, or its messages go elsewhere.

    Whoever only looks at messages may do so while they are on their way (`may_forward`).
    """
    sub_queue.queue.check_there()
    if not sub_queue.queue.properties.status.allows_receive:
        raise EntityDisabled(
            f"The messaging entity '{sub_queue.queue.name}' is disabled for receiving."
        )
    is_forwarded = sub_queue.sub_queue is SubQueue.MAIN and sub_queue.forwards_to is not None
    if is_forwarded and not may_forward:
        raise InvalidOperation(
            "Cannot create a message receiver on an entity with auto-forwarding enabled."
        )


def check_has_messages(queue: ServedQueue) -> None:
    """Refuse to receive from a topic: what it has is in its subscriptions."""
    if isinstance(queue, ServedTopic):
        raise InvalidOperation(
            f"Messages cannot be received from the topic '{queue.name}'; receive them from"
            " one of its subscriptions."
        )


def check_open_for_receive(sub_queue: ServedSubQueue) -> None:
    """Refuse as above, and when its messages are received by session."""
    check_status_for_receive(sub_queue)
    if sub_queue.has_sessions:
        raise InvalidOperation(
            "It is not possible for an entity that requires sessions to create a non-sessionful"
            " message receiver."
        )


class Receiver:
    """One receiver of one sub-queue.

    It asks several fragments at once and hands out what comes first (R3.1). What comes beyond
    the need stays cached here, locked, for the next receive (R3.2), and is given back, uncounted,
    when the receiver ends.
    """

    def __init__(self, sub_queue: ServedSubQueue, mode: ReceiveMode, clock: Clock) -> None:
        self.sub_queue = sub_queue
        self.mode = mode
        self.waiting = sub_queue.waiting
        self._clock = clock
        self._cache: deque[StoredMessage] = deque()
        # When the first of their locks ends.
        self._cached_until = Instant(0)
        self._asking: dict[Source, asyncio.Future[None]] = {}
        self._asked_count = 0
        self._arrival: asyncio.Future[bool] | None = None
        self._count_peak = 0

    async def receive(self, count_max: int) -> list[StoredMessage]:
        """Return at least one message and at most `count_max`, or none if none is free.

        Cancelled: what was locked meanwhile stays cached here.
        """
        while self._cache and not self._lasts(self._cached_until):
            await self._renew_cached()
        is_patient = True
        while True:
            self._ask(count_max, is_patient=is_patient)
            taken = self._take(count_max)
            if taken:
                if self.mode is ReceiveMode.RECEIVE_AND_DELETE:
                    taken = await self._removed(taken)
                if taken:
                    if (traces := self.sub_queue.queue.traces) is not None:
                        traces.note_received(self.sub_queue.queue.name, taken)
                    return taken
                # Their store went away, or their locks ended: there may be others.
                continue
            if not self._asking:
                return []
            is_patient = await self._arrived()

    async def take_back(self, messages: list[StoredMessage]) -> None:
        """Cache again what could not be handed out; it comes first the next time."""
        self._put_first(messages)

    async def close(self) -> None:
        """Give back at once what is cached or still on its way (R3.2)."""
        while self._asking:
            await asyncio.wait(list(self._asking.values()))
        locks = [message.lock for message in self._take(len(self._cache))]
        if locks:
            await give_back(self.sub_queue, locks, self._clock)

    async def _arrived(self) -> bool:
        """Wait until a store has answered. False: they take too long, others should be asked."""
        loop = asyncio.get_running_loop()
        arrival: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(PATIENCE_SECONDS, _run_out, arrival)
        self._arrival = arrival
        try:
            return await arrival
        finally:
            timer.cancel()
            self._arrival = None

    def _ask(self, count_max: int, *, is_patient: bool = True) -> None:
        """Start asking fragments until enough is on its way, spread over those that have some.

        Out of patience, what is on its way does not count.
        """
        missing = count_max - len(self._cache) - (self._asked_count if is_patient else 0)
        if missing <= 0:
            return
        self._count_peak = max(self._count_peak, count_max)
        missing = max(missing, min(self._count_peak // READ_AHEAD_PART, ACQUIRE_COUNT_MAX))
        for source in self.sub_queue.candidates():
            if source in self._asking:
                continue
            count = min(missing, ACQUIRE_COUNT_MAX)
            self._asking[source] = asyncio.ensure_future(self._acquire(source, count))
            self._asked_count += count
            missing -= count
            if missing <= 0:
                return

    async def _acquire(self, source: Source, count: int) -> None:
        additions = source.additions
        now = self._clock.now()
        locked_until = Instant(now + self.sub_queue.queue.lock_duration_ms)
        nonce = secrets.randbits(NONCE_BITS)
        source.timetable.note(locked_until)
        request = Acquire(source.number, count, ACQUIRE_BYTES_MAX, locked_until, nonce)
        try:
            messages = await source.store.acquire(request, now=now)
            if not messages:
                source.empty_at = additions
            elif source.heard_at == additions:
                # Nobody said how many there are: who comes next may look, too.
                self.waiting.wake(1)
            while messages and not self._lasts(locked_until):
                # The answer came late. Given back, they would come after later ones (R3.6), which
                # others may have by now.
                now = self._clock.now()
                locked_until = Instant(now + self.sub_queue.queue.lock_duration_ms)
                locks = [message.lock for message in messages]
                lost = await self._renew(source, locks, locked_until, now)
                messages = _relocked(messages, lost, locked_until)
        except BusError:
            # Its store went away or is overloaded: the others go on, and this one is asked again
            # when it is back, or a little later.
            await asyncio.sleep(RETRY_SECONDS)
            messages = []
        if messages:
            is_first = not self._cache
            self._cached_until = locked_until if is_first else min(self._cached_until, locked_until)
            self._cache.extend(messages)
        self._asked_count -= count
        del self._asking[source]
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(True)

    async def _renew(
        self, source: Source, locks: list[Lock], locked_until: Instant, now: Instant
    ) -> set[int]:
        """Let locks last until then; return the messages whose locks had ended."""
        source.timetable.note(locked_until)
        renewal = Renew(source.number, locks, locked_until)
        [lost] = await source.store.apply([renewal], now=now)
        assert isinstance(lost, list)
        return set(lost)

    async def _renew_cached(self) -> None:
        """Let the locks of all that is cached last again; those that had ended are left out.

        Given back, they would come after what is on its way and was locked after them (R3.6).
        Cancelled, all stay as they are.
        """
        now = self._clock.now()
        locked_until = Instant(now + self.sub_queue.queue.lock_duration_ms)
        cached = list(self._cache)
        lost: set[int] = set()
        for source, locks in locks_by_source(
            self.sub_queue, [message.lock for message in cached]
        ).items():
            try:
                lost |= await self._renew(source, locks, locked_until, now)
            except BusError:
                # Whether they are still ours nobody can say. Their locks end by themselves.
                lost.update(lock.sequence for lock in locks)
        for _ in cached:
            # What came meanwhile is behind them.
            self._cache.popleft()
        self._put_first(_relocked(cached, lost, locked_until))

    def _put_first(self, messages: list[StoredMessage]) -> None:
        self._cache.extendleft(reversed(messages))
        ends = [each.locked_until for each in self._cache if each.locked_until is not None]
        self._cached_until = Instant(min(ends, default=0))

    def _lasts(self, locked_until: Instant) -> bool:
        """Whether enough is left of a lock to hand its message out."""
        return (
            locked_until >= self._clock.now() + self.sub_queue.queue.lock_duration_ms // FRESH_PART
        )

    def _take(self, count_max: int) -> list[StoredMessage]:
        cache = self._cache
        if len(cache) <= count_max:
            taken = list(cache)
            cache.clear()
            return taken
        return [cache.popleft() for _ in range(count_max)]

    async def _removed(self, taken: list[StoredMessage]) -> list[StoredMessage]:
        """Remove messages; cancelled, they are cached again: some may be there."""
        try:
            return await removed(self.sub_queue, taken, self._clock)
        except asyncio.CancelledError:
            self._put_first(taken)
            raise


def _run_out(arrival: "asyncio.Future[bool]") -> None:
    if not arrival.done():
        arrival.set_result(False)


def _relocked(
    messages: list[StoredMessage], lost: Collection[int], locked_until: Instant
) -> list[StoredMessage]:
    return [
        message._replace(locked_until=locked_until)
        for message in messages
        if message.sequence not in lost
    ]


def locks_by_source(sub_queue: ServedSubQueue, locks: list[Lock]) -> dict[Source, list[Lock]]:
    """Group locks by the fragment that holds their messages; unknown fragments are left out."""
    groups: dict[int, list[Lock]] = {}
    for lock in locks:
        # `fragment_of`, in line: this runs for every message settled.
        fragment = lock[0] >> COUNTER_BITS
        group = groups.get(fragment)
        if group is None:
            groups[fragment] = [lock]
        else:
            group.append(lock)
    sources = sub_queue.sources
    return {
        sources[fragment]: group for fragment, group in groups.items() if fragment < len(sources)
    }


async def removed(
    sub_queue: ServedSubQueue, messages: list[StoredMessage], clock: Clock
) -> list[StoredMessage]:
    """Remove messages for good before they are handed out; those that could not be are not."""
    by_source = locks_by_source(sub_queue, [message.lock for message in messages])
    gone: set[int] = set()
    for source, locks in by_source.items():
        try:
            operation: Operation = Remove(source.number, locks)
            [lost] = await source.store.apply([operation], now=clock.now())
            assert isinstance(lost, list)
            gone.update(lost)
        except BusError:
            gone.update(lock.sequence for lock in locks)
    return [message for message in messages if message.sequence not in gone]


async def give_back(sub_queue: ServedSubQueue, locks: list[Lock], clock: Clock) -> None:
    """Make messages free again that nobody looked at. A store that is away keeps its locks."""
    for source, held in locks_by_source(sub_queue, locks).items():
        operation: Operation = Unlock(source.number, held, is_counted=False)
        now = clock.now()
        try:
            await source.store.apply([operation], now=now)
        except BusError:
            continue
        sub_queue.note_returned(source, held, now)
