"""What is refused when a store is to be moved, and what is said when it fails."""

import asyncio
from pathlib import Path

import pytest

from bendybus.assemble.moves import StoreMoves
from bendybus.model.errors import ArgumentInvalid, StoreNotFound
from bendybus.model.namespace import Namespace
from bendybus.settings import Choices, settle
from bendybus.store.port import Store
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.free_port import free_port

POLL_SECONDS = 0.01
SECONDS_MAX = 30


def moves_of(folder: Path, stores: list[Store]) -> StoreMoves:
    return StoreMoves(settle([Choices(data=folder)], Namespace()), stores)


async def test_only_a_store_that_is_there_moves_to_a_database(tmp_path: Path) -> None:
    moves = moves_of(tmp_path, [SqliteStore(0, tmp_path / "store-00.db")])
    with pytest.raises(ArgumentInvalid, match="URL of a PostgreSQL database"):
        await moves.begin(0, "mysql://user:hidden@host/database")
    with pytest.raises(StoreNotFound, match="no store 1"):
        await moves.begin(1, "postgresql://user@host/database")
    with pytest.raises(StoreNotFound, match="not being moved"):
        await moves.progress(0)


async def test_a_move_to_nowhere_fails_and_the_store_goes_on(tmp_path: Path) -> None:
    store = SqliteStore(0, tmp_path / "store-00.db")
    await store.start()
    moves = moves_of(tmp_path, [store])
    await moves.begin(0, f"postgresql://user:hidden@127.0.0.1:{free_port()}/database")
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            progress = await moves.progress(0)
            if progress.stage == "failed":
                break
            await asyncio.sleep(POLL_SECONDS)
    assert progress.reason is not None
    assert "hidden" not in f"{progress}"
    assert store.is_online
    assert not (tmp_path / "store-00.url").exists()
    await moves.close()
    await store.close()
