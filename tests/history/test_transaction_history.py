"""Any history of transactions: what belongs together happens together, or not at all (R5.4)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from bendybus.broker.open_transactions import OpenTransactions
from bendybus.broker.receive import ReceiveMode
from bendybus.broker.send import group_by_fragment, send
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.errors import (
    BusError,
    StoreUnavailable,
    TransactionRolledBack,
    TransactionTimedOut,
    TransactionUnknown,
)
from bendybus.model.ids import SubQueue
from bendybus.model.message import Lock, Marks, Message
from bendybus.model.outcome import Complete, DeadLetter, Defer, Outcome
from bendybus.model.transaction import TransactionLimits
from tests.history.dying_stores import DyingStores
from tests.history.forwarding_world import ForwardingWorld
from tests.history.queue_model import DELIVERY_COUNT_MAX, LOCK_DURATION_MS, Expected, QueueModel
from tests.history.queue_world import CHANGES, OUTCOMES, PICKS, WHICH
from tests.history.transaction_model import (
    MESSAGES_MAX,
    SECONDS_MAX,
    Home,
    Pending,
    Target,
    place_of,
)
from tests.history.world import fewer_examples

QUEUES: Final = ("orders", "invoices")
OWNERS: Final = ("first link", "second link")

KEYS = st.sampled_from([None, "red", "red", "green"])
TIMES_TO_LIVE_MS = st.sampled_from([None, None, 8_000])
BATCHES = st.lists(st.tuples(KEYS, TIMES_TO_LIVE_MS), min_size=1, max_size=3)
TRANSACTION_OUTCOMES = st.one_of(OUTCOMES, st.builds(Defer, CHANGES))

Batch = list[tuple[str | None, int | None]]


class TransactionHistory(ForwardingWorld):
    """Two queues, and a connection with transactions over both."""

    properties: ClassVar[QueueProperties]
    places = (SubQueue.MAIN, SubQueue.DEAD_LETTER, SubQueue.TRANSFER)

    def __init__(self) -> None:
        super().__init__()
        self.open_transactions = self.connect()
        self.pending: list[Pending] = []
        self.owners: dict[bytes, str] = {}
        # The ids of those that have ended, which nobody must know any more.
        self.ended: list[bytes] = []

    def entities(self) -> Sequence[Queue]:
        return [Queue(name, self.properties) for name in QUEUES]

    def make_models(self) -> Sequence[QueueModel]:
        is_kept = self.properties.dead_lettering_on_message_expiration
        return [QueueModel(name, is_kept, has_gaps=True) for name in QUEUES]

    def connect(self) -> OpenTransactions:
        return OpenTransactions(TransactionLimits(MESSAGES_MAX, SECONDS_MAX), self.clock)

    # Outside of transactions

    @initialize(batches=st.lists(BATCHES, min_size=1, max_size=4))
    def begin_with_messages(self, batches: list[Batch]) -> None:
        """Most of what can happen can only happen to a message."""
        for which, batch in enumerate(batches):
            self.send(which, batch)

    @rule(which=WHICH, batch=BATCHES)
    def send(self, which: int, batch: Batch) -> None:
        name = self.pick(which)
        messages = self.messages(batch)
        for fragment, indices in group_by_fragment(self.served(name), messages).items():
            group = [messages[at] for at in indices]
            try:
                self.run(send(self.served(name), group, fragment, self.clock))
            except StoreUnavailable:
                assert not self.are_all_online
                continue
            for message in group:
                self.note_arrived(Home(name, -1 if fragment is None else fragment), message)

    def messages(self, batch: Batch) -> list[Message]:
        return [
            Message(self.new_content(), partition_key=key, time_to_live_ms=time_to_live)
            for key, time_to_live in batch
        ]

    def note_arrived(self, home: Home, message: Message, destination: str | None = None) -> None:
        """Note a message in its queue or, with a destination, among those on their way there."""
        life = message.time_to_live_ms
        expected = Expected(
            message.content,
            message.partition_key,
            self.now,
            None if life is None else self.now + life,
            fragment=home.fragment if home.fragment >= 0 else None,
        )
        model = self.models[home.name]
        if destination is not None:
            expected.place, expected.marks = SubQueue.TRANSFER, Marks(destination=destination)
            model.messages[message.content] = expected
        else:
            model.add(expected)

    # Inside

    @rule(owner=st.sampled_from(OWNERS))
    def declare(self, owner: str) -> None:
        number = self.open_transactions.declare(owner)
        assert number not in self.owners, "an id was given twice"
        self.pending.append(Pending(number, self.now + SECONDS_MAX * 1000))
        self.owners[number] = owner

    @rule(at=WHICH, which=WHICH, batch=BATCHES)
    def send_inside(self, at: int, which: int, batch: Batch) -> None:
        if not self.pending:
            return
        pending, name = self.pick_pending(at), self.pick(which)
        messages = self.messages(batch)
        target = Target(name, self.properties.fragment_count)
        for message in messages:
            if pending.home not in (None, place_of(target, message)):
                # It may have to wait for a store that is away, and where it then expires is
                # nobody's promise.
                message.time_to_live_ms = None
        is_allowed = pending.can_send(target, messages)
        try:
            self.open_transactions.send(pending.number, self.served(name), messages)
        except TransactionTimedOut:
            assert pending.ends_at <= self.now
        except BusError:
            # In one that is doomed nothing matters any more.
            assert not is_allowed or pending.is_doomed
            pending.is_doomed = True
        else:
            assert pending.ends_at > self.now
            assert is_allowed or pending.is_doomed
            pending.send(target, messages)

    @rule(at=WHICH, picks=PICKS, outcome=TRANSACTION_OUTCOMES)
    def settle_inside(self, at: int, picks: list[int], outcome: Outcome) -> None:
        if not self.pending or not self.tokens:
            return
        pending = self.pick_pending(at)
        name, place, locks = self.pick_locks(picks)
        is_allowed = pending.can_settle(name, place, locks) and self.hold(name, place, locks)
        if isinstance(outcome, DeadLetter) and place is not SubQueue.MAIN:
            is_allowed = False
        try:
            self.run(self.settle_in(pending, name, place, locks, outcome))
        except TransactionTimedOut:
            assert pending.ends_at <= self.now
        except BusError:
            assert not is_allowed or pending.is_doomed
            pending.is_doomed = True
        else:
            assert pending.ends_at > self.now
            assert is_allowed or pending.is_doomed
            pending.settle(name, place, locks, outcome)

    async def settle_in(
        self, pending: Pending, name: str, place: SubQueue, locks: list[Lock], outcome: Outcome
    ) -> None:
        sub_queue = self.served(name).sub_queues[place]
        await self.open_transactions.settle(pending.number, sub_queue, locks, outcome)

    def hold(self, name: str, place: SubQueue, locks: Sequence[Lock]) -> bool:
        """Whether all these locks are held now, as far as their stores can be asked."""
        found = [(lock, self.models[name].find(place, lock.sequence)) for lock in locks]
        return all(
            each is not None
            and each.is_held_by(lock, self.now)
            and self.is_message_online(name, each)
            for lock, each in found
        )

    @rule(at=WHICH, is_committed=st.booleans())
    def discharge(self, at: int, is_committed: bool) -> None:
        if not self.pending:
            return
        pending = self.pick_pending(at)
        self.pending.remove(pending)
        self.ended.append(pending.number)
        try:
            transaction = self.open_transactions.take_out(pending.number)
        except TransactionTimedOut:
            assert pending.ends_at <= self.now
            return
        assert pending.ends_at > self.now
        if not is_committed:
            transaction.drop()
            return
        can_commit = self.can_commit(pending)
        try:
            self.run(transaction.commit(self.clock))
        except TransactionRolledBack:
            assert not can_commit
        else:
            assert can_commit
            self.note_committed(pending)

    def can_commit(self, pending: Pending) -> bool:
        """Whether nothing was refused, the home can be written to, and every lock still holds."""
        if pending.is_doomed or pending.home is None:
            return not pending.is_doomed
        are_held = all(self.hold(each.name, each.place, [each.lock]) for each in pending.settled)
        return are_held and self.is_online(*pending.home)

    def note_committed(self, pending: Pending) -> None:
        for name, place, lock, outcome in pending.settled:
            assert self.models[name].settle(place, lock, outcome, self.now)
        for target, message in pending.sends:
            assert pending.home is not None
            is_home = target == pending.home
            self.note_arrived(pending.home, message, None if is_home else target.name)

    @rule(which=WHICH, to=WHICH, batch=BATCHES, outcome=TRANSACTION_OUTCOMES, ends=st.booleans())
    def answer(self, which: int, to: int, batch: Batch, outcome: Outcome, ends: bool) -> None:
        """Receive a message and answer it in one transaction, as most of them are."""
        self.receive(which, SubQueue.MAIN, ReceiveMode.PEEK_LOCK, [1])
        self.declare(OWNERS[0])
        self.settle_inside(-1, [0], outcome)
        self.send_inside(-1, to, batch)
        if ends:
            self.discharge(-1, is_committed=True)

    @rule(which=WHICH, batch=BATCHES, calls=st.integers(0, 6))
    def die_after_a_commit(self, which: int, batch: Batch, calls: int) -> None:
        """Answer to the other queue, and die after so many calls of who takes the answer there."""
        self.answer(which, which + 1, batch, Complete(), ends=False)
        dying = DyingStores(self.broker.stores)
        self.discharge(-1, is_committed=True)
        self.run(dying.live_on(calls, self.at_rest()))
        self.restart(is_clean=False)

    @rule(owner=st.sampled_from(OWNERS))
    def lose_a_link(self, owner: str) -> None:
        """Roll back what a coordinator link had open when it ended."""
        self.open_transactions.roll_back(owner)
        gone = [each for each in self.pending if self.owners[each.number] == owner]
        self.pending = [each for each in self.pending if each not in gone]
        self.ended += [each.number for each in gone]

    @rule(at=WHICH)
    def use_one_that_has_ended(self, at: int) -> None:
        if not self.ended:
            return
        try:
            self.open_transactions.take_out(self.ended[-1 - at % len(self.ended)])
        except TransactionUnknown:
            return
        raise AssertionError("a transaction goes on that has ended")

    def pick_pending(self, at: int) -> Pending:
        return self.pending[at % len(self.pending)]

    # Time and restarts

    def note_swept(self) -> None:
        self.open_transactions.end_overdue()
        super().note_swept()

    def note_ending(self, *, is_clean: bool) -> None:
        """Every connection ends with the broker, and every transaction with its connection."""
        if is_clean:
            for owner in OWNERS:
                self.lose_a_link(owner)
        self.pending.clear()
        self.ended.clear()
        self.open_transactions = self.connect()


class ConventionalTransactionHistory(TransactionHistory):
    """Two conventional queues in different stores."""

    properties = QueueProperties(
        lock_duration=timedelta(milliseconds=LOCK_DURATION_MS),
        max_delivery_count=DELIVERY_COUNT_MAX,
        dead_lettering_on_message_expiration=True,
    )
    store_count = 2


class PartitionedTransactionHistory(TransactionHistory):
    """Two partitioned queues over three stores: a transaction has one key on each."""

    properties = QueueProperties(
        lock_duration=timedelta(milliseconds=LOCK_DURATION_MS),
        max_delivery_count=DELIVERY_COUNT_MAX,
        enable_partitioning=True,
    )
    store_count = 3


TestConventionalTransactionHistory = pytest.mark.spec("R5.4")(
    ConventionalTransactionHistory.TestCase
)
TestPartitionedTransactionHistory = pytest.mark.spec("R5.1")(PartitionedTransactionHistory.TestCase)
TestConventionalTransactionHistory.settings = fewer_examples(6)
TestPartitionedTransactionHistory.settings = fewer_examples(15)
