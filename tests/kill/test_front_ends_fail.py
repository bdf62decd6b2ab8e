"""Front ends, servers and networks fail under load, and what clients saw is judged."""

import asyncio
import itertools
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from bendybus.testing.history_checker import (
    Acknowledged,
    Entry,
    Rule,
    Sent,
    Violation,
    check_history,
)
from tests.kill.faults import FREE_MESSAGES, KEEP_LOCKS, Fault, Trial, a_front_end_is_killed
from tests.kill.fleet import Fleet, fleet_of
from tests.kill.load import QUEUES, Load, check_that_it_was_hard
from tests.kill.logbook import Logbook
from tests.kill.stored_messages import catalog_of, left_in

CONFIG: Final = Path(__file__).with_name("namespace.yaml")
# How many entries of the log pass, at most, between one fault and the next.
ENTRIES_BETWEEN_MAX: Final = 2000
# How long nothing may come back while something is there: several times what a lock lasts.
STALL_SECONDS_MAX: Final = 30
POLL_SECONDS: Final = 0.25


@pytest.mark.spec("R1.2")
@pytest.mark.spec("R2.5")
@pytest.mark.parametrize(
    ("possible", "count"),
    [
        pytest.param(KEEP_LOCKS, 3, marks=pytest.mark.timeout(240), id="keeping-locks-3"),
        pytest.param(
            KEEP_LOCKS,
            80,
            marks=[pytest.mark.prove, pytest.mark.timeout(3000)],
            id="keeping-locks-80",
        ),
        pytest.param(
            KEEP_LOCKS + FREE_MESSAGES,
            80,
            marks=[pytest.mark.prove, pytest.mark.timeout(3000)],
            id="of-all-kinds-80",
        ),
    ],
)
async def test_nothing_is_lost_doubled_or_disordered_when_a_part_fails(
    possible: Sequence[Fault], count: int, tmp_path: Path
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    # The first is sure to cut something off; then each kind comes before any comes twice.
    kinds = [a_front_end_is_killed, *rng.sample(possible, len(possible))]
    faults = list(itertools.islice(itertools.cycle(kinds), count))
    book = Logbook(QUEUES)
    async with fleet_of(CONFIG, tmp_path) as fleet:
        load = Load(book, rng)
        trial = Trial(fleet, load, book, rng)
        async with load.running(partial(fleet.choose, rng)):
            for fault in faults:
                await book.at(rng.randint(1, ENTRIES_BETWEEN_MAX), lambda: None)
                await fault(trial)
            await book.at(ENTRIES_BETWEEN_MAX, lambda: None)
            load.only_receive()
            await drained(fleet)
            await fleet.stop()
    told = f"with seed {seed}: {[fault.__name__ for fault in faults]}"
    for queue in QUEUES:
        if possible is KEEP_LOCKS:
            violations = check_history(book.logs[queue])
        else:
            violations = violations_when_freed(book.logs[queue])
        assert violations == [], told
    check_that_it_was_hard([entry for log in book.logs.values() for entry in log], faults=count)


def violations_when_freed(log: list[Entry]) -> list[Violation]:
    """Judge a log without what no broker can promise when its parts pause and give back.

    Messages that are freed uncounted come late. And what was on its way through a front end that
    paused, while its client had gone to another and sent more there, is kept when it wakes.
    """
    acknowledged = {entry.message for entry in log if isinstance(entry, Acknowledged)}
    known = [
        Sent(entry.message, None)
        if isinstance(entry, Sent) and entry.message not in acknowledged
        else entry
        for entry in log
    ]
    return [each for each in check_history(known) if each.rule is not Rule.RECEIVED_IN_ORDER]


async def drained(fleet: Fleet) -> None:
    """Wait until nothing is left; locks of the dead end meanwhile."""
    before, deadline = -1, 0.0
    async with catalog_of(fleet.stores) as catalog:
        while left := sum([len(await left_in(catalog, queue)) for queue in QUEUES]):
            now = asyncio.get_running_loop().time()
            if left != before:
                before, deadline = left, now + STALL_SECONDS_MAX
            assert now < deadline, f"{left} messages do not come back"
            await asyncio.sleep(POLL_SECONDS)
