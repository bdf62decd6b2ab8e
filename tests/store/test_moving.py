"""A store moves to another place while it changes, and nothing of any table is lost or left."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import apsw
import psycopg
import pytest

from bendybus.model.errors import StoreMismatch, StoreRefused, StoreUnavailable
from bendybus.model.ids import StoreNumber
from bendybus.model.staging import KeepChunk
from bendybus.store.identity import StoreIdentity
from bendybus.store.moving.moving import MoveFailed, Progress, move
from bendybus.store.moving.tables import BODY, SEEN, TABLES, MovedTable, Row
from bendybus.store.port import FragmentPlace
from bendybus.store.postgres.column_types import column_types
from bendybus.store.postgres.connecting import connect
from bendybus.store.postgres.identity import StoreMoved, check_or_claim
from bendybus.store.postgres.locks import TAKE_TURN
from bendybus.store.postgres.migrating import make_tables
from bendybus.store.postgres.moving_from import PostgresSource
from bendybus.store.postgres.moving_to import PostgresTarget
from bendybus.store.postgres.texts import from_store
from bendybus.store.sqlite.database import SqliteDatabase
from bendybus.store.sqlite.moving_from import SqliteSource
from bendybus.store.sqlite.statements import SCHEMA
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.postgres import PostgresServer
from bendybus.testing.store_contract.packed_rows import columns_of
from bendybus.testing.store_contract.staging import publish_next
from bendybus.testing.store_contract.subject import MAIN, NOON, ORDERS, ROOMY

[QUEUE] = [table for table in TABLES if table.name == "queue"]
IDENTITY: Final = StoreIdentity("cluster", 3, 4, ("ns",))
ROWS: Final = 120
CHANGE_SECONDS: Final = 0.004
# Columns that must be what they are, or tell rows apart.
FIXED: Final[dict[str, Any]] = {
    "kind": "queue",
    "topic": None,
    "places": "[]",
    "next_counter": 1,
    "sub_queue": 0,
    "properties": "{}",
}
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

    def some_tables(self) -> Sequence[MovedTable]:
        """Return all tables at first, and some of them while they are moved."""
        if min(self._next[table.name] for table in TABLES) < ROWS:
            return TABLES
        return self._rng.sample(TABLES, 3)

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
        for table in changing.some_tables():
            columns = ", ".join(table.columns)
            marks = ", ".join("?" * len(table.columns))
            insert = f"INSERT INTO {table.name} ({columns}) VALUES ({marks})"
            database.execute(insert, changing.new_row(table))
            change_one(database.execute, table, changing.any_key(table), "?")
        digests = b"".join(changing.new_row(SEEN)[1] for _ in range(3))
        database.execute("INSERT INTO seen (queue, seen_at, digests) VALUES (1, 5, ?)", (digests,))


def change_postgres(connection: "psycopg.Connection[Any]", changing: Changing, times: int) -> None:
    def execute(text: str, values: Sequence[Any]) -> object:
        return connection.execute(text.encode(), [as_kept(value) for value in values])

    with connection.transaction():
        connection.execute(TAKE_TURN)
        for _ in range(times):
            for table in (*changing.some_tables(), SEEN):
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
    # Contents never change.
    if hash(key) % 3 or table is BODY:
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
        rows: list[Row] = connection.execute("SELECT queue, seen_at, digests FROM seen").fetchall()
    return {
        (queue, digests[at : at + 12], seen_at)
        for queue, seen_at, digests in rows
        for at in range(0, len(digests), 12)
    }


def of_queues(seen: set[Row], queues: set[Row]) -> set[Row]:
    """Return the ids that were seen in queues that are still there."""
    numbers = {row[0] for row in queues}
    return {row for row in seen if row[0] in numbers}


@pytest.fixture
def databases(shared_postgres: PostgresServer) -> Iterator[tuple[str, str]]:
    """Two, the first with the tables of a store."""
    with shared_postgres.lent_database() as first, shared_postgres.lent_database() as second:
        with closing(connect(first)) as connection:
            make_tables(connection, "here")
        yield first, second


@pytest.fixture
def changing(databases: tuple[str, str]) -> Changing:
    with closing(connect(databases[0])) as connection:
        return Changing(column_types(connection), random.Random(random.getrandbits(32)))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(3, tmp_path / "store-03.db")
    await store.start()
    yield store
    await store.close()


def moved_to(store: SqliteStore, url: str, progress: Progress) -> Awaitable[None]:
    """Move a store from its file to a database."""
    place = store.path.with_name("store-03.url")
    source = SqliteSource(store, asyncio.get_running_loop(), place, url)

    def work() -> None:
        with closing(PostgresTarget(url, IDENTITY, is_escaped=False)) as target:
            move(source, target, progress)

    return asyncio.ensure_future(asyncio.to_thread(work))


async def change_while(
    moving: "asyncio.Future[None]", store: SqliteStore, changing: Changing
) -> None:
    """Change a file, by this store that is open on it, until it has moved."""
    changes = 0
    while not moving.done():
        change = store.look(lambda db: change_sqlite(db, changing, 1))
        # When the store has left, what is asked for waits until it is at its new place.
        await asyncio.wait({moving, change}, return_when=asyncio.FIRST_COMPLETED)
        changes += 1
        await asyncio.sleep(CHANGE_SECONDS)
    await moving
    assert changes > 5, "nothing changed while it moved"


@pytest.mark.spec("R1.2")
async def test_a_file_moves_to_a_server_while_it_changes(
    store: SqliteStore, databases: tuple[str, str], changing: Changing
) -> None:
    await store.look(lambda db: change_sqlite(db, changing, ROWS))
    progress = Progress()
    moving = asyncio.ensure_future(moved_to(store, databases[1], progress))
    await change_while(moving, store, changing)
    assert progress.caught_up > 10
    assert store.path.with_name("store-03.url").read_text() == f"{databases[1]}\n"
    with closing(connect(databases[1])) as connection:
        check_as_in_file(connection, store.path)


async def test_what_was_written_in_bulk_has_rows_when_it_moves(
    store: SqliteStore, databases: tuple[str, str]
) -> None:
    await store.put_entities([replace(ORDERS, places=(FragmentPlace(StoreNumber(3), MAIN),))])
    for stage in range(1, 4):
        kept = KeepChunk(MAIN, stage, 0, columns_of(range(stage)), ROOMY)
        await store.apply([kept], now=NOON)
        assert await publish_next(store, [stage])
    assert len(await store.look(lambda db: db.rows("queues_with_packs", (44,)))) == 1
    await moved_to(store, databases[1], Progress())
    with closing(connect(databases[1])) as connection:
        for table in ("message", "body"):
            found = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()
            assert found == [(1 + 2 + 3,)], table


async def test_a_store_that_did_not_move_keeps_packs_again(
    store: SqliteStore, databases: tuple[str, str]
) -> None:
    with closing(PostgresTarget(databases[1], IDENTITY, is_escaped=False)):
        source = SqliteSource(store, asyncio.get_running_loop(), Path("url"), databases[1])
        await asyncio.to_thread(source.begin)
        assert not await store.look(lambda db: db.keeps_packs)
        await asyncio.to_thread(source.end)
    assert await store.look(lambda db: db.keeps_packs)


def check_as_in_file(connection: "psycopg.Connection[Any]", path: Path) -> None:
    for table in TABLES:
        assert rows_there(connection, table) == rows_in_file(path, table), table.name
    seen = of_queues(seen_in_file(path), rows_in_file(path, QUEUE))
    assert rows_there(connection, SEEN) == seen
    given = dict(connection.execute("SELECT kind, highest FROM number_given").fetchall())
    with closing(apsw.Connection(str(path))) as file:
        rows: list[Row] = file.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
        before: dict[str, int] = dict(rows)
    assert given == {"entity": before["entity"], "queue": before["queue"]}
    for name, column in (("staged", "id"), ("reservation", "number")):
        [(following,)] = connection.execute(
            f"SELECT nextval(pg_get_serial_sequence('{name}', '{column}'))".encode()
        ).fetchall()
        assert following == before[name] + 1, "a number would be given again"


async def test_a_store_moves_from_server_to_server_while_others_change_it(
    databases: tuple[str, str], changing: Changing
) -> None:
    before, after = databases
    with closing(connect(before)) as other:
        claim = replace(IDENTITY, may_claim=True)
        check_or_claim(other, claim, "here")
        change_postgres(other, changing, ROWS)
        progress = Progress()

        def work() -> None:
            with (
                closing(PostgresSource(before, after)) as source,
                closing(PostgresTarget(after, IDENTITY, is_escaped=True)) as target,
            ):
                move(source, target, progress)

        moving = asyncio.ensure_future(asyncio.to_thread(work))
        changes = 0
        while progress.stage == "copying" and not moving.done():
            change_postgres(other, changing, 1)
            changes += 1
            await asyncio.sleep(CHANGE_SECONDS)
        await moving
        assert changes > 5, "nothing changed while it moved"
        assert progress.caught_up > 10
        with closing(connect(after)) as connection:
            for table in TABLES:
                assert rows_there(connection, table) == rows_there(other, table), table.name
            seen = rows_there(other, SEEN)
            assert rows_there(connection, SEEN) == of_queues(seen, rows_there(other, QUEUE))
        with pytest.raises(StoreMoved) as moved:
            check_or_claim(other, claim, "here")
        assert moved.value.url == after
        [(triggers,)] = other.execute(
            "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'changed_%'"
        ).fetchall()
        assert triggers == 0, "somebody still notes what changes"


async def test_a_move_that_was_cut_off_is_begun_again_and_keeps_the_contents(
    store: SqliteStore, databases: tuple[str, str], changing: Changing
) -> None:
    await store.look(lambda db: change_sqlite(db, changing, ROWS))
    progress = Progress()
    moving = asyncio.ensure_future(moved_to(store, databases[1], progress))
    while True:
        if progress.rows and progress.ends["message"] is None:
            break
        await asyncio.sleep(CHANGE_SECONDS)
    await store.take_offline("to cut it off")
    with pytest.raises((MoveFailed, StoreUnavailable)):
        await moving
    assert not store.path.with_name("store-03.url").exists()
    await store.bring_online()
    await store.look(lambda db: change_sqlite(db, changing, 10))
    again = Progress()
    await moved_to(store, databases[1], again)
    assert again.kept > ROWS // 10
    with closing(connect(databases[1])) as connection:
        check_as_in_file(connection, store.path)


async def test_nobody_serves_a_copy_unless_the_store_has_left_for_it(
    store: SqliteStore, databases: tuple[str, str]
) -> None:
    await moved_to(store, databases[1], Progress())
    with closing(connect(databases[1])) as connection:
        with pytest.raises(StoreMismatch, match="not complete there"):
            check_or_claim(connection, IDENTITY, "here")
        check_or_claim(connection, replace(IDENTITY, follows=True), "here")
        check_or_claim(connection, IDENTITY, "here")


async def test_a_store_moves_only_to_an_empty_database(
    store: SqliteStore, databases: tuple[str, str]
) -> None:
    with closing(connect(databases[0])) as connection:
        check_or_claim(connection, replace(IDENTITY, may_claim=True), "here")
    with pytest.raises(StoreRefused, match="holds a store already"):
        await moved_to(store, databases[0], Progress())
    with closing(PostgresTarget(databases[1], IDENTITY, is_escaped=False)):
        with pytest.raises(MoveFailed, match="somebody else moves"):
            await moved_to(store, databases[1], Progress())
        with pytest.raises(MoveFailed, match="somebody else moves"):
            PostgresSource(databases[1], databases[0])
    await moved_to(store, databases[1], Progress())


def test_every_table_and_column_of_a_store_is_moved(databases: tuple[str, str]) -> None:
    with closing(connect(databases[0])) as connection:
        there = set(column_types(connection))
    moved = {(table.name, column) for table in (*TABLES, SEEN) for column in table.columns}
    of_a_place = {"identity", "generation", "version", "number_given"}
    # Where to look first for free messages; of 0 all are looked at.
    there.remove(("queue", "free_from"))
    assert {each for each in there if each[0] not in of_a_place} == moved
    with closing(apsw.Connection(":memory:")) as file:
        file.execute(SCHEMA)
        names = [name for (name,) in file.execute("SELECT name FROM pragma_table_list")]
        kept = {
            (name, column)
            for name in names
            if not name.startswith("sqlite_")
            for (column,) in file.execute("SELECT name FROM pragma_table_info(?)", (name,))
        }
    # Packs become rows before a store moves.
    assert {each for each in kept if each[0] not in {"seen", "generation", "pack"}} == {
        each for each in moved if each[0] != SEEN.name
    }
