"""Backups of a broker under load, and what a restored one holds, judged by what clients saw."""

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from bendybus.testing.broker_process import BrokerProcess, broker_process
from bendybus.testing.history_checker import (
    Acknowledged,
    CompletionAsked,
    Entry,
    Left,
    Received,
    Sent,
    check_history,
)
from tests.cli.command import environment
from tests.kill.logbook import Logbook
from tests.kill.stored_messages import everything_in
from tests.kill.test_forwarding_killed import CONFIG, WAYS, Load, all_left

ENTRIES_BETWEEN: Final = 3000
SECONDS_MAX: Final = 60
POLL_SECONDS: Final = 0.001
STORES: Final = 16


@pytest.mark.spec("R6")
@pytest.mark.parametrize(
    "backups",
    [
        pytest.param(1, marks=pytest.mark.timeout(240)),
        pytest.param(30, marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
    ],
)
async def test_a_restored_broker_has_lost_and_doubled_nothing(backups: int, tmp_path: Path) -> None:
    """Messages go by two chains of queues over all stores, and many are between two of them."""
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Logbook(WAYS)
    # What clients had seen when each backup began, and when it had ended.
    begun: list[dict[str, int]] = []
    ended: list[dict[str, list[Entry]]] = []
    with broker_process(CONFIG) as broker:
        load = Load(book, rng)
        async with load.running(broker.amqp_port):
            for at in range(backups):
                stores = rng.randint(1, STORES)
                await asyncio.to_thread(cut_off_backup, broker, tmp_path / f"cut-{at}", stores)
                await book.at(ENTRIES_BETWEEN, lambda: None)
                begun.append({way: len(log) for way, log in book.logs.items()})
                code = await asyncio.to_thread(command, "backup", tmp_path / str(at), broker)
                assert code == 0
                ended.append({way: list(log) for way, log in book.logs.items()})
            await book.kill_after(1, broker)
    for at in range(backups):
        folder = tmp_path / f"restored-{at}"
        folder.mkdir()
        restored = BrokerProcess(folder, CONFIG)
        assert await asyncio.to_thread(command, "restore", tmp_path / str(at), restored) == 0
        await asyncio.to_thread(restored.start)
        try:
            await all_left(restored)
        finally:
            restored.stop()
        for way in WAYS:
            left = await everything_in(restored, f"{way}.out")
            log = as_of(ended[at][way], begun[at][way], left)
            assert check_history(log) == [], f"with seed {seed}"


def as_of(log: list[Entry], before: int, left: list[Left]) -> list[Entry]:
    """Return what must be true of a backup that began there and had ended when the log ends.

    What was answered meanwhile may be in it or not. What was received meanwhile and is there had
    perhaps not arrived yet: then it arrives under another number. And what was not acknowledged
    before may have come after the backup: then its number is another's there.
    """
    names = {each.sequence: each.message for each in log if isinstance(each, Received)}
    acknowledged = {each.message for each in log[:before] if isinstance(each, Acknowledged)}
    gone = acknowledged - {each.message for each in left}
    meanwhile = [
        each
        for each in log[before:]
        if isinstance(each, Sent)
        or (isinstance(each, Received | CompletionAsked) and names[each.sequence] in gone)
    ]
    return [*log[:before], *meanwhile, *left]


def command(verb: str, backup: Path, broker: BrokerProcess) -> int:
    """Run `bendybus backup` or `bendybus restore` to its end."""
    return started(verb, backup, broker).wait(SECONDS_MAX)


def started(verb: str, backup: Path, broker: BrokerProcess) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "bendybus", verb, str(backup)),
            *("--data", str(broker.folder / "data")),
        ],
        env=environment(),
    )


def cut_off_backup(broker: BrokerProcess, folder: Path, stores: int) -> None:
    """Begin a backup, and kill it when it has begun so many of its stores."""
    process = started("backup", folder, broker)
    deadline = time.monotonic() + SECONDS_MAX
    while len(list(folder.glob("*.db"))) < stores:
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)
    process.kill()
    process.wait(SECONDS_MAX)
