"""Files that are not ours, from the future, damaged, full or in use."""

import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import apsw
import pytest

from bendybus.model.errors import StoreUnavailable
from bendybus.model.store_status import StoreState
from bendybus.store.sqlite.database import Pacing, open_database
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.store_contract.subject import ORDERS, contents_of, send

IMPATIENT = Pacing(busy_timeout_ms=1, retry_seconds=0.001)


@asynccontextmanager
async def opened(path: Path, pacing: Pacing = IMPATIENT) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(0, path, pacing=pacing)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


def foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")


def foreign_but_empty(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 7")
        connection.execute("VACUUM")


def from_the_future(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE entity (x)")
        connection.execute(f"PRAGMA application_id = {0x42454E44}")
        connection.execute("PRAGMA user_version = 99")


def with_other_tables(path: Path) -> None:
    open_database(path, Pacing()).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP INDEX message_free")


def with_damaged_queues(path: Path) -> None:
    open_database(path, Pacing()).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO queue (entity, fragment, sub_queue) VALUES (1, 0, 1)")


def not_a_database(path: Path) -> None:
    path.write_bytes(b"certainly not a database " * 400)


UNUSABLE = {
    "another program": (foreign_database, "another program"),
    "another program, empty": (foreign_but_empty, "another program"),
    "the future": (from_the_future, "schema version 99"),
    "other tables": (with_other_tables, "tables that this release did not make"),
    "damaged queues": (with_damaged_queues, "damaged list of queues"),
    "no database": (not_a_database, "SQLITE_NOTADB"),
}


@pytest.mark.parametrize(("make", "reason"), UNUSABLE.values(), ids=UNUSABLE)
async def test_a_file_we_cannot_use_is_named_left_untouched_and_not_retried(
    tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    path = tmp_path / "store.db"
    make(path)
    before = path.read_bytes()
    async with opened(path) as store:
        status = store.status()
        assert status.state is StoreState.FAILED
        assert status.reason is not None
        assert reason in status.reason
        assert not store._lane._is_retried
        with pytest.raises(StoreUnavailable, match=reason):
            await store.entities()
        with pytest.raises(StoreUnavailable, match=reason):
            await store.bring_online()
    assert path.read_bytes() == before


async def test_a_damaged_file_is_not_retried_but_may_be_replaced_and_brought_online(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        await store.put_entities([ORDERS])
        await send(store, *[b"x" * 100] * 500)
    good = path.read_bytes()
    path.write_bytes(good[:4096] + b"\xff" * (len(good) - 4096))
    async with opened(path) as store:
        assert store.status().state is StoreState.FAILED
        assert "SQLITE_CORRUPT" in (store.status().reason or "")
        path.write_bytes(good)
        await store.bring_online()
        assert len(await contents_of(store)) == 500


async def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    async with opened(path) as store:
        assert await store.entities() == []


async def test_a_folder_that_is_missing_is_a_failure_that_heals(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    async with opened(folder / "store.db", Pacing(retry_seconds=3600)) as store:
        assert "SQLITE_CANTOPEN" in (store.status().reason or "")
        assert store.status().size_bytes == 0
        folder.mkdir()
        await store.bring_online()
        assert await store.entities() == []


async def test_while_another_program_holds_the_file_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path, Pacing(busy_timeout_ms=1, retry_seconds=3600)) as store:
        await store.put_entities([ORDERS])
        with closing(apsw.Connection(str(path))) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="SQLITE_BUSY"):
                await send(store, b"a")
            with pytest.raises(StoreUnavailable, match="SQLITE_BUSY"):
                await store.bring_online()
        await store.bring_online()
        assert await contents_of(store) == []
        assert await send(store, b"b") == [1]


async def test_a_reader_in_another_program_stops_neither_commits_nor_write_backs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    async with opened(path, Pacing(log_pages_max=4, busy_timeout_ms=1)) as store:
        await store.put_entities([ORDERS])
        with closing(apsw.Connection(str(path))) as reader:
            reader.execute("BEGIN")
            before = reader.execute("SELECT count(*) FROM message").fetchall()
            for _ in range(20):
                await send(store, b"x" * 5000)
            assert reader.execute("SELECT count(*) FROM message").fetchall() == before
        assert store.is_online
        assert len(await contents_of(store)) == 20


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


@pytest.fixture
def careless() -> Iterator[None]:
    """Whatever is created can be read by everybody, unless its creator says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("careless")
async def test_what_a_store_writes_is_for_its_owner_only(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        await store.put_entities([ORDERS])
        modes = modes_in(tmp_path)
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}


@pytest.mark.usefixtures("careless")
async def test_files_that_others_could_read_are_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path):
        pass
    path.chmod(0o644)
    (tmp_path / "store.db-wal").touch(0o666)
    async with opened(path) as store:
        assert store.is_online
        modes = modes_in(tmp_path)
    assert set(modes.values()) == {0o600}


@pytest.mark.usefixtures("careless")
async def test_a_file_that_is_not_ours_to_close_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    path.touch(0o666)

    def chmod(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "chmod", chmod)
    async with opened(path) as store:
        assert "belongs to somebody else" in str(store.status().reason)
