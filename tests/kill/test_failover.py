"""Servers fail over to their synchronous standbys under load, and what clients saw is judged."""

import asyncio
import random
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from bendybus.testing.history_checker import Rule, check_history
from bendybus.testing.postgres import postgres_server, url_of
from tests.kill.fleet import FRONT_ENDS, SERVERS, Fleet, started
from tests.kill.load import QUEUES, Load, check_that_it_was_hard
from tests.kill.logbook import Logbook
from tests.kill.test_front_ends_fail import CONFIG, drained

ENTRIES_BETWEEN: Final = 2000
# What a server may take to be found again: the time of the front ends' own attempts.
SECONDS_MAX: Final = 30.0
ACCEPTED_AFTER: Final = 200
POLL_SECONDS: Final = 0.02


class Couple:
    """A server and its standby, which front ends know by one URL."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.primary = stack.enter_context(postgres_server())
        self._name = self.primary.make_database()
        self._standby = stack.enter_context(self.primary.standby())

    @property
    def url(self) -> str:
        """Where the store is, whichever of the two can be written to."""
        return url_of([self.primary.port, self._standby.port], self._name)

    def fail_over(self) -> None:
        """The primary dies, and the standby takes its place."""
        dead, self.primary = self.primary, self._standby
        dead.kill()
        self.primary.promote()
        self._standby = dead

    def replace_the_dead(self) -> None:
        """A new server comes where the dead one was, and follows the one that is left."""
        self._standby = self._stack.enter_context(self.primary.standby(self._standby.port))


@pytest.mark.spec("R1.2")
@pytest.mark.parametrize(
    "times",
    [
        pytest.param(1, marks=pytest.mark.timeout(240)),
        pytest.param(5, marks=[pytest.mark.prove, pytest.mark.timeout(1200)]),
    ],
)
async def test_nothing_acknowledged_is_lost_when_standbys_take_over(
    times: int, tmp_path: Path
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Logbook(QUEUES)
    with ExitStack() as stack:
        couples = [Couple(stack) for _ in range(SERVERS)]
        urls = [couple.url for couple in couples]
        front_ends = await started(stack, CONFIG, tmp_path, [urls] * FRONT_ENDS)
        fleet = Fleet([], [], front_ends, urls)
        load = Load(book, rng)
        async with load.running(partial(fleet.choose, rng)):
            for _ in range(times):
                couple = rng.choice(couples)
                await book.at(rng.randint(1, ENTRIES_BETWEEN), couple.primary.kill)
                await asyncio.to_thread(couple.fail_over)
                await served(book)
                await asyncio.to_thread(couple.replace_the_dead)
            await book.at(ENTRIES_BETWEEN, lambda: None)
            load.only_receive()
            await drained(fleet)
            await fleet.stop()
    for queue in QUEUES:
        # The last locks are not waited for: a standby may not know them, and frees the messages.
        violations = [
            each for each in check_history(book.logs[queue]) if each.rule != Rule.RECEIVED_IN_ORDER
        ]
        assert violations == [], f"with seed {seed}"
    check_that_it_was_hard([entry for log in book.logs.values() for entry in log], faults=times)


async def served(book: Logbook) -> None:
    """Wait until both queues take messages again."""
    enough = {queue: count + ACCEPTED_AFTER for queue, count in book.acknowledged.items()}
    async with asyncio.timeout(SECONDS_MAX):
        while any(book.acknowledged[queue] < enough[queue] for queue in QUEUES):  # noqa: ASYNC110 - seldom
            await asyncio.sleep(POLL_SECONDS)
