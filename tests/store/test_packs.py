"""Packs: what was written in bulk stays columns, and nobody can tell it from rows of messages.

Any history of a store that keeps packs is answered like that of one which makes rows at once.
"""

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bendybus.columns.decoding import record_batch
from bendybus.model.errors import QuotaExceeded
from bendybus.model.ids import EntityNumber, Instant, QueueNumber
from bendybus.model.message import Lock, Marks, Message, MessageState, StoredMessage
from bendybus.model.operations import (
    Answer,
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
from bendybus.model.packed_messages import PackedMessages, PackedRows
from bendybus.model.staging import KeepChunk, PublishChunk
from bendybus.store.port import Acquire, QueueCounts
from bendybus.store.readers import Reservation
from bendybus.store.scan import Scan
from bendybus.store.sql import applying, catalog, counting, reading, staging
from bendybus.store.sql.careful_scan import scan_carefully
from bendybus.store.sql.readers import ALL, ReaderKey, find_reservations
from bendybus.store.sql.reserving import PACKS_TOGETHER_MAX
from bendybus.store.sql.scanner import Suspicious
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.scan_connection import open_scan_connection
from bendybus.testing.store_contract.packed_rows import columns_of
from bendybus.testing.store_contract.staging import publishing
from bendybus.testing.store_contract.subject import DEAD, LOCK_MS, MAIN, NOON, ORDERS, ROOMY
from tests.history.world import fewer_examples

SHOWN: Final = (
    *("sequence_number", "enqueued_time", "state", "message_id", "partition_key", "subject"),
    *("time_to_live", "expires_at", "delivery_count", "application_properties", "body"),
    "body_type",
)
READER, TOKEN = "reader", "token"
LIFE_MS: Final = 5_000
COUNTS = st.sampled_from([1, 2, 3, 7, 40])
PLACES = st.integers(0, 30)


class Side:
    """One of the two stores."""

    def __init__(self, folder: Path, *, keeps_packs: bool) -> None:
        self.path = folder / f"{keeps_packs}.db"
        self._keeps_packs = keeps_packs
        self.database = self._opened()
        self.make(lambda database: catalog.put_entities(database, 0, [ORDERS]))

    def _opened(self) -> SqliteDatabase:
        database = open_database(self.path, Pacing())
        if not self._keeps_packs:
            database.keep_no_packs()
        return database

    def reopen(self) -> None:
        self.database.close()
        self.database = self._opened()

    def make(self, work: Callable[[SqliteDatabase], Any]) -> Any:
        self.database.begin(is_synced=False)
        try:
            answer = work(self.database)
        except BaseException:
            self.database.undo()
            raise
        self.database.commit()
        return answer

    def apply(self, *operations: Operation, now: Instant) -> list[Answer]:
        def work(database: SqliteDatabase) -> list[Answer]:
            return applying.make_all(database, operations, now)

        answers: list[Answer] = self.make(work)
        return answers

    def publish(self, number: int, rows: PackedRows, now: Instant, bytes_max: int) -> None:
        self.apply(KeepChunk(MAIN, number, 0, rows, ROOMY), now=now)
        [chunk] = staging.next_chunks(self.database, MAIN, [number], 1)
        life = rows.time_to_live_ms
        operations = publishing(chunk)
        for each in operations:
            # As the broker would say.
            expires_at = None if life is None else Instant(now + life)
            if isinstance(each, Append):
                assert isinstance(each.messages, PackedMessages)
                each.messages.expires_at = expires_at
                each.bytes_max = bytes_max
            elif isinstance(each, PublishChunk):
                each.expires_at, each.bytes_max = expires_at, bytes_max
        self.apply(*operations, now=now)

    def reservations(self, after: int) -> list[Reservation]:
        """Return what the reader has reserved behind a position."""
        key = ReaderKey(MAIN, READER, TOKEN)
        return find_reservations(self.database, key, after, ALL, ALL)

    def scan(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return all that scans find, as bulk readers see it."""
        found: list[dict[str, Any]] = []
        following: int | None = 0
        with closing(open_scan_connection(self.path, None)) as connection:
            while following is not None:
                request = Scan(
                    MAIN, following, 1 << 48, **{"count_max": 5, "bytes_max": ROOMY, **wanted}
                )
                try:
                    scanned = connection.scan(request)
                except Suspicious:
                    scanned = self.make(partial(scan_carefully, request=request))
                found += record_batch(scanned, SHOWN, is_partitioned=False).to_pylist()
                following = scanned.next_sequence
        return found


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


@pytest.fixture
def side(tmp_path: Path) -> Iterator[Side]:
    made = Side(tmp_path, keeps_packs=True)
    yield made
    made.database.close()


def rows(side: Side, table: str) -> int:
    [(count,)] = side.database.execute(f"SELECT count(*) FROM {table}").fetchall()  # noqa: S608 - ours
    assert isinstance(count, int)
    return count


def acquired(side: Side, count: int = 100) -> list[bytes]:
    wish = Acquire(MAIN, count, ROOMY, Instant(NOON + LOCK_MS), 1)
    found = side.make(lambda database: reading.acquire(database, wish, NOON))
    return [each.content[-1:] for each in found]


def test_what_was_written_in_bulk_is_one_row_until_somebody_receives(side: Side) -> None:
    side.publish(1, columns_of(range(5)), NOON, ROOMY)
    side.publish(2, columns_of(range(5, 9)), NOON, ROOMY)
    assert len(side.scan()) == 9
    assert (rows(side, "pack"), rows(side, "message"), rows(side, "staged")) == (2, 0, 2)
    assert acquired(side, 2) == [b"0", b"1"]
    assert (rows(side, "pack"), rows(side, "message"), rows(side, "staged")) == (1, 5, 1)
    assert acquired(side) == [b"2", b"3", b"4", b"5", b"6", b"7", b"8"]
    assert (rows(side, "pack"), rows(side, "message"), rows(side, "staged")) == (0, 9, 0)


def test_a_part_of_a_pack_is_reserved_without_rows_and_the_chunk_goes_with_the_last(
    side: Side,
) -> None:
    side.publish(1, columns_of(range(5)), NOON, ROOMY)
    side.apply(OpenReader(MAIN, READER, TOKEN, NOON, None, 9), now=NOON)
    for position, count in ((0, 2), (1, 40)):
        side.apply(Reserve(MAIN, READER, TOKEN, position, count, ROOMY), now=NOON)
    assert (rows(side, "pack"), rows(side, "message"), rows(side, "staged")) == (2, 0, 1)
    assert [each["body"] for each in side.scan(reservation=1)] == [b"0", b"1"]
    assert [each["body"] for each in side.scan(reservation=2)] == [b"2", b"3", b"4"]
    side.apply(CommitReserved(MAIN, READER, TOKEN, 1), now=NOON)
    assert (rows(side, "pack"), rows(side, "staged")) == (1, 1)
    assert [each["body"] for each in side.scan()] == [b"2", b"3", b"4"]
    side.apply(CommitReserved(MAIN, READER, TOKEN, 2), now=NOON)
    assert (rows(side, "pack"), rows(side, "message"), rows(side, "staged")) == (0, 0, 0)
    assert reading.counts(side.database, MAIN) == QueueCounts(0, 0)


def test_several_packs_are_reserved_and_done_with_in_one_turn(side: Side) -> None:
    for number in range(1, 12):
        side.publish(number, columns_of(range(3)), NOON, ROOMY)
    side.apply(OpenReader(MAIN, READER, TOKEN, NOON, None, 9), now=NOON)

    def reserved(after: int, count: int) -> tuple[int, int]:
        [made] = side.apply(Reserve(MAIN, READER, TOKEN, after, count, ROOMY), now=NOON)
        assert isinstance(made, Reserved)
        return made.position, made.messages

    # Two as a whole; the third does not fit, and is cut when it is its turn.
    assert reserved(0, 8) == (2, 6)
    assert reserved(2, 2) == (3, 2)
    # The rest of it, and whole ones behind it, as many as a turn may have.
    assert reserved(3, 1000) == (3 + PACKS_TOGETHER_MAX, 1 + 3 * (PACKS_TOGETHER_MAX - 1))
    # Asked again, one after the other.
    assert reserved(3, 1000) == (4, 1)
    assert side.apply(CommitReserved(MAIN, READER, TOKEN, 11), now=NOON) == [PACKS_TOGETHER_MAX]
    assert side.apply(CommitReserved(MAIN, READER, TOKEN, 11), now=NOON) == [11]
    assert (rows(side, "pack"), rows(side, "message"), rows(side, "staged")) == (1, 0, 1)
    assert rows(side, "reservation") == 0


def test_packs_behind_free_rows_wait_for_these(side: Side) -> None:
    side.publish(1, columns_of(range(3)), NOON, ROOMY)
    side.apply(Append(MAIN, [Message(b"between")], ROOMY), now=NOON)
    side.publish(2, columns_of(range(3)), NOON, ROOMY)
    side.apply(OpenReader(MAIN, READER, TOKEN, NOON, None, 9), now=NOON)
    [first] = side.apply(Reserve(MAIN, READER, TOKEN, 0, 100, ROOMY), now=NOON)
    [second] = side.apply(Reserve(MAIN, READER, TOKEN, 1, 100, ROOMY), now=NOON)
    assert isinstance(first, Reserved)
    assert isinstance(second, Reserved)
    assert (first.messages, second.messages) == (3, 1)


def test_packs_stay_while_rows_before_them_are_enough(side: Side) -> None:
    side.apply(Append(MAIN, [Message(b"%d" % number) for number in range(5)], ROOMY), now=NOON)
    side.publish(1, columns_of(range(5, 8)), NOON, ROOMY)
    assert acquired(side, 2) == [b"0", b"1"]
    shown = side.make(lambda database: reading.browse(database, MAIN, 0, (4, ROOMY)))
    assert len(shown) == 4
    side.apply(OpenReader(MAIN, READER, TOKEN, NOON, None, 9), now=NOON)
    [made] = side.apply(Reserve(MAIN, READER, TOKEN, 0, 40, ROOMY), now=NOON)
    assert isinstance(made, Reserved)
    assert made.messages == 3
    assert (rows(side, "pack"), rows(side, "message")) == (1, 5)


def test_what_is_reserved_as_a_whole_is_read_and_deleted_without_rows(side: Side) -> None:
    side.publish(1, columns_of(range(5)), NOON, ROOMY)
    side.apply(OpenReader(MAIN, READER, TOKEN, NOON, None, 9), now=NOON)
    wish = Reserve(MAIN, READER, TOKEN, 0, 5, ROOMY)
    assert side.apply(wish, now=NOON) == side.apply(wish, now=NOON)
    assert acquired(side) == []
    assert [each["body"] for each in side.scan(reservation=1)] == [b"0", b"1", b"2", b"3", b"4"]
    assert rows(side, "message") == 0
    side.apply(CommitReserved(MAIN, READER, TOKEN, 1), now=NOON)
    assert (rows(side, "pack"), rows(side, "message"), rows(side, "staged")) == (0, 0, 0)
    assert reading.counts(side.database, MAIN) == QueueCounts(0, 0)


@pytest.mark.parametrize("is_committed", [False, True], ids=["given-back", "committed"])
def test_what_is_reserved_as_a_whole_stays_so_when_it_becomes_rows(
    side: Side, *, is_committed: bool
) -> None:
    side.publish(1, columns_of(range(5)), NOON, ROOMY)
    side.apply(OpenReader(MAIN, READER, TOKEN, NOON, None, 9), now=NOON)
    side.apply(Reserve(MAIN, READER, TOKEN, 0, 5, ROOMY), now=NOON)
    shown = side.make(lambda database: reading.browse(database, MAIN, 2, (2, ROOMY)))
    assert [each.state for each in shown] == [MessageState.RESERVED] * 2
    assert rows(side, "message") == 5
    assert acquired(side) == []
    assert [each["body"] for each in side.scan(reservation=1)] == [b"0", b"1", b"2", b"3", b"4"]
    if is_committed:
        side.apply(CommitReserved(MAIN, READER, TOKEN, 1), now=NOON)
    else:
        side.apply(GiveBack(MAIN, READER, None, TOKEN), now=NOON)
    assert len(acquired(side)) == (0 if is_committed else 5)


def test_staged_bytes_are_those_that_are_not_published(side: Side) -> None:
    side.apply(KeepChunk(MAIN, 1, 0, columns_of([1]), ROOMY), now=NOON)
    staged = staging.staged_tally(side.database).bytes
    assert staged > 0
    side.publish(2, columns_of([2]), NOON, ROOMY)
    assert staging.staged_tally(side.database).bytes == staged


def test_packs_go_with_their_entity(side: Side) -> None:
    for number in range(1, 7):
        side.publish(number, columns_of(range(3)), NOON, ROOMY)
    while not side.make(lambda database: catalog.remove_entity(database, EntityNumber(1), 10)):
        continue
    assert (rows(side, "pack"), rows(side, "message"), rows(side, "staged")) == (0, 0, 0)


@pytest.mark.parametrize("column", ["length", "size", "enqueued_at", "chunk", "start", "checksum"])
def test_a_damaged_pack_is_set_aside_once_and_the_others_go_on(
    side: Side, caplog: pytest.LogCaptureFixture, column: str
) -> None:
    side.publish(1, columns_of(range(5)), NOON, ROOMY)
    side.publish(2, columns_of(range(5, 8)), NOON, ROOMY)
    side.database.execute(
        f"UPDATE pack SET {column} = {column} + 1"  # noqa: S608 - ours
        " WHERE first = (SELECT min(first) FROM pack)"
    )
    with caplog.at_level(logging.ERROR):
        assert acquired(side) == [b"5", b"6", b"7"]
        assert acquired(side) == []
    assert caplog.text.count("damaged on disk") == 1


@pytest.mark.parametrize("column", ["fields", "sizes", "contents", "ordinal", "messages"])
@pytest.mark.parametrize("is_scanned", [False, True], ids=["received", "scanned"])
def test_a_pack_whose_chunk_is_damaged_is_never_shown(
    side: Side, column: str, *, is_scanned: bool
) -> None:
    side.publish(1, columns_of(range(5)), NOON, ROOMY)
    side.publish(2, columns_of(range(5, 8)), NOON, ROOMY)
    spoiled = {
        "fields": "replace(fields, ': ', ':  ')",
        "ordinal": "ordinal + 1",
        "messages": "messages + 1",
    }.get(column, f"CAST(substr({column}, 1, 300) || x'5A' || substr({column}, 302) AS BLOB)")
    side.database.execute(f"UPDATE staged SET {column} = {spoiled} WHERE id = 1")  # noqa: S608 - ours
    if is_scanned:
        assert [each["body"] for each in side.scan()] == [b"5", b"6", b"7"]
    else:
        assert acquired(side) == [b"5", b"6", b"7"]


@pytest.mark.parametrize("table", ["pack", "staged"])
def test_a_damaged_pack_that_is_reserved_is_not_shown_and_is_done_with_like_others(
    side: Side, table: str
) -> None:
    side.publish(1, columns_of(range(5)), NOON, ROOMY)
    side.apply(OpenReader(MAIN, READER, TOKEN, NOON, None, 9), now=NOON)
    side.apply(Reserve(MAIN, READER, TOKEN, 0, 5, ROOMY), now=NOON)
    side.database.execute(f"UPDATE {table} SET checksum = checksum + 1")  # noqa: S608 - ours
    assert side.scan(reservation=1) == []
    side.apply(CommitReserved(MAIN, READER, TOKEN, 1), now=NOON)
    assert (rows(side, "pack"), rows(side, "message"), rows(side, "staged")) == (0, 0, 0)
    assert reading.counts(side.database, MAIN) == QueueCounts(0, 0)


def test_a_pack_that_cannot_be_cut_because_it_is_damaged_is_set_aside(side: Side) -> None:
    side.publish(1, columns_of(range(5)), NOON, ROOMY)
    side.publish(2, columns_of(range(5, 8)), NOON, ROOMY)
    side.database.execute("UPDATE staged SET checksum = checksum + 1 WHERE id = 1")
    side.apply(OpenReader(MAIN, READER, TOKEN, NOON, None, 9), now=NOON)
    side.apply(Reserve(MAIN, READER, TOKEN, 0, 2, ROOMY), now=NOON)
    assert [each["body"] for each in side.scan(reservation=1)] == [b"5", b"6"]


def test_a_chunk_of_columns_that_is_damaged_before_it_is_published_is_lost(side: Side) -> None:
    side.apply(KeepChunk(MAIN, 1, 0, columns_of([1]), ROOMY), now=NOON)
    side.database.execute("UPDATE staged SET fields = replace(fields, ': ', ':  ')")
    [chunk] = staging.next_chunks(side.database, MAIN, [1], 5)
    assert (chunk.messages, chunk.message_count) == (None, 1)


def test_chunks_come_together_as_far_as_they_can_be_published_as_they_are(side: Side) -> None:
    for ordinal in range(4):
        side.apply(KeepChunk(MAIN, 1, ordinal, columns_of([ordinal]), ROOMY), now=NOON)
    side.database.execute("UPDATE staged SET checksum = checksum + 1 WHERE ordinal = 2")
    assert len(staging.next_chunks(side.database, MAIN, [1], 9)) == 2
    assert len(staging.next_chunks(side.database, MAIN, [1], 1)) == 1
    assert staging.next_chunks(side.database, QueueNumber(MAIN), [2], 9) == []
