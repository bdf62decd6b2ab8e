"""A store moves to another place while it changes, and nothing of any table is lost or left."""

import asyncio
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw
import psycopg
import pytest

from bendybus.model.errors import StoreMismatch, StoreRefused
from bendybus.store.identity import StoreIdentity
from bendybus.store.moving.moving import MoveFailed, Progress, move
from bendybus.store.moving.tables import SEEN, TABLES, MovedTable, Row
from bendybus.store.postgres.connecting import connect
from bendybus.store.postgres.identity import StoreMoved, check_or_claim
from bendybus.store.postgres.locks import TAKE_TURN
from bendybus.store.postgres.migrating import make_tables
from bendybus.store.postgres.moving_from import PostgresSource
from bendybus.store.postgres.moving_to import PostgresTarget
from bendybus.store.postgres.texts import from_store
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.moving_from import SqliteSource
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.postgres import PostgresServer

IDENTITY: Final = StoreIdentity("cluster", 3, 4, ("ns",))
ROWS: Final = 700
# Columns that must be what they are, or tell rows apart.
FIXED: Final[dict[str, Any]] = {"kind": "queue", "topic": None, "places": "[]", "next_counter": 1}
UNIQUE: Final = frozenset({"name", "nonce", "fragment", "position"})
TEXTS: Final = ("", "plain", "nul\0within", "\uffff0", "ünï©ode ∑")


def made_row(table: MovedTable, number: int, types: dict[str, str], rng: random.Random) -> Row:
    """Make a row of any table, with a key of its own."""
    values: list[Any] = []
    for column in table.columns:
        kind = types[column]
        if column in FIXED:
            values.append(FIXED[column])
        elif kind == "text":
            is_own = column in table.key or column in UNIQUE
            text = TEXTS[number % len(TEXTS)] if is_own else rng.choice(TEXTS)
            values.append(f"{number}{text}" if is_own else text)
        elif kind == "bytea":
            length = rng.choice((0, 5, 3000))
            values.append(number.to_bytes(12, "big") if table is SEEN else rng.randbytes(length))
        else:
            is_own = column in table.key or column in UNIQUE
            values.append(number if is_own else rng.randint(0, 1 << 40))
    return tuple(values)


class Changing:
    """A store in one of the engines, and somebody who changes all of its tables."""

    def __init__(self, types: dict[tuple[str, str], str], rng: random.Random) -> None:
        self._types = types
        self._rng = rng
        self._next = {table.name: 0 for table in (*TABLES, SEEN)}

    def new_row(self, table: MovedTable) -> Row:
        self._next[table.name] += 1
        types = {column: self._types[table.name, column] for column in table.columns}
        return made_row(table, self._next[table.name], types, self._rng)

    def any_key(self, table: MovedTable) -> Row:
        """Return a row with a key that may be there, all else new."""
        types = {column: self._types[table.name, column] for column in table.columns}
        number = self._rng.randint(1, self._next[table.name])
        return made_row(table, number, types, self._rng)


def change_sqlite(database: SqliteDatabase, changing: Changing, times: int) -> None:
    for _ in range(times):
        for table in TABLES:
            columns = ", ".join(table.columns)
            marks = ", ".join("?" * len(table.columns))
            insert = f"INSERT INTO {table.name} ({columns}) VALUES ({marks})"
            database.execute(insert, changing.new_row(table))
            change_one(database.execute, table, changing.any_key(table), "?")
        digests = b"".join(changing.new_row(SEEN)[1] for _ in range(3))
        database.execute(
            "INSERT INTO seen (queue, seen_at, digests) VALUES (1, 5, ?)", (digests,)
        )


def change_postgres(
    connection: "psycopg.Connection[Any]", changing: Changing, times: int
) -> None:
    def execute(text: str, values: Sequence[Any]) -> object:
        return connection.execute(text.encode(), [as_kept(value) for value in values])

    with connection.transaction():
        connection.execute(TAKE_TURN)
        for _ in range(times):
            for table in (*TABLES, SEEN):
                columns = ", ".join(table.columns)
                marks = ", ".join(["%s"] * len(table.columns))
                always = "OVERRIDING SYSTEM VALUE"
                row = changing.new_row(table)
                execute(f"INSERT INTO {table.name} ({columns}) {always} VALUES ({marks})", row)
                change_one(execute, table, changing.any_key(table), "%s")


def as_kept(value: object) -> object:
    return value.replace("\0", "") if isinstance(value, str) else value


def change_one(execute: Any, table: MovedTable, row: Row, mark: str) -> None:
    """Delete a row that may be there, or change what is not its key."""
    same = " AND ".join(f"{column} = {mark}" for column in table.key)
    key = table.key_of(row)
    if hash(key) % 3 or not table.others:
        execute(f"DELETE FROM {table.name} WHERE {same}", key)
        return
    sets = ", ".join(f"{column} = {mark}" for column in table.others if column not in UNIQUE)
    values = [
        value
        for column, value in zip(table.columns, row, strict=True)
        if column in table.others and column not in UNIQUE
    ]
    execute(f"UPDATE {table.name} SET {sets} WHERE {same}", (*values, *key))


def rows_there(connection: "psycopg.Connection[Any]", table: MovedTable) -> set[Row]:
    found = connection.execute(f"SELECT {', '.join(table.columns)} FROM {table.name}".encode())
    return {
        tuple(from_store(value) if isinstance(value, str) else value for value in row)
        for row in found.fetchall()
    }


def rows_in_file(path: Path, table: MovedTable) -> set[Row]:
    with closing(apsw.Connection(str(path))) as connection:
        return set(
            connection.execute(f"SELECT {', '.join(table.columns)} FROM {table.name}").fetchall()
        )


def seen_in_file(path: Path) -> set[Row]:
    with closing(apsw.Connection(str(path))) as connection:
        rows = connection.execute("SELECT queue, seen_at, digests FROM seen").fetchall()
    return {
        (queue, digests[at : at + 12], seen_at)
        for queue, seen_at, digests in rows
        for at in range(0, len(digests), 12)
    }


@pytest.fixture
def target_url(shared_postgres: PostgresServer) -> Iterator[str]:
    with shared_postgres.lent_database() as url:
        yield url


@pytest.fixture
def column_kinds(target_url: str) -> dict[tuple[str, str], str]:
    from bendybus.store.postgres.column_types import column_types

    with closing(connect(target_url)) as connection:
        make_tables(connection, "here")
        return column_types(connection)


async def started(path: Path) -> SqliteStore:
    store = SqliteStore(3, path)
    await store.start()
    return store


def source_of(store: SqliteStore, url: str) -> SqliteSource:
    return SqliteSource(
        store, asyncio.get_running_loop(), store.path.with_name("store-03.url"), url
    )


@pytest.mark.spec("R1.2")
async def test_a_file_moves_to_a_server_while_it_changes(
    tmp_path: Path, target_url: str, column_kinds: dict[tuple[str, str], str]
) -> None:
    rng = random.Random(seed := random.getrandbits(32))
    store = await started(tmp_path / "store-03.db")
    changing = Changing(column_kinds, rng)
    await store.look(lambda db: change_sqlite(db, changing, ROWS))
    progress = Progress()

    def work() -> None:
        with closing(PostgresTarget(target_url, IDENTITY, is_escaped=False)) as target:
            move(source_of_store, target, progress)

    source_of_store = source_of(store, target_url)
    moving = asyncio.ensure_future(asyncio.to_thread(work))
    changes = 0
    while progress.stage == "copying" and not moving.done():
        await store.look(lambda db: change_sqlite(db, changing, 2))
        changes += 1
        await asyncio.sleep(0)
    await moving
    assert changes > 10, "nothing changed while it moved"
    assert progress.caught_up > 10
    assert (tmp_path / "store-03.url").read_text() == f"{target_url}\n"
    check_moved_file(tmp_path / "store-03.db", target_url, seed)


def check_moved_file(path: Path, url: str, seed: int) -> None:
    with closing(connect(url)) as connection:
        for table in TABLES:
            assert rows_there(connection, table) == rows_in_file(path, table), f"{table} {seed}"
        queues = {row[0] for row in rows_there(connection, TABLES[3])}
        kept = {row for row in seen_in_file(path) if row[0] in queues}
        assert rows_there(connection, SEEN) == kept
        given = dict(connection.execute("SELECT kind, highest FROM number_given").fetchall())
        assert given["queue"] >= max(queues)
