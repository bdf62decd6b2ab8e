"""Any history of a queue equals the model: hypothesis chooses what happens, and shrinks what fails.

The plain queue: sending with and without keys, receivers that come and go or stay, settlement,
ended locks and lives. What other features add has a history of its own beside this one.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from bendybus.broker.look import Stretch, extent_of
from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.redrive import RedriveWish, redrive
from bendybus.broker.send import group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.errors import StoreUnavailable
from bendybus.model.ids import COUNTER_BITS, FragmentIndex, SubQueue
from bendybus.model.message import Lock, Message, StoredMessage
from bendybus.model.outcome import Release
from bendybus.model.selection import Selection
from tests.history.queue_model import (
    DELIVERY_COUNT_MAX,
    LOCK_DURATION_MS,
    Expected,
    QueueModel,
)
from tests.history.queue_world import COUNTS, MANY, MODES, QueueWorld, look_at
from tests.history.world import fewer_examples

Batch = list[tuple[str | None, int | None]]

QUEUE: Final = "orders"

KEYS = st.sampled_from([None, "red", "green", "blue"])
TIMES_TO_LIVE_MS = st.sampled_from([None, None, 3_000, 8_000])
REASONS = st.sampled_from([None, None, "bad", "MaxDeliveryCountExceeded"])
BATCHES = st.lists(st.tuples(KEYS, TIMES_TO_LIVE_MS), min_size=1, max_size=5)


class AnyHistory(QueueWorld):
    """One queue, whatever may happen to it."""

    properties: ClassVar[QueueProperties]

    def __init__(self) -> None:
        super().__init__()
        self.keyless_groups: list[list[bytes]] = []
        self.keyless_turns: Counter[int] = Counter()
        # A receiver that stays, and what it has locked beyond what it was asked for.
        self.staying: Receiver | None = None
        self.cached: dict[bytes, Lock] = {}
        self.waiter: asyncio.Future[None] | None = None

    def entities(self) -> Sequence[Queue]:
        return [Queue(QUEUE, self.properties)]

    def make_models(self) -> Sequence[QueueModel]:
        return [QueueModel(QUEUE, self.properties.dead_lettering_on_message_expiration)]

    @property
    def queue(self) -> ServedQueue:
        return self.served(QUEUE)

    @property
    def model(self) -> QueueModel:
        return self.models[QUEUE]

    # Sending

    @initialize(batches=st.lists(BATCHES, min_size=1, max_size=4))
    def begin_with_messages(self, batches: list[Batch]) -> None:
        """Most of what can happen can only happen to a message."""
        for batch in batches:
            self.send(batch)

    @rule(batch=BATCHES)
    def send(self, batch: Batch) -> None:
        messages = [
            Message(self.new_content(), partition_key=key, time_to_live_ms=time_to_live)
            for key, time_to_live in batch
        ]
        for fragment, indices in group_by_fragment(self.queue, messages).items():
            self.send_group([messages[at] for at in indices], fragment)

    def send_group(self, group: list[Message], fragment: FragmentIndex | None) -> None:
        try:
            self.run(send(self.queue, group, fragment, self.clock))
        except StoreUnavailable:
            fragments = range(self.properties.fragment_count) if fragment is None else [fragment]
            is_any_online = any(self.is_online(QUEUE, each) for each in fragments)
            assert not is_any_online, "refused though it could be kept"
            return
        assert fragment is None or self.is_online(QUEUE, fragment)
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

    # Receiving, and staying

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
        if self.staying.mode is ReceiveMode.RECEIVE_AND_DELETE and not self.queue.is_available:
            return  # What it had cached of a store that is away it drops, and nobody can tell.
        held = list(filter(self.is_held, self.cached))
        is_any_free = bool(self.free(QUEUE, SubQueue.MAIN))
        is_any_fresh = any(self.is_fresh(each) or self.is_reachable(each) for each in held)
        returned = self.run(self.staying.receive(count))
        self.note_given_back(returned)
        left = self.note_received(QUEUE, SubQueue.MAIN, self.staying.mode, returned)
        for message in returned:
            self.cached.pop(message.content, None)
        self.cached |= {each.content: each.lock for each in left}
        assert bool(returned) >= (is_any_free or is_any_fresh), "nothing came, though it could"
        assert bool(returned) <= (is_any_free or bool(held))

    def is_held(self, content: bytes) -> bool:
        message = self.model.messages.get(content)
        return message is not None and message.is_held_by(self.cached[content], self.now)

    def is_fresh(self, content: bytes) -> bool:
        locked_until = self.model.messages[content].locked_until
        return locked_until is not None and locked_until - self.now >= LOCK_DURATION_MS // 2

    def is_reachable(self, content: bytes) -> bool:
        return self.is_message_online(QUEUE, self.model.messages[content])

    def note_given_back(self, returned: list[StoredMessage]) -> None:
        """A cached message may be given back, and taken anew, once half of its lock is over."""
        shown = self.run(look_at(self.queue.main))
        nonces = {message.content: message.nonce for message in (*shown, *returned)}
        for content, lock in list(self.cached.items()):
            if nonces.get(content, lock.nonce) == lock.nonce or not self.is_held(content):
                continue
            assert not self.is_fresh(content), "given back too early"
            self.model.settle(SubQueue.MAIN, lock, Release(), self.now)
            del self.cached[content]

    @rule()
    def leave(self) -> None:
        """End the receiver that stayed: what it had cached is given back at once, uncounted."""
        if self.staying is None:
            return
        self.run(self.staying.close())
        for content, lock in self.cached.items():
            if content in self.model.messages and self.is_reachable(content):
                self.model.settle(SubQueue.MAIN, lock, Release(), self.now)
        self.staying = None
        self.cached.clear()

    @rule()
    def wait_for_messages(self) -> None:
        if self.waiter is None and not self.free(QUEUE, SubQueue.MAIN):
            self.waiter = self.run(self.join())

    async def join(self) -> "asyncio.Future[None]":
        return Receiver(self.queue.main, ReceiveMode.PEEK_LOCK, self.clock).waiting.join()

    # Dead letters, tried again

    @rule(reason=REASONS, part=st.sampled_from([1, 2, MANY]), is_dry_run=st.booleans())
    def redrive(self, reason: str | None, part: int, is_dry_run: bool) -> None:
        """Move all dead letters back, or those of a reason; what somebody holds stays."""
        dead = [
            each
            for each in self.model.held_in(SubQueue.DEAD_LETTER)
            if self.is_message_online(QUEUE, each)
            and reason in (None, each.marks and each.marks.dead_letter_reason)
        ]
        free = [each for each in dead if each.locked_until is None]
        moved, locked = self.run(self.go_through(Selection(reason=reason), part, is_dry_run))
        assert (moved, locked) == (len(free), len(dead) - len(free))
        if is_dry_run or not free:
            return
        self.model.redrive(free, self.expiry(None))
        if self.waiter is not None:
            assert self.waiter.done(), "a message came back, and who waits for it was not told"
            self.waiter = None

    async def go_through(
        self, selection: Selection, part: int, is_dry_run: bool
    ) -> tuple[int, int]:
        """Redrive as a client does; return how many were moved, and how many were held."""
        dead = self.queue.sub_queues[SubQueue.DEAD_LETTER]
        moved = locked = 0
        for fragment, last in enumerate((await extent_of(dead)).last_sequences):
            at: int | None = fragment << COUNTER_BITS
            while last is not None and at is not None and at <= last:
                wish = RedriveWish(Stretch(at, last, part), selection, is_dry_run=is_dry_run)
                done = await redrive(
                    dead, wish, self.broker.catalog, self.clock, lambda _path: None
                )
                moved, locked, at = moved + done.moved, locked + done.locked, done.next_sequence
        return moved, locked

    # Time, stores, restarts

    def note_swept(self) -> None:
        super().note_swept()
        if self.waiter is not None and self.free(QUEUE, SubQueue.MAIN):
            assert self.waiter.done(), "a message is free, and who waits for it was not told"
        if self.waiter is not None and self.waiter.done():
            self.waiter = None

    def note_switched(self) -> None:
        self.keyless_turns.clear()

    def note_ending(self, *, is_clean: bool) -> None:
        if self.staying is not None and is_clean:
            self.leave()
        self.staying, self.waiter = None, None
        self.cached.clear()
        self.keyless_turns.clear()

    # What always holds

    def check_more(self) -> None:
        """Keyless messages that came together stay together, and the next go elsewhere."""
        for group in self.keyless_groups:
            [fragment] = {self.model.messages[content].fragment for content in group}
            assert fragment is not None, "every message has been seen by now"
            self.keyless_turns[fragment] += 1
        self.keyless_groups.clear()
        if self.queue.is_available:
            turns = [self.keyless_turns[each] for each in range(self.properties.fragment_count)]
            assert max(turns) - min(turns) <= 1


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
TestConventionalHistory.settings = fewer_examples(4)
TestPartitionedHistory.settings = fewer_examples(6)
