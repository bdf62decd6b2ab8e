"""The broker is killed again and again under load, and what its clients saw is judged."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from bendybus.testing.broker_process import broker_process
from bendybus.testing.history_checker import Left, check_history
from tests.kill.load import QUEUES, Load, check_that_it_was_hard
from tests.kill.logbook import Logbook
from tests.kill.stored_messages import everything_in

CONFIG: Final = Path(__file__).with_name("namespace.yaml")
# How many entries of the log pass, at most, between a start and the next kill.
ENTRIES_PER_LIFE_MAX: Final = 4000
# How long nothing may come back while something is there: several times what a lock lasts.
STALL_SECONDS_MAX: Final = 30
POLL_SECONDS: Final = 0.1


@pytest.mark.spec("R3.6")
@pytest.mark.parametrize(
    ("kills", "stores"),
    [
        pytest.param(20, "files", marks=pytest.mark.timeout(300)),
        pytest.param(200, "files", marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
        pytest.param(20, "databases", marks=[pytest.mark.prove, pytest.mark.timeout(900)]),
    ],
    indirect=["stores"],
)
async def test_nothing_is_lost_doubled_or_disordered_when_the_broker_is_killed(
    kills: int, stores: Sequence[str]
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Logbook(QUEUES)
    with broker_process(CONFIG, stores=stores) as broker:
        load = Load(book, rng)
        async with load.running(lambda: broker.amqp_port):
            for _ in range(kills):
                await book.kill_after(rng.randint(1, ENTRIES_PER_LIFE_MAX), broker)
                await asyncio.to_thread(broker.start)
            await book.kill_after(ENTRIES_PER_LIFE_MAX, broker)
            load.only_receive()
            held = {queue: await everything_in(broker, queue) for queue in QUEUES}
            await asyncio.to_thread(broker.start)
            await drained(book, held)
            assert await asyncio.to_thread(broker.stop) == 0
        for queue in QUEUES:
            log = book.logs[queue]
            log += await everything_in(broker, queue)
            assert check_history(log) == [], f"with seed {seed}"
            check_that_it_was_hard(log, faults=kills)


async def drained(book: Logbook, held: dict[str, list[Left]]) -> None:
    """Wait until all that was there has been completed; locks of the dead end meanwhile."""
    waiting = {queue: {entry.sequence for entry in left} for queue, left in held.items()}
    missing, deadline = waiting, 0.0
    while any(missing.values()):
        before = missing
        missing = {queue: waiting[queue] - book.completed[queue] for queue in QUEUES}
        now = asyncio.get_running_loop().time()
        if missing != before or not deadline:
            deadline = now + STALL_SECONDS_MAX
        assert now < deadline, f"do not come back: {missing}"
        await asyncio.sleep(POLL_SECONDS)
