"""No acknowledged message depends on a write that was not synced.

Traffic runs on a disk that remembers every write and sync. For every moment of that history the
power is cut: the disk keeps what was synced and any part of the rest. Each time the store must
open, be sound, and agree with what its callers had been told by then.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from bendybus.store.sqlite import database as database_module
from bendybus.store.sqlite.database import SqliteDatabase
from bendybus.testing.faulty_disk import Act, Event, Fault, FaultyDisk, faulty_disk
from tests.store import power_cut
from tests.store.ledger import inspect
from tests.store.life import FILE, Life


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


def check_cuts(
    life: Life, folder: Path, random: Random, *, torn: int, keeps_doubtful: bool = False
) -> int:
    """Cut the power everywhere after the start; return how many cuts there were."""
    count = 0
    history = list(life.disk.history)
    for moment, kind, files in power_cut.cuts(
        history, random, torn=torn, keeps_doubtful=keeps_doubtful
    ):
        if moment < life.begin:
            continue
        count += 1
        power_cut.write_files(files, folder)
        present, faults = inspect(folder / FILE)
        faults += life.ledger.violations(present, moment)
        assert not faults, f"power cut at {moment} of {len(history)}, {kind}"
    return count


def seeded(seed: int) -> Random:
    """Return chance that a failure can be repeated from: the seed is in the test's name."""
    return Random(seed)


async def live(disk: FaultyDisk, folder: Path, random: Random, steps: int) -> Life:
    """Run traffic through a restart, and leave the log as it is then."""
    life = Life(disk, folder, random)
    await life.start()
    await life.traffic.run(steps)
    await life.store.take_offline("a restart")
    await life.store.bring_online()
    await life.traffic.run(steps)
    return life


async def live_through_a_failed_sync(disk: FaultyDisk, folder: Path, failing_sync: int) -> Life:
    """Run traffic into a failed sync, and on after the disk is mended."""
    life = Life(disk, folder, seeded(failing_sync))
    await life.start()
    disk.break_at(failing_sync, Fault.SYNC_ERROR)
    await life.traffic.run(20)
    assert disk.mend(), "no sync failed"
    await life.store.bring_online()
    await life.traffic.run(8)
    return life


async def test_every_power_cut_leaves_all_that_was_acknowledged(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    random = seeded(1)
    life = await live(disk, tmp_path, random, 14)
    assert disk.history.count(Event(Act.SYNC, FILE)) > 5, "the log must be written back in between"
    assert check_cuts(life, tmp_path / "cut", random, torn=4) > 300
    await life.store.close()


# Of the log's frames, of its header, and of the main file while the log is written back.
@pytest.mark.parametrize("failing_sync", [0, 3, 7])
@pytest.mark.parametrize("keeps_doubtful", [True, False], ids=["reached", "did not reach"])
async def test_a_power_cut_after_a_failed_sync_whose_pages_maybe_reached_the_disk(
    disk: FaultyDisk, tmp_path: Path, failing_sync: int, keeps_doubtful: bool
) -> None:
    life = await live_through_a_failed_sync(disk, tmp_path, failing_sync)
    assert check_cuts(life, tmp_path / "cut", seeded(2), torn=1, keeps_doubtful=keeps_doubtful)
    await life.store.close()


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("keeps_doubtful", [True, False], ids=["reached", "did not reach"])
@pytest.mark.parametrize("failing_sync", range(16))
async def test_a_power_cut_after_any_failed_sync(
    disk: FaultyDisk, tmp_path: Path, failing_sync: int, keeps_doubtful: bool
) -> None:
    life = await live_through_a_failed_sync(disk, tmp_path, failing_sync)
    random = seeded(failing_sync)
    check_cuts(life, tmp_path / "cut", random, torn=10, keeps_doubtful=keeps_doubtful)
    await life.store.close()


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(12))
async def test_every_power_cut_leaves_all_that_was_acknowledged_whatever_happened(
    disk: FaultyDisk, tmp_path: Path, seed: int
) -> None:
    random = seeded(seed)
    life = await live(disk, tmp_path, random, 30)
    check_cuts(life, tmp_path / "cut", random, torn=20)
    await life.store.close()


# Canaries: a store that is wrong on purpose must be caught, or the tests above mean nothing.


@pytest.mark.parametrize("mode", ["OFF", "NORMAL"])
async def test_a_store_that_does_not_sync_its_commits_is_caught(
    disk: FaultyDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    def begin(self: SqliteDatabase, *, is_synced: bool) -> None:  # noqa: ARG001 - that is the defect
        self.execute(f"PRAGMA synchronous={mode}")
        self.execute("BEGIN IMMEDIATE")

    monkeypatch.setattr(SqliteDatabase, "begin", begin)
    life = await live(disk, tmp_path, seeded(1), 12)
    with pytest.raises(AssertionError, match="power cut"):
        check_cuts(life, tmp_path / "cut", seeded(1), torn=0)
    await life.store.close()


async def test_a_store_that_trusts_its_log_after_a_failed_sync_is_caught(
    disk: FaultyDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_make_sure_of_log", lambda *_: None)
    life = await live_through_a_failed_sync(disk, tmp_path, failing_sync=0)
    with pytest.raises(AssertionError, match="power cut"):
        check_cuts(life, tmp_path / "cut", seeded(1), torn=0)
    await life.store.close()
