"""PostgreSQL's tables are made once, brought forward, and used by old and new releases at once."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest

from bendybus.model.errors import StoreRefused
from bendybus.store.identity import StoreIdentity
from bendybus.store.postgres.connecting import connect
from bendybus.store.postgres.migrating import MIGRATIONS, Migration, make_tables
from bendybus.store.postgres.store import PostgresStore
from bendybus.testing.store_contract.subject import ORDERS, contents_of, lock, send

IDENTITY = StoreIdentity("cluster", 0, 1, ("ours",), may_claim=True)
# What a next release might bring: a column that old ones need not know, and then another table.
KNOWN = MIGRATIONS[-1].version
COLUMN = Migration(KNOWN + 1, 1, "ALTER TABLE message ADD COLUMN colour TEXT DEFAULT 'grey'")
TABLE = Migration(KNOWN + 2, KNOWN + 2, "CREATE TABLE colour (name TEXT PRIMARY KEY)")
WITH_COLUMN = [*MIGRATIONS, COLUMN]
WITH_TABLE = [*WITH_COLUMN, TABLE]


def versions(url: str) -> list[tuple[int, int]]:
    """Return what the database says of its tables."""
    with connect(url) as connection:
        return connection.execute("SELECT version, oldest_reader FROM version").fetchall()


def test_many_front_ends_that_start_at_once_make_the_tables_once(postgres_url: str) -> None:
    def start(_: int) -> None:
        with connect(postgres_url) as connection:
            make_tables(connection, "there", WITH_TABLE)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(start, range(8)))
    assert versions(postgres_url) == [(KNOWN + 2, KNOWN + 2)]


async def test_an_old_front_end_goes_on_while_a_new_one_adds_a_column(postgres_url: str) -> None:
    old = PostgresStore(0, postgres_url, identity=IDENTITY)
    await old.start()
    try:
        await old.put_entities([ORDERS])
        await send(old, b"before")
        with connect(postgres_url) as connection:
            await asyncio.to_thread(make_tables, connection, "there", WITH_COLUMN)
        await send(old, b"after")
        assert [each.content for each in await lock(old)] == [b"before", b"after"]
        # It may be started anew as well.
        await old.take_offline("an upgrade")
        await old.bring_online()
        assert await contents_of(old) == [b"before", b"after"]
        assert old.openings > 1
    finally:
        await old.close()
    assert versions(postgres_url) == [(KNOWN + 1, 1)]


def test_tables_that_only_newer_releases_can_use_are_refused_and_left_alone(
    postgres_url: str,
) -> None:
    with connect(postgres_url) as connection:
        make_tables(connection, "there", WITH_TABLE)
        with pytest.raises(StoreRefused, match="run a newer release"):
            make_tables(connection, "there")
        with pytest.raises(StoreRefused, match=f"knows {KNOWN + 1}"):
            make_tables(connection, "there", WITH_COLUMN)
    assert versions(postgres_url) == [(KNOWN + 2, KNOWN + 2)]


def test_a_migration_that_fails_leaves_everything_as_it_was(postgres_url: str) -> None:
    with connect(postgres_url) as connection:
        make_tables(connection, "there")
        broken = replace(TABLE, sql="CREATE TABLE colour (name TEXT); SELECT nonsense")
        with pytest.raises(psycopg.Error, match="nonsense"):
            make_tables(connection, "there", [*WITH_COLUMN, broken])
        columns = connection.execute(
            "SELECT count(*) FROM information_schema.columns WHERE column_name = 'colour'"
        ).fetchall()
    assert columns == [(0,)]
    assert versions(postgres_url) == [(KNOWN, MIGRATIONS[-1].oldest_reader)]


def test_tables_of_the_first_version_take_a_namespace_when_they_are_brought_forward(
    postgres_url: str,
) -> None:
    with connect(postgres_url) as connection:
        make_tables(connection, "there", [])
        kind = "INSERT INTO entity (number, version, name, kind, properties, places) VALUES (1, 1,"
        made = f"{kind} 'made', 'namespace', '{{}}', '[]')"
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(made.encode())
        make_tables(connection, "there")
        connection.execute(made.encode())
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(f"{kind} 'other', 'nonsense', '{{}}', '[]')".encode())
