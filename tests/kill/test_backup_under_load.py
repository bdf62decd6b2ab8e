"""Backups of a broker under load, and what a restored one holds, judged by what clients saw."""

import asyncio
import random
import sys
from pathlib import Path
from typing import Final

import pytest

from bendybus.testing.broker_process import BrokerProcess, broker_process
from bendybus.testing.history_checker import (
    Acknowledged,
    Completed,
    Entry,
    check_history,
)
from tests.cli.command import environment
from tests.kill.logbook import Logbook
from tests.kill.stored_files import everything_in
from tests.kill.test_forwarding_killed import CONFIG, WAYS, Load, all_left

ENTRIES_BETWEEN: Final = 3000
SECONDS_MAX: Final = 60
POLL_SECONDS: Final = 0.02


@pytest.mark.spec("R6")
@pytest.mark.parametrize(
    "backups",
    [
        pytest.param(2, marks=pytest.mark.timeout(240)),
        pytest.param(30, marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
    ],
)
async def test_a_restored_broker_has_lost_and_doubled_nothing(backups: int, tmp_path: Path) -> None:
    """Messages go by two chains of queues over all stores, and many are between two of them."""
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Logbook(WAYS)
    logs: list[dict[str, list[Entry]]] = []
    with broker_process(CONFIG) as broker:
        load = Load(book, rng)
        async with load.running(broker.amqp_port):
            for at in range(backups):
                await entries_pass(book, ENTRIES_BETWEEN)
                await cut_off_backup(broker, tmp_path / f"cut-off-{at}", rng)
                before = {way: len(log) for way, log in book.logs.items()}
                assert await command("backup", tmp_path / str(at), broker) == 0
                logs.append({way: as_of(book.logs[way], before[way]) for way in WAYS})
            broker.kill()
            load.stop()
    for at, seen in enumerate(logs):
        folder = tmp_path / f"restored-{at}"
        folder.mkdir()
        restored = BrokerProcess(folder, CONFIG)
        assert await command("restore", tmp_path / str(at), restored) == 0
        await asyncio.to_thread(restored.start)
        try:
            await all_left(restored)
        finally:
            restored.stop()
        for way in WAYS:
            log = [*seen[way], *await everything_in(restored, f"{way}.out")]
            assert check_history(log) == [], f"with seed {seed}"


def as_of(log: list[Entry], before: int) -> list[Entry]:
    """Return what must be true of a backup that began there and has ended now.

    What was answered meanwhile may be in it or not.
    """
    meanwhile = (each for each in log[before:] if not isinstance(each, Acknowledged | Completed))
    return [*log[:before], *meanwhile]


async def entries_pass(book: Logbook, count: int) -> None:
    """Let the clients work."""
    wanted = sum(map(len, book.logs.values())) + count
    async with asyncio.timeout(SECONDS_MAX):
        while sum(map(len, book.logs.values())) < wanted:
            await asyncio.sleep(POLL_SECONDS)


async def command(verb: str, backup: Path, broker: BrokerProcess) -> int:
    """Run `bendybus backup` or `bendybus restore` to its end."""
    process = await started(verb, backup, broker)
    return await process.wait()


async def started(verb: str, backup: Path, broker: BrokerProcess) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bendybus", verb, str(backup)),
        *("--data", str(broker.folder / "data")),
        env=environment(),
    )


async def cut_off_backup(broker: BrokerProcess, folder: Path, rng: random.Random) -> None:
    """Begin a backup, and kill it after some of its stores."""
    process = await started("backup", folder, broker)
    wanted = rng.randint(1, 15)
    while process.returncode is None and len(list(folder.glob("*.db"))) < wanted:
        await asyncio.sleep(0)
    if process.returncode is None:
        process.kill()
    await process.wait()
