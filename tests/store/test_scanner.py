"""The connection of scans: beside the lane, and never in its way."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bendybus.model.errors import StoreUnavailable
from bendybus.model.message import Marks, Message
from bendybus.model.operations import Append, Move
from bendybus.store.sql import scanner as scanner_module
from bendybus.store.sqlite.database import Pacing
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.faulty_disk import Fault, faulty_disk
from bendybus.testing.store_contract.scanning import EVERYTHING, contents_scanned, everything
from bendybus.testing.store_contract.subject import (
    DEAD,
    MAIN,
    NOON,
    ORDERS,
    ROOMY,
    after,
    lock,
    send,
)

PATIENCE_SECONDS = 10.0


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(0, tmp_path / "store.db")
    await store.start()
    await store.put_entities([ORDERS])
    yield store
    await store.close()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it never was so"
        await asyncio.sleep(0.001)


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


async def test_what_is_intact_is_never_asked_of_the_lane(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    varied = [
        Message(b"plain"),
        Message(b"short-lived", expires_at=after(60)),
        Message(b"of a session", session_id="it's one", partition_key="it's one"),
        Message(b"with a key", partition_key='k\u00e9\\"y\x00\u2028'),
        Message(b"later", scheduled_at=after(600)),
    ]
    await store.apply([Append(MAIN, varied, ROOMY)], now=NOON)
    for held in await lock(store, 2):
        move = Move(MAIN, DEAD, held.lock, Marks("why"), is_counted=True)
        await store.apply([move], now=NOON)
    monkeypatch.setattr(store._lane, "submit", None)
    assert len(await everything(store)) == 3
    assert len(await everything(store, replace(EVERYTHING, queue=DEAD))) == 2


async def test_commits_go_on_while_a_scan_is_under_way(store: SqliteStore) -> None:
    await send(store, *[b"x" * 1000] * 5000)
    scan = store.scan(replace(EVERYTHING, count_max=5000))
    await send(store, b"y")
    assert len(await lock(store, 2)) == 2
    assert (await scan).count in (5000, 5001)


async def test_the_connection_and_the_thread_rest_when_nobody_scans(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner_module, "IDLE_SECONDS", 0.001)
    await send(store, b"a")
    assert await contents_scanned(store) == [b"a"]
    await until(lambda: store._scanner._thread is None and store._scanner._connection is None)
    await send(store, b"b")
    assert await contents_scanned(store) == [b"a", b"b"]


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
