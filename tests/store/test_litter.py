"""What holders of sessions are done with is deleted from the disk, if not at once."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.operations import Append, Remove
from bendybus.store.port import AcceptSession, Acquire
from bendybus.store.sql import applying, catalog, litter, reading, sessions
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.store_contract.sessions import LEDGERS, SESSIONS
from bendybus.testing.store_contract.subject import LOCK_MS, NOON, ROOMY

UNTIL = Instant(NOON + LOCK_MS)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = open_database(tmp_path / "store.db", Pacing())
    catalog.put_entities(database, 0, [LEDGERS])
    yield database
    database.close()


def consume(database: SqliteDatabase, count: int, *, nonce: int = 1, size: int = 50) -> None:
    """Send messages of a session of their own, receive and complete them."""
    name = f"s{nonce}"
    messages = [Message(b"x" * size, session_id=name) for _ in range(count)]
    applying.make(database, Append(SESSIONS, messages, ROOMY), NOON)
    sessions.accept(database, AcceptSession(SESSIONS, name, UNTIL, nonce), NOON)
    taken = reading.acquire(database, Acquire(SESSIONS, count, ROOMY, UNTIL, nonce, name), NOON)
    remove = Remove(SESSIONS, [message.lock for message in taken])
    assert applying.make(database, remove, NOON) == []


def bodies_left(database: SqliteDatabase) -> int:
    [(count,)] = database.execute("SELECT count(*) FROM body")
    assert isinstance(count, int)
    return count


def test_contents_of_what_was_completed_go_at_the_next_sweep(database: SqliteDatabase) -> None:
    consume(database, 3)
    consume(database, 4, nonce=2)
    assert bodies_left(database) == 7
    assert reading.counts(database, SESSIONS).bytes == 0

    reading.due(database, NOON, 10)

    assert bodies_left(database) == 0
    assert database.execute("SELECT * FROM litter").fetchall() == []


def test_what_was_thrown_away_before_the_store_opened_goes_as_well(tmp_path: Path) -> None:
    database = open_database(tmp_path / "store.db", Pacing())
    catalog.put_entities(database, 0, [LEDGERS])
    consume(database, 3)
    database.close()

    again = open_database(tmp_path / "store.db", Pacing())
    assert bodies_left(again) == 3
    reading.due(again, NOON, 10)
    assert bodies_left(again) == 0
    again.close()


def test_one_turn_deletes_a_bounded_number(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litter, "LITTER_BODIES_MAX", 5)
    for nonce in range(1, 5):
        consume(database, 3, nonce=nonce)
    turns = []
    while bodies_left(database):
        litter.collect(database)
        turns.append(bodies_left(database))
    assert turns == [6, 0]


def test_long_contents_go_at_once(database: SqliteDatabase) -> None:
    consume(database, 3, size=litter.BODY_BYTES_MAX + 1)
    assert bodies_left(database) == 0


@pytest.mark.parametrize("bound", ["LITTER_BODIES_MAX", "LITTER_BYTES_MAX"])
async def test_much_is_deleted_without_waiting_for_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    store = SqliteStore(0, tmp_path / "store.db")
    await store.start()
    await store.put_entities([LEDGERS])
    await store._lane.submit(lambda database: consume(database, 3), is_synced=True)
    await store._lane.submit(lambda database: consume(database, 3, nonce=2), is_synced=True)
    assert await store._lane.submit(bodies_left, is_synced=False) == 6
    monkeypatch.setattr(litter, bound, 5)

    await store._lane.submit(bodies_left, is_synced=False)

    assert await store._lane.submit(bodies_left, is_synced=False) == 0
    await store.close()


def test_a_damaged_list_deletes_nothing_and_holds_up_no_other(
    database: SqliteDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    consume(database, 3)
    consume(database, 4, nonce=2)
    database.execute("UPDATE litter SET bodies = zeroblob(length(bodies)) WHERE id = 1")

    with caplog.at_level(logging.ERROR):
        reading.due(database, NOON, 10)

    assert bodies_left(database) == 3
    assert "damaged" in caplog.text
    assert database.execute("SELECT * FROM litter").fetchall() == []
