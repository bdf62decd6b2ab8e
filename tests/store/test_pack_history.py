"""Any history of a store that keeps packs is answered like that of one which makes rows at once."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bendybus.model.errors import QuotaExceeded
from bendybus.model.ids import Instant
from bendybus.model.message import Lock, Marks, Message, MessageState, StoredMessage
from bendybus.model.operations import (
    Append,
    CommitReserved,
    GiveBack,
    Guard,
    Move,
    OpenReader,
    Operation,
    Purge,
    Remove,
    Reserve,
    Reserved,
    Unlock,
)
from bendybus.store.port import Acquire
from bendybus.store.sql import counting, reading
from bendybus.testing.store_contract.packed_rows import columns_of
from bendybus.testing.store_contract.subject import DEAD, LOCK_MS, MAIN, NOON, ROOMY
from tests.history.world import fewer_examples
from tests.store.pack_store import LIFE_MS, READER, TOKEN, Side

COUNTS = st.sampled_from([1, 2, 3, 7, 40])
PLACES = st.integers(0, 30)


class TwoStores(RuleBasedStateMachine):
    """The same things happen to both, and both say the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="bendybus-")
        self.packs = Side(Path(self.folder.name), keeps_packs=True)
        self.rows = Side(Path(self.folder.name), keeps_packs=False)
        self.now = NOON
        self.sent = 0
        self.chunks = 0
        self.nonce = 0
        self.position = 0
        self.committed = 0
        self.locked: list[StoredMessage] = []

    def teardown(self) -> None:
        self.packs.database.close()
        self.rows.database.close()
        self.folder.cleanup()

    def both(self, ask: Callable[[Side], Any]) -> Any:
        answer = ask(self.packs)
        assert answer == ask(self.rows)
        return answer

    def apply(self, *operations: Operation) -> Any:
        return self.both(lambda side: side.apply(*operations, now=self.now))

    @initialize()
    def open_reader(self) -> None:
        self.apply(OpenReader(MAIN, READER, TOKEN, self.now, None, 9))

    @rule(
        count=st.integers(1, 12),
        key=st.sampled_from([None, "red"]),
        life=st.sampled_from([None, None, LIFE_MS]),
    )
    def write(self, count: int, key: str | None, life: int | None) -> None:
        rows = columns_of(range(self.sent, self.sent + count), key=key, life=life)
        self.sent += count
        self.chunks += 1
        for side in (self.packs, self.rows):
            side.publish(self.chunks, rows, self.now, ROOMY)

    @rule(count=st.integers(1, 3))
    def send(self, count: int) -> None:
        messages = [Message(b"message %d" % number) for number in range(count)]
        self.apply(Append(MAIN, messages, ROOMY))

    @rule()
    def write_too_much(self) -> None:
        self.chunks += 1
        rows = columns_of([self.sent])

        def ask(side: Side) -> str:
            with pytest.raises(QuotaExceeded) as refused:
                side.publish(self.chunks, rows, self.now, 1)
            return str(refused.value)

        self.both(ask)

    @rule(count=COUNTS)
    def acquire(self, count: int) -> None:
        self.nonce += 1
        wish = Acquire(MAIN, count, ROOMY, Instant(self.now + LOCK_MS), self.nonce)
        self.locked += self.both(
            lambda side: side.make(lambda database: reading.acquire(database, wish, self.now))
        )

    @rule(place=PLACES, what=st.sampled_from(["remove", "unlock", "move"]))
    def settle(self, place: int, what: str) -> None:
        if not self.locked:
            return
        message = self.locked.pop(place % len(self.locked))
        lock = Lock(message.sequence, message.nonce or 0, message.delivery_count)
        operations: dict[str, Operation] = {
            "remove": Remove(MAIN, [lock]),
            "unlock": Unlock(MAIN, [lock], is_counted=True),
            "move": Move(MAIN, DEAD, lock, Marks(), is_counted=True),
        }
        self.apply(operations[what])

    @rule(place=PLACES, count=COUNTS)
    def browse(self, place: int, count: int) -> None:
        self.both(
            lambda side: side.make(
                lambda database: reading.browse(database, MAIN, place, (count, ROOMY))
            )
        )

    @rule(places=st.lists(PLACES, min_size=1, max_size=3))
    def find(self, places: list[int]) -> None:
        self.both(lambda side: side.make(lambda database: reading.find(database, MAIN, places)))

    @rule(count=COUNTS, place=PLACES)
    def purge(self, count: int, place: int) -> None:
        self.apply(Purge(MAIN, MessageState.ACTIVE, count, self.now, place))

    @rule(
        wanted=st.fixed_dictionaries(
            {},
            optional={
                "count_max": st.sampled_from([1, 4, 100]),
                "bytes_max": st.sampled_from([1, 500, ROOMY]),
                "states": st.sampled_from([(MessageState.ACTIVE,), (MessageState.RESERVED,)]),
                "partition_keys": st.just(("red",)),
                "session_ids": st.just(("red",)),
                "enqueued_from": st.just(Instant(NOON + 1)),
                "enqueued_until": st.just(Instant(NOON + 2000)),
            },
        )
    )
    def scan(self, wanted: dict[str, Any]) -> None:
        self.both(lambda side: side.scan(**wanted))

    @rule(
        count=COUNTS,
        bytes_max=st.sampled_from([1, 300, ROOMY]),
        before=st.sampled_from([None, None, 3, 9]),
    )
    def reserve(self, count: int, bytes_max: int, before: int | None) -> None:
        """A reservation ends where a pack begins or ends: the other is asked for as many."""

        def wish(count_max: int, bytes_max: int) -> Reserve:
            return Reserve(MAIN, READER, TOKEN, self.position, count_max, bytes_max, before)

        [made] = self.packs.apply(wish(count, bytes_max), now=self.now)
        assert isinstance(made, Reserved)
        assert made.messages <= count
        assert made.bytes <= bytes_max or made.messages == 1
        if not made.messages:
            assert self.rows.apply(wish(count, ROOMY), now=self.now) == [made]
        parts = self.packs.reservations(after=self.position)
        assert made.messages == sum(part.messages for part in parts)
        assert made.bytes == sum(part.bytes for part in parts)
        for part in parts:
            [other] = self.rows.apply(wish(part.messages, ROOMY), now=self.now)
            assert other == Reserved(part.position, part.messages, part.bytes)
            self.both(self._first_reserved)
            self.position = part.position
        assert made.position == self.position

    def _first_reserved(self, side: Side) -> list[dict[str, Any]]:
        """Read what is reserved right behind the position."""
        first, *_ = side.reservations(self.position)
        return side.scan(reservation=first.number)

    @rule(back=st.integers(0, 3))
    def commit(self, back: int) -> None:
        """Whichever needs more turns for it: both are done with the same then."""
        self.committed = max(self.committed, self.position - back)
        until = CommitReserved(MAIN, READER, TOKEN, self.committed)
        for side in (self.packs, self.rows):
            while side.apply(until, now=self.now) != [self.committed]:
                pass

    @rule()
    def give_back(self) -> None:
        messages = 1
        while messages:
            [answer] = self.apply(GiveBack(MAIN, READER, None, TOKEN))
            messages = answer.messages
        self.position = self.committed = 0
        self.open_reader()

    @rule(milliseconds=st.sampled_from([1000, LIFE_MS, LOCK_MS]))
    def wait(self, milliseconds: int) -> None:
        self.now = Instant(self.now + milliseconds)
        # Packs become rows one after the other, so what is due need not come at once.
        for side in (self.packs, self.rows):
            while due := side.make(lambda database: reading.due(database, self.now, 1000)):
                for each in due:
                    operation = (
                        Unlock(each.queue, [each.lock], is_counted=True, guard=Guard.LAPSED)
                        if each.guard is Guard.LAPSED
                        else Remove(each.queue, [each.lock], each.guard)
                    )
                    side.apply(operation, now=self.now)
        self.both(lambda side: reading.next_due(side.database))

    @rule()
    def reopen(self) -> None:
        for side in (self.packs, self.rows):
            side.reopen()

    @invariant()
    def both_hold_as_much(self) -> None:
        self.both(lambda side: reading.counts(side.database, MAIN))
        self.both(lambda side: reading.extent(side.database, MAIN))
        self.both(lambda side: counting.tallies(side.database, [MAIN, DEAD]))


TwoStores.TestCase.settings = fewer_examples(1)
TestTwoStores = TwoStores.TestCase
