"""Packs: what was written in bulk stays columns, and nobody can tell it from rows of messages."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from bendybus.model.ids import EntityNumber, Instant, QueueNumber
from bendybus.model.message import Message, MessageState
from bendybus.model.operations import (
    Append,
    CommitReserved,
    GiveBack,
    OpenReader,
    Reserve,
    Reserved,
)
from bendybus.model.staging import KeepChunk
from bendybus.store.port import Acquire, QueueCounts
from bendybus.store.sql import catalog, reading, staging
from bendybus.store.sql.reserving import PACKS_TOGETHER_MAX
from bendybus.testing.store_contract.packed_rows import columns_of
from bendybus.testing.store_contract.subject import LOCK_MS, MAIN, NOON, ROOMY
from tests.store.pack_store import READER, TOKEN, Side


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


def test_who_wants_whole_packs_alone_is_told_of_one_that_is_more(side: Side) -> None:
    side.publish(1, columns_of(range(5)), NOON, ROOMY)
    side.apply(OpenReader(MAIN, READER, TOKEN, NOON, None, 9), now=NOON)
    [refused] = side.apply(Reserve(MAIN, READER, TOKEN, 0, 4, ROOMY, is_whole=True), now=NOON)
    assert isinstance(refused, Reserved)
    assert (refused.position, refused.messages, rows(side, "pack")) == (0, 0, 1)
    [made] = side.apply(Reserve(MAIN, READER, TOKEN, 0, 5, ROOMY, is_whole=True), now=NOON)
    assert made == Reserved(1, 5, refused.bytes)


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


def test_none_are_reserved_from_the_number_on_that_ends_it(side: Side) -> None:
    for number in range(1, 4):
        side.publish(number, columns_of(range(3)), NOON, ROOMY)
    end = side.scan()[4]["sequence_number"]
    side.apply(OpenReader(MAIN, READER, TOKEN, NOON, None, 9), now=NOON)
    made = []
    for after in range(3):
        made += side.apply(Reserve(MAIN, READER, TOKEN, after, 100, ROOMY, end), now=NOON)
    assert [each.messages for each in made if isinstance(each, Reserved)] == [3, 1, 0]


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
