"""Processes that share an SQLite file and are killed in the middle of anything."""

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from bendybus.store.sqlite.shared_store import SharedSqliteStore
from bendybus.testing.store_contract.sharing import until
from bendybus.testing.store_contract.subject import browse

PROCESSES = 2
SEED = 3
# How many answers a process gives at most before it is killed.
ANSWERS_MAX = 60


class Process:
    """One of those that share the file; keeps what it said, its last line only if it is whole."""

    def __init__(self, path: Path, name: str) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.sharing_process", str(path), name],
            stdout=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith(b"\n"):
                self.lines.append(line.decode().strip())


async def live(path: Path, kills: int) -> list[str]:
    """Let processes work and kill one after the other; return all that they said."""
    random = Random(SEED)
    names = iter(range(1000))
    processes = [Process(path, str(next(names))) for _ in range(PROCESSES)]
    said: list[str] = []
    try:
        for _ in range(kills):
            victim = random.choice(processes)
            enough = random.randint(1, ANSWERS_MAX)
            await until(lambda: len(victim.lines) >= enough or not victim.is_alive)  # noqa: B023 - awaited here
            assert victim.is_alive, "it ends only by being killed"
            victim.kill()
            said += victim.lines
            processes.remove(victim)
            processes.append(Process(path, str(next(names))))
        # The others were not harmed: each goes on.
        goals = [len(each.lines) + 5 for each in processes]
        await until(lambda: all(len(p.lines) >= g for p, g in zip(processes, goals, strict=True)))
    finally:
        for each in processes:
            each.kill()
            said += each.lines
    return said


async def check(path: Path, kills: int) -> None:
    said = [line.split() for line in await live(path, kills)]
    store = SharedSqliteStore(0, path)
    await store.start()
    there = {message.sequence: message.content.decode() for message in await browse(store)}
    await store.close()
    sent = {int(number): content for what, number, content in said if what == "sent"}
    completed = [(int(number), content) for what, number, content in said if what == "completed"]
    assert len(sent) == sum(what == "sent" for what, *_ in said), "no number was given twice"
    assert max(Counter(completed).values()) == 1, "nothing is completed twice"
    assert all(sent.get(number, content) == content for number, content in completed)
    assert not there.keys() & dict(completed).keys(), "what was completed is gone"
    # Of those that nobody said were completed some may be: their process died before it could say.
    missing = sent.keys() - there.keys() - dict(completed).keys()
    assert len(missing) <= kills + PROCESSES
    assert all(there[number] == sent[number] for number in sent.keys() & there.keys())


@pytest.mark.spec("R1.2")
async def test_processes_that_share_a_file_may_be_killed_at_any_time(tmp_path: Path) -> None:
    await check(tmp_path / "store.db", kills=2)


@pytest.mark.prove
async def test_processes_that_share_a_file_may_be_killed_very_often(tmp_path: Path) -> None:
    await check(tmp_path / "store.db", kills=40)


async def test_many_processes_that_start_at_once_make_one_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    stores = [SharedSqliteStore(0, path) for _ in range(8)]
    await asyncio.gather(*[store.start() for store in stores])
    assert [store.status().reason for store in stores] == [None] * 8
    assert sum(store.is_caretaker for store in stores) == 1
    for store in stores:
        await store.close()
