"""Queues in a world, each beside its model: receivers, settlement, and what must always hold.

After every step each queue and its dead-letter queue are browsed and counted, and compared with one
dictionary. How messages get into the queues is for each history to say.

Receives are for fewer messages than one acquire may bring: they ask one fragment after another,
and not several at once, where the threads of the stores would decide who answers first.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from bendybus.broker.browse import browse
from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue
from bendybus.broker.settle import renew, settle
from bendybus.model.errors import (
    BusError,
    InvalidOperation,
    MessageLockLost,
    SessionLockLost,
    StoreUnavailable,
)
from bendybus.model.ids import FragmentIndex, SubQueue, fragment_of
from bendybus.model.message import Lock, StoredMessage
from bendybus.model.outcome import Abandon, Complete, DeadLetter, Outcome, Release
from bendybus.store.checksum import CHECKSUM_SIZE
from bendybus.store.port import QueueCounts
from tests.history.queue_model import DELIVERY_COUNT_MAX, Expected, QueueModel
from tests.history.world import World

PLACES: Final = (SubQueue.MAIN, SubQueue.DEAD_LETTER)
TOKENS_REMEMBERED: Final = 30
MANY: Final = 20

WHICH = st.integers(0, 5)
PLACE = st.sampled_from(PLACES)
MODES = st.sampled_from(ReceiveMode)
COUNTS = st.sampled_from([1, 2, 5, MANY])
PICKS = st.lists(st.integers(0, TOKENS_REMEMBERED - 1), min_size=1, max_size=4)
CHANGES = st.sampled_from([None, b"first", b"second"])
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.just(Complete()),
    st.just(Release()),
    st.builds(Abandon, CHANGES),
    st.builds(DeadLetter, st.sampled_from([None, "bad"]), st.sampled_from([None, "why"]), CHANGES),
)

# A lock that somebody holds or held: the queue, the sub-queue, the lock itself.
Token = tuple[str, SubQueue, Lock]

# By fragment.
Counts = Mapping[FragmentIndex, QueueCounts]


class QueueWorld(World):
    """Some queues that any receiver may receive from."""

    # The sub-queues that can hold something; messages are received from the first two.
    places: ClassVar[tuple[SubQueue, ...]] = PLACES

    def __init__(self) -> None:
        self.models = {model.name: model for model in self.make_models()}
        self.tokens: list[Token] = []
        self.sent_count = 0
        super().__init__()

    def make_models(self) -> Sequence[QueueModel]:
        """Return the model of each queue that can be received from."""
        raise NotImplementedError

    def served(self, name: str) -> ServedQueue:
        return self.broker.queue(name)

    def new_content(self) -> bytes:
        """Return what no other message has."""
        self.sent_count += 1
        return f"message {self.sent_count}".encode()

    def pick(self, which: int) -> str:
        """Return the name of one of the queues."""
        return list(self.models)[which % len(self.models)]

    def is_online(self, name: str, fragment: int | None) -> bool:
        assert fragment is not None, "every message has been seen before"
        return self.served(name).main.sources[fragment].store.is_online

    def is_any_online(self, name: str, fragment: int | None) -> bool:
        """Whether a message can be kept: in its fragment, or in any if it is bound to none."""
        fragments = range(len(self.served(name).main.sources)) if fragment is None else [fragment]
        return any(self.is_online(name, each) for each in fragments)

    def is_message_online(self, name: str, message: Expected) -> bool:
        return self.is_online(name, message.fragment)

    def free(self, name: str, place: SubQueue) -> list[Expected]:
        """What a receive could bring now."""
        return [
            each
            for each in self.models[name].held_in(place)
            if each.is_free(self.now) and self.is_message_online(name, each)
        ]

    # Receiving

    @rule(which=WHICH, place=PLACE, mode=MODES, counts=st.lists(COUNTS, min_size=1, max_size=3))
    def receive(self, which: int, place: SubQueue, mode: ReceiveMode, counts: list[int]) -> None:
        """Receive, perhaps again, and leave: what was locked beyond the need is free at once."""
        name = self.pick(which)
        if self.served(name).sub_queues[place].has_sessions:
            return
        receiver = Receiver(self.served(name).sub_queues[place], mode, self.clock)
        free = self.free(name, place)
        returned: list[StoredMessage] = []
        for count in counts:
            some = self.run(receiver.receive(count))
            assert len(some) <= count
            returned += some
        self.run(receiver.close())
        left = self.note_received(name, place, mode, returned)
        assert not left, "a receiver left, and what it had cached is still locked"
        assert bool(returned) == bool(free), "nothing came though something was free"

    def note_received(
        self, name: str, place: SubQueue, mode: ReceiveMode, returned: list[StoredMessage]
    ) -> list[StoredMessage]:
        is_removed = mode is ReceiveMode.RECEIVE_AND_DELETE
        shown = self.run(look_at(self.served(name).sub_queues[place]))
        if not is_removed:
            self.remember(name, place, returned)
        return self.models[name].receive(place, returned, shown, self.now, is_removed=is_removed)

    def remember(self, name: str, place: SubQueue, messages: list[StoredMessage]) -> None:
        self.tokens += [(name, place, message.lock) for message in messages]
        del self.tokens[:-TOKENS_REMEMBERED]

    # Settling

    @rule(picks=PICKS, outcome=OUTCOMES)
    def settle(self, picks: list[int], outcome: Outcome) -> None:
        """Settle several messages in one way, also by tokens that are spent or have ended."""
        if not self.tokens:
            return
        name, place, locks = self.pick_locks(picks)
        sub_queue = self.served(name).sub_queues[place]
        failures = self.run(settle(sub_queue, locks, outcome, self.clock))
        is_senseless = isinstance(outcome, DeadLetter) and place is SubQueue.DEAD_LETTER
        for lock in locks:
            expected: type[BusError] | None = None
            if not self.is_online(name, fragment_of(lock.sequence)):
                expected = StoreUnavailable
            elif is_senseless:
                expected = InvalidOperation
            elif not self.models[name].settle(place, lock, outcome, self.now):
                expected = MessageLockLost
            failure = failures.get(lock.sequence)
            if isinstance(failure, SessionLockLost) and sub_queue.has_sessions:
                failure = MessageLockLost("As its session has, its own lock has ended.")
            assert (failure and type(failure)) == expected

    @rule(which=WHICH, times=st.integers(1, DELIVERY_COUNT_MAX), changes=CHANGES)
    def fail(self, which: int, times: int, changes: bytes | None) -> None:
        """Give up the oldest message, perhaps as often as that is borne."""
        for _ in range(times):
            self.receive(which, SubQueue.MAIN, ReceiveMode.PEEK_LOCK, [1])
            self.settle([0], Abandon(changes))

    @rule(pick=PICKS)
    def renew(self, pick: list[int]) -> None:
        if not self.tokens:
            return
        name, place, [lock, *_] = self.pick_locks(pick)
        sub_queue = self.served(name).sub_queues[place]
        if sub_queue.has_sessions:
            return
        try:
            locked_until = self.run(renew(sub_queue, [lock], self.clock))
        except MessageLockLost:
            assert not self.models[name].renew(place, lock, self.now)
        except StoreUnavailable:
            assert not self.is_online(name, fragment_of(lock.sequence))
        else:
            assert self.models[name].renew(place, lock, self.now)
            assert locked_until == self.now + self.models[name].lock_duration_ms

    def pick_locks(self, picks: list[int]) -> tuple[str, SubQueue, list[Lock]]:
        """Return tokens of one sub-queue, the newest for the lowest numbers."""
        tokens = [self.tokens[-1 - pick % len(self.tokens)] for pick in picks]
        name, place, _ = tokens[0]
        # Two tokens of one message in one call could not be told apart in the answer.
        distinct = {
            lock.sequence: lock for *where, lock in reversed(tokens) if where == [name, place]
        }
        return name, place, list(distinct.values())

    # Browsing

    @rule(which=WHICH, place=PLACE, count=COUNTS)
    def browse(self, which: int, place: SubQueue, count: int) -> None:
        """See every message once, in the order of the numbers, page by page."""
        sub_queue = self.served(self.pick(which)).sub_queues[place]
        assert self.run(browse_all(sub_queue, count)) == self.run(look_at(sub_queue))

    # Time

    def note_swept(self) -> None:
        for name, model in self.models.items():
            model.sweep(self.now, partial(self.is_message_online, name))

    # What always holds

    @invariant()
    def the_queues_hold_what_they_ought_to(self) -> None:
        self.come_to_rest()
        # All at once: a store that is asked forty times in turn wakes its thread as often.
        places = [(name, place) for name in self.models for place in self.places]
        shown, counts = self.run(self.look_around(places))
        for (name, place), messages in zip(places, shown, strict=True):
            model = self.models[name]
            reachable = [
                each
                for each in model.held_in(place)
                if each.fragment is None or self.is_message_online(name, each)
            ]
            model.check(place, messages, reachable)
        # Where a message is, the model may have learned just now.
        for (name, place), found in zip(places, counts, strict=True):
            self.check_counts(name, place, found)
        self.check_more()

    async def look_around(
        self, places: Sequence[tuple[str, SubQueue]]
    ) -> tuple[list[list[StoredMessage]], list[Counts]]:
        """Return what the sub-queues of queues hold, and what their fragments count."""
        sub_queues = [self.served(name).sub_queues[place] for name, place in places]
        shown = asyncio.gather(*map(look_at, sub_queues))
        counts = asyncio.gather(*map(counts_of, sub_queues))
        return await shown, await counts

    def come_to_rest(self) -> None:
        """Let what goes on beside the steps come to its end, and note it."""

    def check_more(self) -> None:
        """Check what else this history promises, now that all messages have been seen."""

    def check_counts(self, name: str, place: SubQueue, found: Counts) -> None:
        for fragment, counts in found.items():
            messages = self.models[name].messages.values()
            held = [each for each in messages if each.fragment == fragment]
            assert counts.messages == sum(each.place is place for each in held)
            if place is SubQueue.MAIN:
                self.check_bytes(counts.bytes, held)

    def check_bytes(self, count: int, held: list[Expected]) -> None:
        """Compare the bytes that a fragment counts with what it ought to hold."""
        assert count == sum(len(each.content) + CHECKSUM_SIZE for each in held)


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


async def counts_of(sub_queue: ServedSubQueue) -> Counts:
    """Return what each fragment that can be reached counts."""
    sources = [source for source in sub_queue.sources if source.store.is_online]
    found = await asyncio.gather(*(each.store.counts(each.number) for each in sources))
    return {each.fragment: counts for each, counts in zip(sources, found, strict=True)}


async def browse_all(sub_queue: ServedSubQueue, count: int) -> list[StoredMessage]:
    """Return everything as a client would see it, a few at a time."""
    seen: list[StoredMessage] = []
    following = 0
    while some := await browse(sub_queue, following, count):
        assert len(some) <= count
        seen += some
        following = some[-1].sequence + 1
    return seen
