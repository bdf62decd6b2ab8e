"""Scans of an SQLite file: nobody has it open but when the lane has."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.model.errors import StoreUnavailable
from bendybus.store.sqlite.database import Pacing
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.faulty_disk import Fault, faulty_disk
from bendybus.testing.store_contract.scanning import EVERYTHING, contents_scanned
from bendybus.testing.store_contract.subject import (
    MAIN,
    ORDERS,
    send,
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(0, tmp_path / "store.db")
    await store.start()
    await store.put_entities([ORDERS])
    yield store
    await store.close()


def log_of(store: SqliteStore) -> Path:
    """The log, which SQLite takes away when the last who has the file closes it."""
    return store.path.with_name(f"{store.path.name}-wal")


async def test_a_store_taken_offline_has_its_file_closed_by_everybody(store: SqliteStore) -> None:
    await send(store, b"a")
    assert await contents_scanned(store) == [b"a"]
    assert log_of(store).exists()
    await store.take_offline("a drill")
    assert not log_of(store).exists()


async def test_a_store_closed_in_the_middle_of_a_scan_has_its_file_closed_by_everybody(
    store: SqliteStore,
) -> None:
    await send(store, *[b"x" * 1000] * 2000)
    scans = [store.scan(EVERYTHING) for _ in range(20)]
    await store.scan(EVERYTHING)
    await store.close()
    for outcome in await asyncio.gather(*scans, return_exceptions=True):
        assert not isinstance(outcome, Exception) or isinstance(outcome, StoreUnavailable)
    assert not log_of(store).exists()


async def test_a_store_that_failed_is_opened_by_the_lane_alone(tmp_path: Path) -> None:
    with faulty_disk() as disk:
        pacing = Pacing(retry_seconds=1000)
        store = SqliteStore(0, tmp_path / "store.db", vfs=disk.name, pacing=pacing)
        await store.start()
        await store.put_entities([ORDERS])
        await send(store, b"a")
        assert await contents_scanned(store) == [b"a"]
        disk.break_at(0, Fault.SYNC_ERROR)
        failure = await asyncio.gather(send(store, b"b"), return_exceptions=True)
        assert isinstance(failure[0], Exception)
        assert store._scanner._connection is None
        with pytest.raises(StoreUnavailable):
            await store.scan(EVERYTHING)
        disk.mend()
        await store.bring_online()
        await send(store, b"c")
        assert (await contents_scanned(store))[-1] == b"c"
        await store.close()


async def test_numbers_too_large_for_the_quick_way_are_scanned_all_the_same(
    store: SqliteStore,
) -> None:
    await send(store, b"a", b"b")
    await store._lane.submit(
        lambda database: database.execute(
            "UPDATE message SET delivery_count = ? WHERE queue = ?", (1 << 30, MAIN)
        ),
        is_synced=True,
    )
    assert await contents_scanned(store) == [b"a", b"b"]
