"""A commit of one plain append is one statement; all else is done in parts, and no less whole."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from bendybus.model.digests import digest_of_plain
from bendybus.model.errors import QuotaExceeded
from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.operations import Append
from bendybus.model.plain_messages import PlainMessages
from bendybus.store.sql import applying, reading
from bendybus.store.sql.appending import append
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.failures import SqliteFailures
from bendybus.store.sqlite.shared_database import open_shared
from bendybus.store.sqlite.statements import STATEMENTS
from bendybus.testing.store_contract.subject import MAIN, NOON, ROOMY, after
from tests.store.test_growth import put_entities

SINCE = Instant(NOON - 60_000)
PLAIN = [Message(b"a", "1"), Message(b"b", "2")]
ENDING = [Message(b"c", "3", expires_at=after(60))]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = open_database(tmp_path / "store.db", Pacing())
    put_entities(database)
    yield database
    database.close()


@contextmanager
def statements_of(database: SqliteDatabase) -> Iterator[list[str]]:
    """Note the statements that are run meanwhile, those that have a name by it."""
    names = {text: name for name, text in STATEMENTS.items()}
    run: list[str] = []

    def note(event: dict[str, object]) -> None:
        if not event["trigger"]:
            text = str(event["sql"]).strip()
            run.append(names.get(text, text))

    database.connection.trace_v2(apsw.SQLITE_TRACE_STMT, note)
    try:
        yield run
    finally:
        database.connection.trace_v2(0, None)


def commit_one(
    database: SqliteDatabase, messages: Sequence[Message], bytes_max: int = ROOMY
) -> int:
    """Append as the only work of a commit; return the first number."""
    database.begin_one(is_synced=False)
    first = append(database, Append(MAIN, messages, bytes_max, duplicates_since=SINCE), NOON)
    database.commit()
    return first


def contents_in(path: Path) -> list[bytes]:
    """Return what a file holds that nobody has open."""
    database = open_database(path, Pacing())
    found = reading.browse(database, MAIN, 0, (100, ROOMY))
    database.close()
    return [message.content for message in found]


def test_a_plain_append_is_a_look_and_one_statement(database: SqliteDatabase) -> None:
    with statements_of(database) as run:
        assert commit_one(database, PLAIN) == 1
    assert run == ["find_room", "append_whole"]


def test_columns_are_one_statement_too_and_the_same_rows(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    columns = PlainMessages([b"a", b"b"], [digest_of_plain(b"1"), digest_of_plain(b"2")])
    with statements_of(database) as run:
        assert commit_one(database, columns) == 1
        assert commit_one(database, PLAIN) == 0, "both came before"
    assert run == ["find_room", "append_whole"]
    database.close()
    assert contents_in(tmp_path / "store.db") == [b"a", b"b"]


def test_who_has_just_appended_need_not_look(database: SqliteDatabase) -> None:
    with statements_of(database) as run:
        firsts = [commit_one(database, [Message(b"a", each)]) for each in "123"]
    assert firsts == [1, 2, 3]
    assert run == ["find_room", *["append_whole"] * 3]


def test_who_has_just_appended_knows_how_much_there_is(database: SqliteDatabase) -> None:
    commit_one(database, PLAIN)
    size = reading.counts(database, MAIN).bytes
    commit_one(database, [Message(b"d", "4")])
    with statements_of(database) as run, pytest.raises(QuotaExceeded):
        commit_one(database, [Message(b"e", "5"), Message(b"f", "6")], bytes_max=2 * size)
    assert run[0] == "BEGIN IMMEDIATE", "to say how much there is"
    database.undo()
    assert commit_one(database, [Message(b"e", "5")], bytes_max=2 * size) == 4


def test_who_appends_after_anybody_else_looks_again(database: SqliteDatabase) -> None:
    commit_one(database, PLAIN)
    database.begin(is_synced=False)
    applying.make(database, Append(MAIN, PLAIN, ROOMY), NOON)
    database.commit()
    assert commit_one(database, [Message(b"d", "4")]) == 1 + 2 * len(PLAIN)


def test_duplicates_alone_are_no_statement_at_all(database: SqliteDatabase) -> None:
    commit_one(database, PLAIN)
    with statements_of(database) as run:
        assert commit_one(database, PLAIN) == 0
    assert run == []


def test_what_has_fields_is_appended_in_parts(database: SqliteDatabase) -> None:
    with statements_of(database) as run:
        commit_one(database, ENDING)
    assert run[:2] == ["BEGIN IMMEDIATE", "log_seen"]
    assert run[-1] == "COMMIT"
    assert "append_whole" not in run
    assert commit_one(database, ENDING) == 0


def test_what_follows_a_whole_append_finds_it(database: SqliteDatabase, tmp_path: Path) -> None:
    database.begin_one(is_synced=True)
    append(database, Append(MAIN, PLAIN, ROOMY, duplicates_since=SINCE), NOON)
    assert reading.counts(database, MAIN).messages == len(PLAIN)
    database.commit()
    database.close()
    assert contents_in(tmp_path / "store.db") == [b"a", b"b"]


@pytest.mark.parametrize("messages", [PLAIN, ENDING], ids=["whole", "in parts"])
def test_an_append_that_is_undone_leaves_nothing(
    database: SqliteDatabase, messages: list[Message]
) -> None:
    with pytest.raises(QuotaExceeded):
        commit_one(database, messages, bytes_max=1)
    database.undo()
    database.commit()
    assert reading.counts(database, MAIN).messages == 0
    assert commit_one(database, messages) == 1, "its ids were not remembered, nor its numbers"


def test_an_id_that_was_seen_long_ago_counts_from_then_if_seeing_it_again_is_undone(
    database: SqliteDatabase,
) -> None:
    commit_one(database, PLAIN)
    later = Append(MAIN, PLAIN, bytes_max=1, duplicates_since=after(60))
    database.begin_one(is_synced=False)
    with pytest.raises(QuotaExceeded):
        append(database, later, after(120))
    database.undo()

    database.begin_one(is_synced=False)
    first = append(database, replace(later, bytes_max=ROOMY), after(121))
    database.commit()

    assert first == 1 + len(PLAIN), "it was not seen at the time of what was undone"


def test_a_whole_append_that_is_undone_before_its_commit_leaves_nothing(
    database: SqliteDatabase,
) -> None:
    database.begin_one(is_synced=True)
    append(database, Append(MAIN, PLAIN, ROOMY, duplicates_since=SINCE), NOON)
    database.undo()
    database.commit()
    assert reading.counts(database, MAIN).messages == 0
    assert commit_one(database, PLAIN) == 1


def test_a_value_that_no_column_takes_is_the_callers_defect(database: SqliteDatabase) -> None:
    failures = SqliteFailures()
    database.begin_one(is_synced=True)
    append(database, Append(MAIN, PLAIN, ROOMY), Instant(1 << 70))
    with pytest.raises(apsw.MismatchError) as raised:
        database.commit()
    assert failures.is_of_request(raised.value)
    assert failures.is_unwritten(raised.value)
    database.undo()
    assert commit_one(database, PLAIN) == 1


def test_ids_are_known_when_the_file_is_opened_again(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    commit_one(database, PLAIN)
    database.close()
    again = open_database(tmp_path / "store.db", Pacing())
    assert commit_one(again, PLAIN) == 0
    again.close()


def test_who_shares_a_file_begins_at_once(tmp_path: Path) -> None:
    shared = open_shared(tmp_path / "store.db", Pacing())
    put_entities(shared)
    with statements_of(shared) as run:
        shared.begin_one(is_synced=False)
        append(shared, Append(MAIN, PLAIN, ROOMY), NOON)
        shared.commit()
    shared.close()
    assert "BEGIN IMMEDIATE" in run
    assert "append_whole" not in run


def test_of_several_operations_none_is_the_whole(database: SqliteDatabase) -> None:
    database.begin(is_synced=True)
    with statements_of(database) as run:
        applying.make_all(database, [Append(MAIN, PLAIN, ROOMY)] * 2, NOON)
        database.commit()
    assert "append_whole" not in run
    assert reading.counts(database, MAIN).messages == 2 * len(PLAIN)
