"""Any history of a queue equals the model: hypothesis chooses what happens, and shrinks what fails.

The real verbs run on real stores, in virtual time, one step after another. After every step the
queue and its dead-letter queue are browsed and counted, and compared with one dictionary.

Every history can be repeated, or it could not be shrunk. So receives are for fewer messages than
one acquire may bring: they ask one fragment after another, and not several at once, where the
threads of the stores would decide who answers first.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bendybus.broker.browse import browse
from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.send import group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue
from bendybus.broker.settle import renew, settle
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.errors import BusError, InvalidOperation, MessageLockLost, StoreUnavailable
from bendybus.model.ids import FragmentIndex, SubQueue
from bendybus.model.message import Lock, Message, StoredMessage
from bendybus.model.outcome import Abandon, Complete, DeadLetter, Outcome, Release
from bendybus.store.checksum import CHECKSUM_SIZE
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker
from tests.history.queue_model import (
    DELIVERY_COUNT_MAX,
    LOCK_DURATION_MS,
    QUEUE,
    Expected,
    QueueModel,
)

T = TypeVar("T")
Token = tuple[SubQueue, Lock]
Batch = list[tuple[str | None, int | None]]

PLACES: Final = (SubQueue.MAIN, SubQueue.DEAD_LETTER)
TOKENS_REMEMBERED: Final = 30

KEYS = st.sampled_from([None, "red", "green", "blue"])
TIMES_TO_LIVE_MS = st.sampled_from([None, None, 3_000, 8_000])
BATCHES = st.lists(st.tuples(KEYS, TIMES_TO_LIVE_MS), min_size=1, max_size=5)
CHANGES = st.sampled_from([None, b"first", b"second"])
OUTCOMES = st.one_of(
    st.just(Complete()),
    st.just(Release()),
    st.builds(Abandon, CHANGES),
    st.builds(DeadLetter, st.sampled_from([None, "bad"]), st.sampled_from([None, "why"]), CHANGES),
)
MODES = st.sampled_from(ReceiveMode)
MANY: Final = 20
COUNTS = st.sampled_from([1, 2, 5, MANY])
PICKS = st.lists(st.integers(0, TOKENS_REMEMBERED - 1), min_size=1, max_size=4)


class AnyHistory(RuleBasedStateMachine):
    """One queue, whatever may happen to it."""

    properties: ClassVar[QueueProperties]
    store_count: ClassVar[int]

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(prefix="bendybus-")
        self.running = AsyncExitStack()
        self.model = QueueModel(self.properties.dead_lettering_on_message_expiration)
        self.tokens: list[Token] = []
        self.sent_count = 0
        self.keyless_groups: list[list[bytes]] = []
        self.keyless_turns: Counter[int] = Counter()
        # A receiver that stays, and what it has locked beyond what it was asked for.
        self.staying: Receiver | None = None
        self.cached: dict[bytes, Token] = {}
        self.waiter: asyncio.Future[None] | None = None
        self.broker: LocalBroker
        self.run(self.open())

    # The world

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def open(self) -> None:
        folder, queue = Path(self.folder.name), Queue(QUEUE, self.properties)
        self.broker = await self.running.enter_async_context(
            local_broker(folder, [queue], self.clock, stores=self.store_count)
        )

    def teardown(self) -> None:
        self.run(self.running.aclose())
        self.loop.close()
        self.folder.cleanup()

    @property
    def queue(self) -> ServedQueue:
        return self.broker.queue(QUEUE)

    @property
    def now(self) -> int:
        return self.clock.now()

    def is_online(self, fragment: int | None) -> bool:
        assert fragment is not None, "every message has been seen before"
        return self.queue.main.sources[fragment].store.is_online

    def is_message_online(self, message: Expected) -> bool:
        return self.is_online(message.fragment)

    @property
    def are_all_online(self) -> bool:
        return all(source.store.is_online for source in self.queue.main.sources)

    def free(self, place: SubQueue) -> list[Expected]:
        """What a receive could bring now."""
        return [
            each
            for each in self.model.held_in(place)
            if each.is_free(self.now) and self.is_message_online(each)
        ]

    # Sending

    @initialize(batches=st.lists(BATCHES, min_size=1, max_size=4))
    def begin_with_messages(self, batches: list[Batch]) -> None:
        """Most of what can happen can only happen to a message."""
        for batch in batches:
            self.send(batch)

    @rule(batch=BATCHES)
    def send(self, batch: Batch) -> None:
        messages = []
        for key, time_to_live in batch:
            self.sent_count += 1
            content = f"message {self.sent_count}".encode()
            messages.append(Message(content, partition_key=key, time_to_live_ms=time_to_live))
        for fragment, indices in group_by_fragment(self.queue, messages).items():
            self.send_group([messages[at] for at in indices], fragment)

    def send_group(self, group: list[Message], fragment: FragmentIndex | None) -> None:
        try:
            self.run(send(self.queue, group, fragment, self.clock))
        except StoreUnavailable:
            fragments = range(self.properties.fragment_count) if fragment is None else [fragment]
            assert not any(map(self.is_online, fragments)), "refused though it could be kept"
            return
        assert fragment is None or self.is_online(fragment)
        for message in group:
            self.model.add(
                Expected(
                    message.content,
                    message.partition_key,
                    self.now,
                    self.expiry(message.time_to_live_ms),
                    fragment=fragment,
                )
            )
        if fragment is None:
            self.keyless_groups.append([message.content for message in group])

    def expiry(self, own_ms: int | None) -> int | None:
        default = self.properties.default_message_time_to_live
        bounds = [] if own_ms is None else [own_ms]
        bounds += [] if default is None else [round(default.total_seconds() * 1000)]
        return self.now + min(bounds) if bounds else None

    # Receiving

    @rule(
        place=st.sampled_from(PLACES), mode=MODES, counts=st.lists(COUNTS, min_size=1, max_size=3)
    )
    def receive(self, place: SubQueue, mode: ReceiveMode, counts: list[int]) -> None:
        """Receive, perhaps again, and leave: what was locked beyond the need is free at once."""
        receiver = Receiver(self.queue.sub_queues[place], mode, self.clock)
        free = self.free(place)
        returned: list[StoredMessage] = []
        for count in counts:
            some = self.run(receiver.receive(count))
            assert len(some) <= count
            returned += some
        self.run(receiver.close())
        left = self.note_received(place, mode, returned)
        assert not left, "a receiver left, and what it had cached is still locked"
        assert bool(returned) == bool(free), "nothing came though something was free"

    @rule(mode=MODES)
    def come_to_stay(self, mode: ReceiveMode) -> None:
        """Ask for many at first: whoever did is read ahead for, and has a cache from then on."""
        if self.staying is None:
            self.staying = Receiver(self.queue.main, mode, self.clock)
            self.resume(MANY)

    @rule(count=COUNTS)
    def resume(self, count: int) -> None:
        """Receive again: from the cache first, unless that has waited there for too long."""
        if self.staying is None:
            return
        if self.staying.mode is ReceiveMode.RECEIVE_AND_DELETE and not self.are_all_online:
            return  # What it had cached of a store that is away it drops, and nobody can tell.
        held = list(filter(self.is_held, self.cached))
        is_any_free = bool(self.free(SubQueue.MAIN))
        is_any_fresh = any(self.is_fresh(each) or self.is_reachable(each) for each in held)
        returned = self.run(self.staying.receive(count))
        self.note_given_back(returned)
        left = self.note_received(SubQueue.MAIN, self.staying.mode, returned)
        for message in returned:
            self.cached.pop(message.content, None)
        self.cached |= {each.content: (SubQueue.MAIN, each.lock) for each in left}
        assert bool(returned) >= (is_any_free or is_any_fresh), "nothing came, though it could"
        assert bool(returned) <= (is_any_free or bool(held))

    def is_held(self, content: bytes) -> bool:
        message = self.model.messages.get(content)
        _, lock = self.cached[content]
        return message is not None and message.is_held_by(lock, self.now)

    def is_fresh(self, content: bytes) -> bool:
        locked_until = self.model.messages[content].locked_until
        return locked_until is not None and locked_until - self.now >= LOCK_DURATION_MS // 2

    def is_reachable(self, content: bytes) -> bool:
        return self.is_message_online(self.model.messages[content])

    def note_given_back(self, returned: list[StoredMessage]) -> None:
        """A cached message may be given back, and taken anew, once half of its lock is over."""
        shown = self.run(look_at(self.queue.main))
        nonces = {message.content: message.nonce for message in (*shown, *returned)}
        for content, (place, lock) in list(self.cached.items()):
            if nonces.get(content, lock.nonce) == lock.nonce or not self.is_held(content):
                continue
            assert not self.is_fresh(content), "given back too early"
            self.model.settle(place, lock, Release(), self.now)
            del self.cached[content]

    @rule()
    def leave(self) -> None:
        """End the receiver that stayed: what it had cached is given back at once, uncounted."""
        if self.staying is None:
            return
        self.run(self.staying.close())
        for content, (place, lock) in self.cached.items():
            message = self.model.messages.get(content)
            if message is not None and self.is_message_online(message):
                self.model.settle(place, lock, Release(), self.now)
        self.staying = None
        self.cached.clear()

    def note_received(
        self, place: SubQueue, mode: ReceiveMode, returned: list[StoredMessage]
    ) -> list[StoredMessage]:
        is_removed = mode is ReceiveMode.RECEIVE_AND_DELETE
        shown = self.run(look_at(self.queue.sub_queues[place]))
        if not is_removed:
            self.tokens += [(place, message.lock) for message in returned]
            del self.tokens[:-TOKENS_REMEMBERED]
        return self.model.receive(place, returned, shown, self.now, is_removed=is_removed)

    @rule()
    def wait_for_messages(self) -> None:
        if self.waiter is None and not self.free(SubQueue.MAIN):
            self.waiter = self.run(self.join())

    async def join(self) -> "asyncio.Future[None]":
        return Receiver(self.queue.main, ReceiveMode.PEEK_LOCK, self.clock).wait()

    # Settling

    @rule(picks=PICKS, outcome=OUTCOMES)
    def settle(self, picks: list[int], outcome: Outcome) -> None:
        """Settle several messages in one way, also by tokens that are spent or have ended."""
        if not self.tokens:
            return
        place, locks = self.pick_locks(picks)
        failures = self.run(settle(self.queue.sub_queues[place], locks, outcome, self.clock))
        is_senseless = isinstance(outcome, DeadLetter) and place is SubQueue.DEAD_LETTER
        for lock in locks:
            expected: type[BusError] | None = None
            if not self.is_online(lock.sequence >> 48):
                expected = StoreUnavailable
            elif is_senseless:
                expected = InvalidOperation
            elif not self.model.settle(place, lock, outcome, self.now):
                expected = MessageLockLost
            failure = failures.get(lock.sequence)
            assert (failure and type(failure)) == expected

    @rule(times=st.integers(1, DELIVERY_COUNT_MAX), changes=CHANGES)
    def fail(self, times: int, changes: bytes | None) -> None:
        """Give up the oldest message, perhaps as often as that is borne."""
        for _ in range(times):
            self.receive(SubQueue.MAIN, ReceiveMode.PEEK_LOCK, [1])
            self.settle([0], Abandon(changes))

    @rule(pick=PICKS)
    def renew(self, pick: list[int]) -> None:
        if not self.tokens:
            return
        place, [lock, *_] = self.pick_locks(pick)
        sub_queue = self.queue.sub_queues[place]
        try:
            locked_until = self.run(renew(sub_queue, [lock], self.clock))
        except MessageLockLost:
            assert not self.model.renew(place, lock, self.now)
        except StoreUnavailable:
            assert not self.is_online(lock.sequence >> 48)
        else:
            assert self.model.renew(place, lock, self.now)
            assert locked_until == self.now + LOCK_DURATION_MS

    def pick_locks(self, picks: list[int]) -> tuple[SubQueue, list[Lock]]:
        """Return tokens of one sub-queue, the newest for the lowest numbers."""
        tokens = [self.tokens[-1 - pick % len(self.tokens)] for pick in picks]
        place = tokens[0][0]
        # Two tokens of one message in one call could not be told apart in the answer.
        distinct = {lock.sequence: lock for where, lock in reversed(tokens) if where is place}
        return place, list(distinct.values())

    # Browsing

    @rule(place=st.sampled_from(PLACES), count=COUNTS)
    def browse(self, place: SubQueue, count: int) -> None:
        """See every message once, in the order of the numbers, page by page."""
        sub_queue = self.queue.sub_queues[place]
        assert self.run(browse_all(sub_queue, count)) == self.run(look_at(sub_queue))

    # Time, stores, restarts

    @rule(seconds=st.sampled_from([1, 4, 5, 20]), is_swept=st.booleans())
    def wait(self, seconds: int, is_swept: bool) -> None:
        self.clock.advance(seconds)
        if is_swept:
            self.sweep()

    @rule()
    def sweep(self) -> None:
        self.run(self.broker.sweep.sweep_all())
        self.model.sweep(self.now, self.is_message_online)
        if self.waiter is not None and self.free(SubQueue.MAIN):
            assert self.waiter.done(), "a message is free, and who waits for it was not told"
        if self.waiter is not None and self.waiter.done():
            self.waiter = None

    @rule(number=st.integers(0, 2))
    def switch_a_store(self, number: int) -> None:
        """Take a store away, or bring back the one that is."""
        away = [store for store in self.broker.stores if not store.is_online]
        for store in away:
            self.run(store.bring_online())
        if not away:
            self.run(self.broker.stores[number % self.store_count].take_offline("a drill"))
        self.keyless_turns.clear()

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        """End and begin anew on the same files; unless cleanly, caches end without a word."""
        if self.staying is not None and is_clean:
            self.leave()
        self.staying, self.waiter = None, None
        self.cached.clear()
        self.keyless_turns.clear()
        self.run(self.running.aclose())
        self.run(self.open())

    # What always holds

    @invariant()
    def the_queue_holds_what_it_ought_to(self) -> None:
        for place in PLACES:
            held = self.model.held_in(place)
            reachable = [
                each for each in held if each.fragment is None or self.is_message_online(each)
            ]
            self.model.check(place, self.run(look_at(self.queue.sub_queues[place])), reachable)
        self.run(self.check_counts())
        self.check_keyless()

    def check_keyless(self) -> None:
        """What came together stays together, and the fragments take turns."""
        for group in self.keyless_groups:
            [fragment] = {self.model.messages[content].fragment for content in group}
            assert fragment is not None, "every message has been seen by now"
            self.keyless_turns[fragment] += 1
        self.keyless_groups.clear()
        if self.are_all_online:
            turns = [self.keyless_turns[each] for each in range(self.properties.fragment_count)]
            assert max(turns) - min(turns) <= 1

    async def check_counts(self) -> None:
        sources = [
            (place, source)
            for place in PLACES
            for source in self.queue.sub_queues[place].sources
            if source.store.is_online
        ]
        found = await asyncio.gather(*(each.store.counts(each.number) for _, each in sources))
        for (place, source), counts in zip(sources, found, strict=True):
            held = [
                each for each in self.model.messages.values() if each.fragment == source.fragment
            ]
            assert counts.messages == sum(each.place is place for each in held)
            if place is SubQueue.MAIN:
                assert counts.bytes == sum(len(each.content) + CHECKSUM_SIZE for each in held)


async def look_at(sub_queue: ServedSubQueue) -> list[StoredMessage]:
    """Return everything that can be reached, read from all stores at once.

    A store answers in the order in which it was asked, so whatever a receiver had asked for
    has arrived when this returns.
    """
    parts = await asyncio.gather(
        *(
            source.store.browse(source.number, from_sequence=0, count_max=1000, bytes_max=1 << 20)
            for source in sub_queue.sources
            if source.store.is_online
        )
    )
    return [message for part in parts for message in part]


async def browse_all(sub_queue: ServedSubQueue, count: int) -> list[StoredMessage]:
    """Return everything as a client would see it, a few at a time."""
    seen: list[StoredMessage] = []
    following = 0
    while some := await browse(sub_queue, following, count):
        assert len(some) <= count
        seen += some
        following = some[-1].sequence + 1
    return seen


class ConventionalHistory(AnyHistory):
    """A conventional queue beside a store that it does not use."""

    properties = QueueProperties(
        lock_duration=timedelta(milliseconds=LOCK_DURATION_MS),
        max_delivery_count=DELIVERY_COUNT_MAX,
        default_message_time_to_live=timedelta(seconds=30),
        dead_lettering_on_message_expiration=True,
    )
    store_count = 2


class PartitionedHistory(AnyHistory):
    """A partitioned queue of 16 fragments in three stores, of which each may be away."""

    properties = QueueProperties(
        lock_duration=timedelta(milliseconds=LOCK_DURATION_MS),
        max_delivery_count=DELIVERY_COUNT_MAX,
        enable_partitioning=True,
    )
    store_count = 3


TestConventionalHistory = pytest.mark.spec("R3.6")(ConventionalHistory.TestCase)
TestPartitionedHistory = pytest.mark.spec("R3.2")(PartitionedHistory.TestCase)
# An example opens files and syncs them: fewer of them than of pure functions.
TestConventionalHistory.settings = settings(max_examples=settings().max_examples // 4)
TestPartitionedHistory.settings = settings(max_examples=settings().max_examples // 6)
