"""The shipped contract, on an SQLite file."""

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from bendybus.model.ids import COUNTER_MASK, QueueNumber
from bendybus.model.message import Marks
from bendybus.model.operations import Move, Remove
from bendybus.store.port import Store
from bendybus.store.sql.database import COUNTER_BITS_HERE
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.store_contract import StoreContract, StoreMaker
from bendybus.testing.store_contract.subject import DEAD, MAIN, NOON, lock, send


class SqliteMaker:
    """Opens one file again and again, and spoils it through a connection of its own."""

    def __init__(self, path: Path, kind: type[SqliteStore] = SqliteStore) -> None:
        self._path = path
        self._kind = kind
        self._store: SqliteStore | None = None

    async def __call__(self) -> SqliteStore:
        await self.close()
        self._store = self._kind(0, self._path)
        await self._store.start()
        return self._store

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()

    def spoil_content(self, queue: QueueNumber, sequence: int) -> None:
        """Flip the lowest bit of the first byte."""
        body = self._body(queue, sequence)
        content = bytearray(self._one("SELECT content FROM body WHERE id = ?", body))
        content[0] ^= 1
        self._one("UPDATE body SET content = ?2 WHERE id = ?1 RETURNING 1", body, bytes(content))

    def lose_content(self, queue: QueueNumber, sequence: int) -> None:
        self._one("DELETE FROM body WHERE id = ? RETURNING 1", self._body(queue, sequence))

    def spoil_marks(self, queue: QueueNumber, sequence: int) -> None:
        self._one(
            "UPDATE message SET marks = replace(marks, 'reas', 'seas') WHERE id = ? RETURNING 1",
            _row(queue, sequence),
        )

    def spoil_chunk(self, chunk: int) -> None:
        content: bytes = self._one("SELECT contents FROM staged WHERE id = ?", chunk)
        spoiled = bytes((content[0] ^ 1,)) + content[1:]
        self._one("UPDATE staged SET contents = ? WHERE id = ? RETURNING 1", spoiled, chunk)

    def contents_left(self) -> int:
        """Count the contents in the file, whoever they belong to."""
        count: int = self._one("SELECT count(*) FROM body")
        return count

    def _body(self, queue: QueueNumber, sequence: int) -> int:
        body: int = self._one("SELECT body FROM message WHERE id = ?", _row(queue, sequence))
        return body

    def _one(self, statement: str, *bindings: int | bytes) -> Any:
        with closing(apsw.Connection(str(self._path))) as connection:
            [(value,)] = connection.execute(statement, bindings).fetchall()
            return value


def _row(queue: QueueNumber, sequence: int) -> int:
    return queue << COUNTER_BITS_HERE | sequence & COUNTER_MASK


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def make_store(self, tmp_path: Path) -> AsyncIterator[StoreMaker]:
        maker = SqliteMaker(tmp_path / "store.db")
        yield maker
        await maker.close()

    async def test_no_content_is_left_behind_by_removals(
        self, store: Store, make_store: SqliteMaker
    ) -> None:
        await send(store, b"sent there", queue=DEAD)
        await send(store, b"moved", b"moved too", b"removed here")
        [first, second, third] = await lock(store)
        marks = Marks("why")
        await store.apply(
            [
                Move(MAIN, DEAD, first.lock, marks, is_counted=False),
                Move(MAIN, DEAD, second.lock, marks, is_counted=False),
                Remove(MAIN, [third.lock]),
            ],
            now=NOON,
        )
        [sent, *moved] = await lock(store, queue=DEAD)
        await store.apply([Remove(DEAD, [sent.lock, moved[0].lock])], now=NOON)
        assert make_store.contents_left() == 1
        await store.apply([Remove(DEAD, [moved[1].lock])], now=NOON)
        assert make_store.contents_left() == 0
