"""How the contract gets each kind of store, and does to its data what a bad disk would."""

from contextlib import closing
from pathlib import Path
from typing import Any, Final, LiteralString, Protocol

import apsw
import psycopg
import pytest

from bendybus.model.ids import COUNTER_MASK, QueueNumber
from bendybus.store.identity import StoreIdentity
from bendybus.store.postgres.store import Pacing, PostgresStore
from bendybus.store.sql.database import COUNTER_BITS_HERE
from bendybus.store.sqlite import database as sqlite
from bendybus.store.sqlite.shared_store import SharedSqliteStore
from bendybus.store.sqlite.store import SqliteStore

SQLITE: Final = "sqlite"
SHARED_SQLITE: Final = "sqlite shared"
POSTGRESQL: Final = "postgresql"
HASTY_SQLITE: Final = sqlite.Pacing(attend_seconds=0.02, retry_seconds=0.01)
HASTY: Final = Pacing(retry_seconds=0.01, beat_seconds=0.02)
IDENTITY: Final = StoreIdentity("cluster", 0, 1, ("sbemulatorns",), may_claim=True)


class Place(Protocol):
    """Where a store is: opened as brokers do, and looked at behind their backs."""

    def opened(self) -> PostgresStore | SqliteStore:
        """Return the store there, not started yet."""
        ...

    def one(self, statement: LiteralString, *bindings: int | bytes) -> Any:
        """Run a statement that has one value for an answer; a binding is `{}`."""
        ...


class SqliteFile:
    """A store in an SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def opened(self) -> SqliteStore:
        return SqliteStore(0, self._path)

    def one(self, statement: LiteralString, *bindings: int | bytes) -> Any:
        with closing(apsw.Connection(str(self._path))) as connection:
            text = statement.replace("{}", "?")
            [(value,)] = connection.execute(text, bindings).fetchall()
            return value


class SharedSqliteFile(SqliteFile):
    """A store in an SQLite file that others may have open as well."""

    def opened(self) -> SqliteStore:
        return SharedSqliteStore(0, self._path, pacing=HASTY_SQLITE)


class PostgresDatabase:
    """A store in a PostgreSQL database."""

    def __init__(self, url: str) -> None:
        self._url = url

    def opened(self) -> PostgresStore:
        return PostgresStore(0, self._url, identity=IDENTITY, pacing=HASTY)

    def one(self, statement: LiteralString, *bindings: int | bytes) -> Any:
        options = "-c search_path=bendybus"
        with psycopg.connect(self._url, autocommit=True, options=options) as connection:
            text = statement.replace("{}", "%s")
            [(value,)] = connection.execute(text, bindings).fetchall()
            return value


def place_of(engine: str, request: pytest.FixtureRequest) -> Place:
    """Make a place for a test; only what is asked for is made."""
    if engine == POSTGRESQL:
        return PostgresDatabase(request.getfixturevalue("blank_store"))
    folder: Path = request.getfixturevalue("tmp_path")
    kind = {SQLITE: SqliteFile, SHARED_SQLITE: SharedSqliteFile}[engine]
    return kind(folder / "store.db")


class Maker:
    """Opens the store of one place again and again, and spoils what lies there."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._store: PostgresStore | SqliteStore | None = None

    async def __call__(self) -> PostgresStore | SqliteStore:
        await self.close()
        self._store = self._place.opened()
        await self._store.start()
        return self._store

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()

    def spoil_content(self, queue: QueueNumber, sequence: int) -> None:
        """Flip the lowest bit of the first byte."""
        body = self._body(queue, sequence)
        content = bytearray(self._place.one("SELECT content FROM body WHERE id = {}", body))
        content[0] ^= 1
        self._place.one(
            "UPDATE body SET content = {} WHERE id = {} RETURNING 1", bytes(content), body
        )

    def lose_content(self, queue: QueueNumber, sequence: int) -> None:
        self._place.one("DELETE FROM body WHERE id = {} RETURNING 1", self._body(queue, sequence))

    def spoil_marks(self, queue: QueueNumber, sequence: int) -> None:
        self._place.one(
            "UPDATE message SET marks = replace(marks, 'reas', 'seas') WHERE id = {} RETURNING 1",
            _row(queue, sequence),
        )

    def spoil_chunk(self, chunk: int) -> None:
        content: bytes = self._place.one("SELECT contents FROM staged WHERE id = {}", chunk)
        spoiled = bytes((content[0] ^ 1,)) + content[1:]
        self._place.one("UPDATE staged SET contents = {} WHERE id = {} RETURNING 1", spoiled, chunk)

    def contents_left(self) -> int:
        """Count the contents that are stored, whoever they belong to."""
        count: int = self._place.one("SELECT count(*) FROM body")
        return count

    def _body(self, queue: QueueNumber, sequence: int) -> int:
        body: int = self._place.one("SELECT body FROM message WHERE id = {}", _row(queue, sequence))
        return body


def _row(queue: QueueNumber, sequence: int) -> int:
    return queue << COUNTER_BITS_HERE | sequence & COUNTER_MASK
