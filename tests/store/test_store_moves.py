"""What is refused when a store is to be moved, and what is said when it fails."""

import asyncio
from pathlib import Path

import pytest

from bendybus.assemble.moves import StoreMoves
from bendybus.model.errors import ArgumentInvalid, StoreNotFound
from bendybus.model.namespace import Namespace
from bendybus.model.store_move import StoreMoveProgress
from bendybus.settings import Choices, settle
from bendybus.store.identity import StoreIdentity
from bendybus.store.port import Store
from bendybus.store.postgres.store import PostgresStore
from bendybus.store.sqlite.data_folder import cluster_of
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.free_port import free_port
from bendybus.testing.store_contract.sharing import until
from tests.store.makers import HASTY

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


async def until_ended(moves: StoreMoves) -> StoreMoveProgress:
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            progress = await moves.progress(0)
            if progress.stage in {"done", "failed"}:
                return progress
            await asyncio.sleep(POLL_SECONDS)


async def test_a_moved_store_is_its_brokers_alone_until_that_starts_anew(
    tmp_path: Path, postgres_url: str
) -> None:
    moved = SqliteStore(0, tmp_path / "store-00.db")
    await moved.start()
    moves = moves_of(tmp_path, [moved])
    await moves.begin(0, postgres_url)
    assert (await until_ended(moves)).stage == "done"
    names = tuple(each.namespace.name for each in settle([], Namespace()).namespaces)
    identity = StoreIdentity(cluster_of(tmp_path), 0, 1, names)
    other, fellow = (
        PostgresStore(0, postgres_url, identity=identity, pacing=HASTY, is_alone=is_alone)
        for is_alone in (False, True)
    )
    await other.start()
    assert "by that one alone until it is started anew" in str(other.status().reason)
    await fellow.start()
    assert fellow.is_online
    await moves.close()
    await moved.close()
    await fellow.close()
    await until(lambda: other.is_online)
    late = PostgresStore(0, postgres_url, identity=identity, pacing=HASTY, is_alone=True)
    await late.start()
    assert "is served already by others" in str(late.status().reason)
    await late.close()
    await other.close()


async def test_a_move_to_nowhere_fails_and_the_store_goes_on(tmp_path: Path) -> None:
    store = SqliteStore(0, tmp_path / "store-00.db")
    await store.start()
    moves = moves_of(tmp_path, [store])
    await moves.begin(0, f"postgresql://user:hidden@127.0.0.1:{free_port()}/database")
    progress = await until_ended(moves)
    assert progress.stage == "failed"
    assert progress.reason is not None
    assert "hidden" not in f"{progress}"
    assert store.is_online
    assert not (tmp_path / "store-00.url").exists()
    await moves.close()
    await store.close()
