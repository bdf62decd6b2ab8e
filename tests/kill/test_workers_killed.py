"""Workers of one broker are killed under load, one by one and all at once; clients judge it."""

import asyncio
import os
import random
import signal
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from bendybus.testing.broker_process import BrokerProcess, broker_process
from bendybus.testing.history_checker import check_history
from tests.kill.load import QUEUES, Load, check_that_it_was_hard
from tests.kill.logbook import Logbook
from tests.kill.stored_messages import everything_in

CONFIG: Final = Path(__file__).with_name("namespace.yaml")
WORKERS: Final = 2
# How many entries of the log pass, at most, between one kill and the next.
ENTRIES_BETWEEN_MAX: Final = 2000
BACK_SECONDS_MAX: Final = 30
POLL_SECONDS: Final = 0.02


@pytest.mark.spec("R3.6")
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(4, marks=pytest.mark.timeout(240)),
        pytest.param(100, marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
    ],
)
async def test_nothing_is_lost_doubled_or_disordered_when_workers_are_killed(kills: int) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Logbook(QUEUES)
    with broker_process(CONFIG, options=("--workers", str(WORKERS))) as broker:
        load = Load(book, rng)
        async with load.running(lambda: broker.amqp_port):
            for number in range(kills):
                if number % 4 == 3:
                    # The process that keeps the doors: the workers end with it.
                    await book.kill_after(rng.randint(1, ENTRIES_BETWEEN_MAX), broker)
                    await asyncio.to_thread(broker.start)
                else:
                    entries = rng.randint(1, ENTRIES_BETWEEN_MAX)
                    await book.at(entries, partial(kill_worker, broker, rng))
                    await all_back(broker)
            await book.at(ENTRIES_BETWEEN_MAX, lambda: None)
            assert await asyncio.to_thread(broker.stop) == 0
        for queue in QUEUES:
            log = book.logs[queue]
            log += await everything_in(broker, queue)
            assert check_history(log) == [], f"with seed {seed}"
        check_that_it_was_hard([entry for log in book.logs.values() for entry in log], faults=kills)


def workers_of(broker: BrokerProcess) -> list[int]:
    """Return the processes that the broker has made."""
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children")
    return sorted(map(int, children.read_text().split()))


def kill_worker(broker: BrokerProcess, rng: random.Random) -> None:
    """End one of them without a warning."""
    os.kill(rng.choice(workers_of(broker)), signal.SIGKILL)


async def all_back(broker: BrokerProcess) -> None:
    """Wait until another has taken its place."""
    async with asyncio.timeout(BACK_SECONDS_MAX):
        while len(workers_of(broker)) < WORKERS:  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(POLL_SECONDS)
