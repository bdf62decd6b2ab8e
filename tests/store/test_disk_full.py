"""A disk that is really full: a small file system of its own."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from bendybus.model.errors import StoreUnavailable
from bendybus.model.store_status import StoreState
from bendybus.store.port import Store
from bendybus.store.sqlite.database import Pacing
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.store_contract.subject import ORDERS, contents_of, send

DISK_BYTES = 4 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a few megabytes of memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    outcome = subprocess.run(mount, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        pytest.skip(f"NOT PROVED HERE: mounting a small disk needs root: {outcome.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def send_until_refused(store: Store, kept: list[bytes]) -> NoReturn:
    """Send, noting what was acknowledged."""
    while True:
        content = b"%05d" % len(kept) + bytes(20_000)
        await send(store, content)
        kept.append(content)


async def test_a_full_disk_takes_the_store_offline_until_there_is_room(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(DISK_BYTES // 2))
    pacing = Pacing(log_pages_max=50, retry_seconds=0.01)
    store = SqliteStore(0, small_disk / "store.db", pacing=pacing)
    await store.start()
    await store.put_entities([ORDERS])
    kept: list[bytes] = []
    with pytest.raises(StoreUnavailable, match="SQLITE_FULL"):
        await send_until_refused(store, kept)
    assert kept
    assert store.status().state is StoreState.FAILED
    with pytest.raises(StoreUnavailable):
        await send(store, b"refused")
    filler.unlink()
    deadline = time.monotonic() + 10
    while not store.is_online:
        assert time.monotonic() < deadline, store.status()
        await asyncio.sleep(0.01)
    await send(store, b"last")
    assert await contents_of(store) == [*kept, b"last"]
    await store.close()
