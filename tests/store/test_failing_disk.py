"""A disk that fails at any point: nothing acknowledged is lost, nothing refused is there."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from bendybus.model.errors import StoreFailed, StoreUnavailable
from bendybus.model.store_status import StoreState
from bendybus.store.sqlite.database import Pacing
from bendybus.testing.faulty_disk import Fault, FaultyDisk, faulty_disk
from bendybus.testing.store_contract.subject import MAIN, NOON, contents_of, lock, send
from tests.store.ledger import inspect
from tests.store.life import Life

STEPS = 12
SEED = 5
FAR_AWAY = 10_000
NAMES = {
    Fault.WRITE_ERROR: {"SQLITE_IOERR_WRITE", "SQLITE_IOERR_TRUNCATE"},
    Fault.FULL: {"SQLITE_FULL"},
    Fault.SYNC_ERROR: {"SQLITE_IOERR_FSYNC"},
}
every_fault = pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


async def live_into(fault: Fault, call: int, disk: FaultyDisk, folder: Path) -> bool:
    """Run traffic into the fault and on; check it all; say whether the fault was met."""
    life = Life(disk, folder, Random(SEED))
    await life.start()
    disk.break_at(call, fault)
    await life.traffic.run(STEPS)
    await life.come_to_rest()
    status = life.store.status()
    was_met = disk.mend()
    assert (status.state is StoreState.FAILED) == was_met
    if was_met:
        assert status.reason is not None
        assert any(name in status.reason for name in NAMES[fault])
    await life.store.bring_online()
    await life.traffic.run(4)
    await life.store.close()
    present, faults = inspect(life.path)
    assert not faults + life.ledger.violations(present), f"{fault.name} at call {call}"
    return was_met


@every_fault
async def test_wherever_the_disk_fails_the_ledger_is_kept(
    disk: FaultyDisk, tmp_path: Path, fault: Fault
) -> None:
    call = 0
    (tmp_path / "0").mkdir()
    while await live_into(fault, call, disk, tmp_path / str(call)):
        call += 1
        (tmp_path / str(call)).mkdir()
    assert call >= 10, "the life was too short to show anything"


@every_fault
async def test_once_failed_every_call_is_refused_at_once(
    disk: FaultyDisk, tmp_path: Path, fault: Fault
) -> None:
    life = Life(disk, tmp_path, Random(SEED))
    await life.start()
    disk.break_at(0, fault)
    with pytest.raises((StoreUnavailable, StoreFailed)):
        await send(life.store, b"a" * 100_000)
    assert life.store.status().state is StoreState.FAILED
    calls = len(disk.history)
    outcomes = await asyncio.gather(
        send(life.store, b"b"),
        lock(life.store),
        life.store.counts(MAIN),
        life.store.due(now=NOON, count_max=1),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 4
    assert len(disk.history) == calls, "a refused call must not touch the disk"
    disk.mend()
    await life.store.close()


async def test_a_full_disk_at_commit_means_that_nothing_was_written(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    life = Life(disk, tmp_path, Random(SEED))
    await life.start()
    disk.break_at(0, Fault.FULL)
    with pytest.raises(StoreUnavailable, match="SQLITE_FULL"):
        await send(life.store, b"a")
    disk.mend()
    await life.store.bring_online()
    assert await contents_of(life.store) == []
    await life.store.close()


async def test_a_failed_sync_leaves_it_open_whether_the_call_was_written(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    life = Life(disk, tmp_path, Random(SEED))
    await life.start()
    await send(life.store, b"before")
    await life.come_to_rest()
    disk.break_at(0, Fault.SYNC_ERROR)
    with pytest.raises(StoreFailed, match="SQLITE_IOERR_FSYNC"):
        await send(life.store, b"a")
    disk.mend()
    await life.store.bring_online()
    assert await contents_of(life.store) in ([b"before"], [b"before", b"a"])
    await life.store.close()


@every_fault
async def test_a_store_comes_back_by_itself_when_its_disk_does(
    disk: FaultyDisk, tmp_path: Path, fault: Fault
) -> None:
    life = Life(disk, tmp_path, Random(SEED), Pacing(retry_seconds=0.001))
    await life.start()
    await send(life.store, b"before")
    await life.come_to_rest()
    disk.break_at(0, fault)
    with pytest.raises((StoreUnavailable, StoreFailed)):
        await send(life.store, b"a")
    disk.mend()
    await until(lambda: life.store.is_online)
    assert (await contents_of(life.store))[0] == b"before"
    await send(life.store, b"after")
    assert (await contents_of(life.store))[-1] == b"after"
    await life.store.close()


async def test_a_store_that_cannot_come_back_says_so_and_stays_failed(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    life = Life(disk, tmp_path, Random(SEED))
    await life.start()
    await send(life.store, b"before")
    await life.come_to_rest()
    disk.break_at(0, Fault.SYNC_ERROR)
    with pytest.raises(StoreFailed):
        await send(life.store, b"a")
    with pytest.raises(StoreUnavailable, match="SQLITE_IOERR_FSYNC"):
        await life.store.bring_online()
    assert life.store.status().state is StoreState.FAILED
    disk.mend()
    await life.store.close()


async def test_an_operator_may_take_a_failed_store_offline_and_it_stays_there(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    life = Life(disk, tmp_path, Random(SEED), Pacing(retry_seconds=0.001))
    await life.start()
    disk.break_at(0, Fault.SYNC_ERROR)
    with pytest.raises(StoreFailed):
        await send(life.store, b"a")
    await life.store.take_offline("new disk")
    disk.mend()
    calls = len(disk.history)
    await life.store.take_offline("new disk, still")
    assert life.store.status().state is StoreState.OFFLINE
    assert len(disk.history) == calls
    await life.store.close()


async def test_a_log_that_cannot_be_written_back_takes_the_store_offline(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    """SQLite by itself would go on in silence, with a log that grows for ever."""
    life = Life(disk, tmp_path, Random(SEED), Pacing(log_pages_max=1, retry_seconds=3600))
    await life.start()
    header_and_commit = 2
    disk.break_at(header_and_commit, Fault.SYNC_ERROR)
    assert await send(life.store, b"kept") == [1]
    await until(lambda: life.store.status().state is StoreState.FAILED)
    disk.mend()
    await life.store.bring_online()
    assert await contents_of(life.store) == [b"kept"]
    await life.store.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)
