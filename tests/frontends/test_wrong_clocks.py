"""Front ends whose machines have the wrong time, in processes of their own, on the same stores.

One is ten minutes fast, the other ten minutes slow; the test and the servers have the right time.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

import httpx
import pytest

from bendybus.client import AsyncClient, Message
from bendybus.model.access import make_sas
from bendybus.testing.broker_process import BrokerProcess
from bendybus.testing.postgres import PostgresServer

CONFIG: Final = Path(__file__).with_name("wrong_clocks.yaml")
MINUTES_OFF: Final = 10
# What passes between an act and the look at it, on a busy machine.
NEARLY_NOTHING: Final = timedelta(seconds=20)
LOCK: Final = timedelta(minutes=1)
SOON: Final = timedelta(seconds=2)
SWEPT_SECONDS: Final = 0.6
SECONDS_MAX: Final = 30
# Runs before anything else in a process that finds it, and shifts the time of that one alone.
SHIFT: Final = """
import time

_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + {seconds}
time.time_ns = lambda: _time_ns() + {seconds} * 1_000_000_000
"""


def shifted(folder: Path, minutes: int) -> dict[str, str]:
    """Return the environment of a process whose clock is so many minutes fast."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SHIFT.format(seconds=minutes * 60))
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.getenv("PYTHONPATH")])])}


@pytest.fixture
async def front_ends(
    shared_postgres: PostgresServer, tmp_path: Path
) -> AsyncIterator[tuple[BrokerProcess, BrokerProcess]]:
    with ExitStack() as stack:
        urls = [stack.enter_context(shared_postgres.lent_database()) for _ in range(2)]
        made = []
        for minutes in (MINUTES_OFF, -MINUTES_OFF):
            folder = tmp_path / f"{minutes}"
            environment = shifted(folder, minutes)
            made.append(BrokerProcess(folder, CONFIG, stores=urls, environment=environment))
            stack.callback(made[-1].kill)
        await asyncio.gather(*(asyncio.to_thread(each.start) for each in made))
        fast, slow = made
        yield fast, slow


def of(broker: BrokerProcess) -> AsyncClient:
    return AsyncClient.from_connection_string(broker.connection_string())


def answer_of(broker: BrokerProcess) -> tuple[int, datetime]:
    """Ask with a token that ends in five minutes; return the status, and what time it is there."""
    sas = make_sas(
        broker.management_url,
        "RootManageSharedAccessKey",
        "SAS_KEY_VALUE",
        datetime.now(UTC) + timedelta(minutes=5),
    )
    answer = httpx.get(f"{broker.management_url}/$stores", headers={"Authorization": sas})
    return answer.status_code, parsedate_to_datetime(answer.headers["Date"])


async def test_a_front_end_whose_clock_is_ten_minutes_off_changes_nothing(
    front_ends: tuple[BrokerProcess, BrokerProcess],
) -> None:
    fast, slow = front_ends
    for broker, minutes in ((fast, MINUTES_OFF), (slow, -MINUTES_OFF)):
        status, there = await asyncio.to_thread(answer_of, broker)
        assert status == 200, "a token is judged by the wrong time"
        assert abs(there - datetime.now(UTC) - timedelta(minutes=minutes)) < NEARLY_NOTHING
    async with of(fast) as at_fast, of(slow) as at_slow, asyncio.timeout(SECONDS_MAX):
        await asyncio.gather(
            check_times("orders", at_fast, at_slow), check_times("parts", at_slow, at_fast)
        )


async def check_times(queue: str, sending: AsyncClient, receiving: AsyncClient) -> None:
    """Send through one what the other gets: lives, locks and delays are meant as they are told."""
    begun = datetime.now(UTC)
    sender, receiver = sending.sender(queue), receiving.receiver(queue)
    await sender.send(Message("brief", time_to_live=timedelta(minutes=2)))
    [brief] = await receiver.receive(1)
    assert brief.enqueued_time is not None
    assert abs(brief.enqueued_time - begun) < NEARLY_NOTHING
    assert brief.locked_until is not None
    assert abs(brief.locked_until - begun - LOCK) < NEARLY_NOTHING
    # Both look for locks and lives that have ended, and find none.
    other = sending.receiver(queue)
    assert await other.receive(1, timeout=SWEPT_SECONDS) == []
    await receiver.complete(brief)
    due = datetime.now(UTC) + SOON
    await sender.schedule(Message("later", scheduled_time=due))
    [later] = await receiver.receive(1)
    assert later.body == "later"
    assert timedelta(0) <= datetime.now(UTC) - due < NEARLY_NOTHING
    await receiver.complete(later)
