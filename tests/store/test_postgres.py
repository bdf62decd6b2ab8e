"""The shipped contract, on a PostgreSQL database."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from bendybus.model.ids import COUNTER_MASK, QueueNumber
from bendybus.store.identity import StoreIdentity
from bendybus.store.port import Store
from bendybus.store.postgres.store import Pacing, PostgresStore
from bendybus.store.sharing import Heard
from bendybus.store.sql.database import COUNTER_BITS_HERE
from bendybus.testing.postgres import PostgresServer
from bendybus.testing.store_contract import StoreContract, StoreMaker
from bendybus.testing.store_contract.sharing import Joiner, SharingContract

HASTY = Pacing(retry_seconds=0.01, beat_seconds=0.02)
IDENTITY = StoreIdentity("cluster", 0, 1, ("sbemulatorns",), may_claim=True)


class PostgresMaker:
    """Opens one database again and again, and spoils it through a session of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._store: PostgresStore | None = None

    async def __call__(self) -> PostgresStore:
        await self.close()
        self._store = PostgresStore(0, self._url, identity=IDENTITY)
        await self._store.start()
        return self._store

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()

    def spoil_content(self, queue: QueueNumber, sequence: int) -> None:
        """Flip the lowest bit of the first byte."""
        self._one(
            "UPDATE body SET content = set_byte(content, 0, get_byte(content, 0) # 1)"
            " WHERE id = %s RETURNING 1",
            self._body(queue, sequence),
        )

    def lose_content(self, queue: QueueNumber, sequence: int) -> None:
        self._one("DELETE FROM body WHERE id = %s RETURNING 1", self._body(queue, sequence))

    def spoil_marks(self, queue: QueueNumber, sequence: int) -> None:
        self._one(
            "UPDATE message SET marks = replace(marks, 'reas', 'seas') WHERE id = %s RETURNING 1",
            _row(queue, sequence),
        )

    def spoil_chunk(self, chunk: int) -> None:
        self._one(
            "UPDATE staged SET contents = set_byte(contents, 0, get_byte(contents, 0) # 1)"
            " WHERE id = %s RETURNING 1",
            chunk,
        )

    def contents_left(self) -> int:
        """Count the contents in the database, whoever they belong to."""
        return int(self._one("SELECT count(*) FROM body"))

    def _body(self, queue: QueueNumber, sequence: int) -> int:
        """Return the row of a message's content, which is another than its own once it moved."""
        return int(self._one("SELECT body FROM message WHERE id = %s", _row(queue, sequence)))

    def _one(self, statement: str, *bindings: object) -> Any:
        with psycopg.connect(self._url, options="-c search_path=bendybus") as connection:
            [(value,)] = connection.execute(statement.encode(), bindings).fetchall()
        return value


def _row(queue: QueueNumber, sequence: int) -> int:
    return queue << COUNTER_BITS_HERE | sequence & COUNTER_MASK


class Lent:
    """A database that keeps its tables from test to test: making them takes longer than a test."""

    def __init__(self, url: str, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self.url = url
        self._connection = connection

    def empty(self) -> None:
        """Delete every row of the tables, if there are any yet."""
        found = self._connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'bendybus'"
        ).fetchall()
        kept = {"version", "generation", "number_given"}
        deletions = [
            sql.SQL("DELETE FROM {}").format(sql.Identifier(table))
            for (table,) in found
            if table not in kept
        ]
        if deletions:
            numbers = sql.SQL("UPDATE number_given SET highest = 0")
            self._connection.execute(sql.SQL("; ").join([*deletions, numbers]))


@pytest.fixture(scope="module")
def lent(shared_postgres: PostgresServer) -> Iterator[Lent]:
    """One database for all tests here."""
    with (
        shared_postgres.lent_database() as url,
        psycopg.connect(url, autocommit=True, options="-c search_path=bendybus") as connection,
    ):
        yield Lent(url, connection)


class TestPostgresStore(StoreContract):
    """Every promise of `bendybus.store.port`, kept by PostgresStore."""

    @pytest.fixture
    async def make_store(self, lent: Lent) -> AsyncIterator[StoreMaker]:
        """A store on an empty database."""
        lent.empty()
        maker = PostgresMaker(lent.url)
        yield maker
        await maker.close()


class FrontEnds:
    """Opens one database any number of times."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stores: list[PostgresStore] = []

    async def __call__(self, heard: Heard | None = None) -> Store:
        store = PostgresStore(0, self._url, identity=IDENTITY, pacing=HASTY)
        if heard is not None:
            store.listen(heard)
        await store.start()
        self._stores.append(store)
        return store

    async def leave(self, store: Store) -> None:
        [leaving] = [each for each in self._stores if each is store]
        await leaving.close()

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


class TestSharedPostgresStore(SharingContract):
    """What a store is to several front ends."""

    @pytest.fixture
    async def join(self, lent: Lent) -> AsyncIterator[Joiner]:
        """Front ends on an empty database."""
        lent.empty()
        front_ends = FrontEnds(lent.url)
        yield front_ends
        await front_ends.close()
