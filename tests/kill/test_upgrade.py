"""A new release starts beside an old one under load, and brings the tables forward."""

import asyncio
import os
import random
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest

from bendybus.store.postgres.connecting import connect
from bendybus.store.postgres.migrating import MIGRATIONS
from bendybus.testing.broker_process import BrokerProcess
from bendybus.testing.history_checker import check_history
from bendybus.testing.postgres import PostgresServer
from tests.kill.load import QUEUES, Load
from tests.kill.logbook import Logbook
from tests.kill.test_kill import CONFIG
from tests.kill.test_move_killed import all_received

ENTRIES: Final = 2000
KNOWN: Final = MIGRATIONS[-1].version
# Runs before anything else in the process that finds it, which is the next release's then: its
# tables have a column more, which the releases before need not know.
NEXT_RELEASE: Final = """
from bendybus.store.postgres import migrating

column = "ALTER TABLE message ADD COLUMN colour TEXT DEFAULT 'grey'"
known = migrating.MIGRATIONS
migrating.MIGRATIONS = (*known, migrating.Migration(known[-1].version + 1, 1, column))
migrating.make_tables.__defaults__ = (migrating.MIGRATIONS,)
"""


def of_next_release(folder: Path) -> dict[str, str]:
    """Return the environment of a process that runs the next release."""
    (folder / "sitecustomize.py").write_text(NEXT_RELEASE)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.getenv("PYTHONPATH")])])}


def versions(url: str) -> list[tuple[int, int]]:
    """Return what the tables say of themselves."""
    with closing(connect(url)) as connection:
        return connection.execute("SELECT version, oldest_reader FROM version").fetchall()


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.spec("R1.2")
async def test_an_old_front_end_goes_on_and_starts_again_beside_a_new_one(
    shared_postgres: PostgresServer, tmp_path: Path
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Logbook(QUEUES)
    with ExitStack() as stack:
        urls = [stack.enter_context(shared_postgres.lent_database()) for _ in range(2)]
        for name in ("old", "new"):
            (tmp_path / name).mkdir()
        old = BrokerProcess(tmp_path / "old", CONFIG, stores=urls)
        environment = of_next_release(tmp_path / "new")
        new = BrokerProcess(tmp_path / "new", CONFIG, stores=urls, environment=environment)
        running = [old]
        for each in (old, new):
            stack.callback(each.kill)
        await asyncio.to_thread(old.start)
        load = Load(book, rng)
        async with load.running(lambda: rng.choice(running).amqp_port):
            await book.at(ENTRIES, lambda: None)
            assert [versions(url) for url in urls] == [[(KNOWN, 1)]] * 2
            await asyncio.to_thread(new.start)
            assert [versions(url) for url in urls] == [[(KNOWN + 1, 1)]] * 2
            running.append(new)
            await book.at(ENTRIES, lambda: None)
            await book.kill_after(1, old)
            await asyncio.to_thread(old.start)
            await book.at(ENTRIES, lambda: None)
            # The last of the old ones goes.
            running.remove(old)
            assert await asyncio.to_thread(old.stop) == 0
            await book.at(ENTRIES, lambda: None)
            load.only_receive()
            await all_received(new, book)
            assert await asyncio.to_thread(new.stop) == 0
    for queue in QUEUES:
        assert check_history(book.logs[queue]) == [], f"with seed {seed}"
