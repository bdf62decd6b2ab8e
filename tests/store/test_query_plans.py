"""Every statement searches by an index and never scans messages or bodies."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from bendybus.model.ids import Instant
from bendybus.store.port import Acquire
from bendybus.store.sql import reading
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.statements import STATEMENTS
from bendybus.testing.store_contract.subject import LOCK_MS, MAIN, ROOMY, after
from tests.store.test_growth import BATCH, SMALL, fill, put_entities

FULL_SCAN = re.compile(r"SCAN (message|body|queue|seen)\b")
SORT = re.compile(r"USE TEMP B-TREE")
# What these sort has a bound of its own.
SORTED_WITHIN_BOUNDS = {"count_locked"}
READ_AT_START_ONLY = {
    "entities",
    "versions",
    "queues",
    "logged_ids",
    "queues_with_runs",
    "queues_with_packs",
    "occupied",
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = open_database(tmp_path / "store.db", Pacing())
    put_entities(database)
    yield database
    database.close()


def plan(database: SqliteDatabase, statement: str) -> list[str]:
    """Return how SQLite would go about a statement."""
    count = max([0, *(int(number) for number in re.findall(r"\?(\d+)", statement))])
    rows: Any = database.execute(f"EXPLAIN QUERY PLAN {statement}", (None,) * count)
    return [detail for _, _, _, detail in rows]


def lines_with(pattern: re.Pattern[str], database: SqliteDatabase) -> dict[str, list[str]]:
    """Return the lines of all plans that match, by the statement's name."""
    plans = {
        name: plan(database, statement)
        for name, statement in STATEMENTS.items()
        if name not in READ_AT_START_ONLY
    }
    return {
        name: bad
        for name, lines in plans.items()
        if (bad := [line for line in lines if pattern.match(line)])
    }


def test_every_statement_searches_by_an_index(database: SqliteDatabase) -> None:
    fill(database, SMALL)
    assert lines_with(FULL_SCAN, database) == {}


def test_nothing_is_sorted_that_an_index_has_in_order(database: SqliteDatabase) -> None:
    fill(database, SMALL)
    assert lines_with(SORT, database).keys() <= SORTED_WITHIN_BOUNDS


def test_a_scan_would_be_found(database: SqliteDatabase) -> None:
    assert FULL_SCAN.match(plan(database, "SELECT * FROM message WHERE size = ?1")[0])


def test_no_statement_is_planned_anew_for_other_values(database: SqliteDatabase) -> None:
    fill(database, SMALL)
    planned: list[int] = []

    def note(code: int, *_: object) -> int:
        planned.append(code)
        return apsw.SQLITE_OK

    # Asked while a statement is planned, and only then.
    database.connection.authorizer = note
    for minutes in range(3):
        planned.clear()
        now = after(minutes * 60)
        assert reading.due(database, now, BATCH) == []
        until = Instant(now + 9 * LOCK_MS)
        assert len(reading.acquire(database, Acquire(MAIN, BATCH, ROOMY, until, 1), now)) == BATCH
    assert planned == []
