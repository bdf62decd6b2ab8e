"""Any history of sessions: one holder at a time, everything in order, nobody passed over."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from bendybus.broker.browse import browse
from bendybus.broker.deferred import receive_deferred
from bendybus.broker.held_sessions import HeldSession
from bendybus.broker.receive import ReceiveMode
from bendybus.broker.send import group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue
from bendybus.broker.session_listing import SessionListing
from bendybus.broker.session_receiver import SessionReceiver
from bendybus.broker.sessions import (
    accept_session,
    release_session,
    renew_session,
    session_state,
    set_session_state,
)
from bendybus.broker.update import update
from bendybus.model.entity import EntityStatus, Queue, QueueProperties
from bendybus.model.errors import (
    EntityDisabled,
    MessageNotFound,
    SessionCannotBeLocked,
    SessionLockLost,
    StoreUnavailable,
)
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Message, MessageState
from bendybus.model.outcome import Abandon, Complete, Defer
from bendybus.testing.local_broker import LocalBroker
from tests.history.queue_model import DELIVERY_COUNT_MAX, LOCK_DURATION_MS, Expected
from tests.history.queue_world import COUNTS, MANY, MODES, WHICH, QueueWorld, look_at
from tests.history.session_model import SessionModel
from tests.history.world import fewer_examples

QUEUE: Final = "orders"
SESSIONS: Final = ("red", "green", "blue")
ACCEPT_SECONDS_MAX: Final = 10.0

NAMES = st.sampled_from(SESSIONS)
TIMES_TO_LIVE_MS = st.sampled_from([None, None, None, 3_000])
BATCHES = st.lists(st.tuples(NAMES, TIMES_TO_LIVE_MS), min_size=1, max_size=5)
CLOSED = tuple(status for status in EntityStatus if status is not EntityStatus.ACTIVE)
STATES = st.sampled_from([None, b"", b"half done"])
Batch = list[tuple[str, int | None]]


@contextmanager
def refused() -> Iterator[None]:
    """Expect that somebody may not do what is tried."""
    try:
        yield
    except EntityDisabled:
        return
    raise AssertionError("it was done, though the queue is closed")


async def change(broker: LocalBroker, queue: Queue) -> None:
    await update(broker.catalog, queue, now=broker.clock.now())


class SessionHistory(QueueWorld):
    """One queue of sessions, and holders who come, stay too long, and go."""

    properties: ClassVar[QueueProperties]

    def __init__(self) -> None:
        super().__init__()
        # Everybody who thinks that he holds a session.
        self.holders: list[HeldSession] = []

    def entities(self) -> Sequence[Queue]:
        return [Queue(QUEUE, self.properties)]

    def make_models(self) -> Sequence[SessionModel]:
        return [SessionModel(QUEUE, self.properties.dead_lettering_on_message_expiration)]

    @property
    def queue(self) -> ServedQueue:
        return self.served(QUEUE)

    @property
    def main(self) -> ServedSubQueue:
        return self.queue.main

    @property
    def model(self) -> SessionModel:
        model = self.models[QUEUE]
        assert isinstance(model, SessionModel)
        return model

    def is_session_online(self, session_id: str) -> bool:
        return self.main.source_of_session(session_id).store.is_online

    def pick_holder(self, at: int) -> HeldSession:
        return self.holders[-1 - at % len(self.holders)]

    # Sending

    @initialize(batches=st.lists(BATCHES, min_size=1, max_size=3))
    def begin_with_messages(self, batches: list[Batch]) -> None:
        """Most of what can happen can only happen to a message."""
        for batch in batches:
            self.send(batch)

    @rule(batch=BATCHES)
    def send(self, batch: Batch) -> None:
        messages = [
            Message(self.new_content(), session_id=name, time_to_live_ms=time_to_live)
            for name, time_to_live in batch
        ]
        for fragment, indices in group_by_fragment(self.queue, messages).items():
            group = [messages[at] for at in indices]
            assert fragment is not None, "a session has a fragment"
            try:
                self.run(send(self.queue, group, fragment, self.clock))
            except StoreUnavailable:
                assert not self.is_online(QUEUE, fragment)
                continue
            for each in group:
                life = each.time_to_live_ms
                expires_at = None if life is None else self.now + life
                self.model.add(
                    Expected(
                        each.content, None, self.now, expires_at, each.session_id, fragment=fragment
                    )
                )

    # Accepting

    @rule(name=NAMES)
    def accept_named(self, name: str) -> None:
        """Accept a session by its name. One whose lock has just ended is swept first."""
        session = self.model.session(name)
        is_over = session.locked_until is not None and session.locked_until <= self.now
        held: HeldSession | None = None
        try:
            held = self.run(self.accept(name, is_swept=is_over))
        except StoreUnavailable:
            assert not self.is_session_online(name)
        except SessionCannotBeLocked:
            assert session.nonce is not None
            assert not is_over
        if is_over:
            self.note_swept()
        if held is not None:
            self.model.accept(name, held.nonce, self.now)
            self.holders.append(held)

    async def accept(self, name: str, *, is_swept: bool) -> HeldSession:
        accepting = asyncio.ensure_future(accept_session(self.main, name, self.clock))
        if is_swept:
            for _ in range(2):
                # A store answers in the order in which it was asked: by then it has.
                await look_at(self.main)
            await self.broker.sweep.sweep_all()
        return await self.answered(accepting)

    async def answered(self, accepting: "asyncio.Future[HeldSession]") -> HeldSession:
        done, _ = await asyncio.wait([accepting], timeout=ACCEPT_SECONDS_MAX)
        if not done:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
            raise AssertionError("a session could be accepted, and is not")
        return accepting.result()

    @rule()
    def accept_next(self) -> None:
        """Accept whichever comes next; if there is none, wait, and leave without one."""
        waiting = {
            name: free
            for name, free in self.model.waiting(self.now).items()
            if self.is_session_online(name)
        }
        held = self.run(self.accept_one(is_any=bool(waiting)))
        if held is not None:
            assert held.session_id in waiting, "it has nothing to give, or somebody holds it"
            self.model.check_next(held.session_id, waiting)
            self.model.accept(held.session_id, held.nonce, self.now)
            self.holders.append(held)

    async def accept_one(self, *, is_any: bool) -> HeldSession | None:
        accepting = asyncio.ensure_future(accept_session(self.main, None, self.clock))
        if is_any:
            return await self.answered(accepting)
        for _ in range(2 * len(self.main.sources)):
            # A store answers in the order in which it was asked: by then it has.
            await look_at(self.main)
        assert not accepting.done(), "a session was given out that has nothing to give"
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)
        return None

    # Closing

    @rule(status=st.sampled_from(CLOSED), batch=BATCHES, name=st.none() | NAMES)
    def try_while_it_is_closed(self, status: EntityStatus, batch: Batch, name: str | None) -> None:
        """Send and accept what a status forbids; whoever holds a session goes on with it."""
        if not self.are_all_online:
            return
        self.set_status(status)
        if status is EntityStatus.RECEIVE_DISABLED:
            self.send(batch)
        else:
            with refused():
                self.send(batch)
        if status is not EntityStatus.SEND_DISABLED:
            with refused():
                self.run(accept_session(self.main, name, self.clock))
        self.the_queues_hold_what_they_ought_to()
        self.renew_a_session(0, 0)
        self.settle([0], Complete())
        self.set_status(EntityStatus.ACTIVE)

    def set_status(self, status: EntityStatus) -> None:
        queue = Queue(QUEUE, replace(self.properties, status=status))
        self.run(change(self.broker, queue))

    # Holding

    @rule(at=WHICH, count=COUNTS, mode=MODES)
    def receive_in_session(self, at: int, count: int, mode: ReceiveMode) -> None:
        if not self.holders:
            return
        held = self.pick_holder(at)
        name = held.session_id
        receiver = SessionReceiver(self.main, held, mode, self.clock)
        returned = self.run(receiver.receive(count))
        is_held = self.model.session(name).is_held(held.nonce, self.now)
        if not is_held or not self.is_session_online(name):
            assert not returned, "received without holding the session"
            return
        self.model.receive_in(name, returned, count, self.now)
        if mode is ReceiveMode.RECEIVE_AND_DELETE:
            for message in returned:
                del self.model.messages[message.content]
        else:
            self.remember(QUEUE, SubQueue.MAIN, returned)

    @rule(at=WHICH, times=st.integers(1, DELIVERY_COUNT_MAX))
    def fail_in_session(self, at: int, times: int) -> None:
        """Give up the first message of a session: it comes again at once, before the others."""
        for _ in range(times):
            self.receive_in_session(at, 1, ReceiveMode.PEEK_LOCK)
            self.settle([0], Abandon())

    @rule(name=NAMES, count=COUNTS, is_settled=st.booleans())
    def stay_too_long(self, name: str, count: int, is_settled: bool) -> None:
        """Hold messages of a session until its lock has ended, and ask for it again unswept."""
        self.accept_named(name)
        self.receive_in_session(0, count, ReceiveMode.PEEK_LOCK)
        self.clock.advance(LOCK_DURATION_MS / 1000)
        if is_settled:
            self.settle([0], Complete())
        self.accept_named(name)

    @rule(at=WHICH, seconds=st.sampled_from([0, 1]))
    def renew_a_session(self, at: int, seconds: int) -> None:
        if not self.holders:
            return
        self.clock.advance(seconds)
        held = self.pick_holder(at)
        try:
            locked_until = self.run(renew_session(self.main, held, self.clock))
        except StoreUnavailable:
            assert not self.is_session_online(held.session_id)
        except SessionLockLost:
            assert not self.model.renew_session(held.session_id, held.nonce, self.now)
        else:
            assert self.model.renew_session(held.session_id, held.nonce, self.now)
            assert locked_until == self.now + LOCK_DURATION_MS

    @rule(at=WHICH, state=STATES)
    def set_state(self, at: int, state: bytes | None) -> None:
        if not self.holders:
            return
        held = self.pick_holder(at)
        try:
            self.run(set_session_state(self.main, held, state, self.clock))
        except StoreUnavailable:
            assert not self.is_session_online(held.session_id)
        except SessionLockLost:
            assert not self.model.set_state(held.session_id, held.nonce, state, self.now)
        else:
            assert self.model.set_state(held.session_id, held.nonce, state, self.now)

    @rule(at=WHICH)
    def get_state(self, at: int) -> None:
        if not self.holders:
            return
        held = self.pick_holder(at)
        session = self.model.session(held.session_id)
        try:
            state = self.run(session_state(self.main, held, self.clock))
        except StoreUnavailable:
            assert not self.is_session_online(held.session_id)
        except SessionLockLost:
            assert not session.is_held(held.nonce, self.now)
        else:
            assert session.is_held(held.nonce, self.now)
            assert state == session.state

    @rule(at=WHICH)
    def release(self, at: int) -> None:
        """Give a session back; a holder whose lock has ended, or whose store is away, only goes."""
        if not self.holders:
            return
        held = self.pick_holder(at)
        self.holders.remove(held)
        self.run(release_session(self.main, held, self.clock))
        if self.is_session_online(held.session_id):
            self.model.release(held.session_id, held.nonce, self.now)

    @rule(name=NAMES, state=STATES)
    def finish_a_session(self, name: str, state: bytes | None) -> None:
        """Take all that a session has, leave a state behind, and go."""
        self.accept_named(name)
        self.receive_in_session(0, MANY, ReceiveMode.RECEIVE_AND_DELETE)
        self.set_state(0, state)
        self.release(0)
        self.list_sessions(None, MANY)

    # Deferring

    @rule(at=WHICH, count=st.integers(1, 2))
    def defer_in_session(self, at: int, count: int) -> None:
        self.receive_in_session(at, count, ReceiveMode.PEEK_LOCK)
        self.settle(list(range(count)), Defer())

    @rule(at=WHICH, count=st.integers(1, 3), mode=MODES)
    def receive_deferred(self, at: int, count: int, mode: ReceiveMode) -> None:
        """Receive deferred messages, of this session and of others: all of them or none."""
        deferred = [
            each
            for each in self.model.held_in(SubQueue.MAIN)
            if each.state is MessageState.DEFERRED
        ][:count]
        if not self.holders or not deferred:
            return
        held = self.pick_holder(at)
        numbers = [each.sequence for each in deferred if each.sequence is not None]
        are_given = (
            self.model.session(held.session_id).is_held(held.nonce, self.now)
            and all(each.session_id == held.session_id for each in deferred)
            and self.model.are_deferred(SubQueue.MAIN, numbers)
        )
        try:
            returned = self.run(receive_deferred(self.main, numbers, mode, self.clock, held))
        except StoreUnavailable:
            assert not self.is_session_online(held.session_id)
        except (MessageNotFound, SessionLockLost):
            assert not are_given
        else:
            assert are_given
            assert [message.sequence for message in returned] == numbers
            for each, message in zip(deferred, returned, strict=True):
                each.nonce = message.nonce
                each.locked_until = self.model.session(held.session_id).locked_until
                if mode is ReceiveMode.RECEIVE_AND_DELETE:
                    del self.model.messages[each.content]
            if mode is ReceiveMode.PEEK_LOCK:
                self.remember(QUEUE, SubQueue.MAIN, returned)

    # Looking

    @rule(name=NAMES)
    def browse_in_session(self, name: str) -> None:
        shown = self.run(browse(self.main, 0, 100, name))
        expected = self.model.of_session(name) if self.is_session_online(name) else []
        assert [each.content for each in shown] == [each.content for each in expected]

    @rule(age_ms=st.sampled_from([None, 0, 1_000, 5_000]), count=st.sampled_from([1, 2, 100]))
    def list_sessions(self, age_ms: int | None, count: int) -> None:
        """List sessions page by page."""
        since = None if age_ms is None else Instant(self.now - age_ms)
        found = self.run(self.list_all(since, count))
        assert len(set(found)) == len(found), "a session is listed twice"
        some = self.model.listed(since, ended_at=self.now)
        assert set(filter(self.is_session_online, some)) <= set(found)
        # Messages whose time has ended are there until they are swept; a session that has no others
        # is forgotten before, when somebody who looked for one to accept saw it.
        assert set(found) <= set(filter(self.is_session_online, self.model.listed(since)))

    async def list_all(self, since: Instant | None, count: int) -> list[str]:
        listing = SessionListing(self.main)
        found: list[str] = []
        while page := await listing.page(since, len(found), count):
            assert len(page) <= count
            found += page
        return found

    # Time and restarts

    def note_swept(self) -> None:
        super().note_swept()
        self.model.sweep_sessions(self.now, self.is_session_online)

    def note_ending(self, *, is_clean: bool) -> None:
        """Holders go with the broker; unless cleanly, their sessions stay locked for a while."""
        while self.holders and is_clean:
            self.release(0)
        self.holders.clear()


class ConventionalSessionHistory(SessionHistory):
    """A conventional queue: all sessions in one fragment."""

    properties = QueueProperties(
        lock_duration=timedelta(milliseconds=LOCK_DURATION_MS),
        max_delivery_count=DELIVERY_COUNT_MAX,
        dead_lettering_on_message_expiration=True,
        requires_session=True,
    )
    store_count = 2


class PartitionedSessionHistory(SessionHistory):
    """A partitioned queue: sessions in several stores, of which each may be away."""

    properties = QueueProperties(
        lock_duration=timedelta(milliseconds=LOCK_DURATION_MS),
        max_delivery_count=DELIVERY_COUNT_MAX,
        enable_partitioning=True,
        requires_session=True,
    )
    store_count = 3


TestConventionalSessionHistory = pytest.mark.spec("R4")(ConventionalSessionHistory.TestCase)
TestPartitionedSessionHistory = pytest.mark.spec("R4")(PartitionedSessionHistory.TestCase)
TestConventionalSessionHistory.settings = fewer_examples(4)
TestPartitionedSessionHistory.settings = fewer_examples(8)
