"""A broker that is stopped has everything when it starts again, and its folder to itself."""

import asyncio
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from bendybus.testing.broker_process import broker_process
from bendybus.testing.history_checker import (
    Acknowledged,
    CompletionAsked,
    Entry,
    check_history,
)
from tests.kill.load_client import LoadReceiver, LoadSender
from tests.kill.stored_messages import everything_in

CONFIG: Final = Path(__file__).with_name("namespace.yaml")
QUEUE: Final = "partitioned"
WAIT_SECONDS: Final = 30
POLL_SECONDS: Final = 0.01
KEYS: Final = [None, "red", "green", "blue"]


def count(log: list[Entry], kind: type[Entry]) -> int:
    return sum(isinstance(entry, kind) for entry in log)


async def until(log: list[Entry], kind: type[Entry], number: int) -> None:
    """Wait until the log has so many entries of a kind."""
    async with asyncio.timeout(WAIT_SECONDS):
        while count(log, kind) < number:  # noqa: ASYNC110 - the log is no event
            await asyncio.sleep(POLL_SECONDS)


@pytest.mark.spec("R3.6")
async def test_a_broker_stopped_under_load_has_everything_when_it_starts_again() -> None:
    log: list[Entry] = []
    rng = random.Random(random.getrandbits(32))
    sender = LoadSender("sender", QUEUE, log.append, KEYS, rng)
    # Only one: what a stopping broker gives back for it is newer than all that it was handed.
    receiver = LoadReceiver("receiver", QUEUE, log.append, rng)
    with broker_process(CONFIG) as broker:
        async with asyncio.TaskGroup() as group:
            group.create_task(sender.run(broker.amqp_port))
            group.create_task(receiver.run(broker.amqp_port))
            for life in range(1, 4):
                await until(log, Acknowledged, 1000 * life)
                assert await asyncio.to_thread(broker.stop) == 0
                await asyncio.to_thread(broker.start)
                await until(log, CompletionAsked, 500 * life)
            sender.stop()
            receiver.stop()
            assert await asyncio.to_thread(broker.stop) == 0
        left = await everything_in(broker, QUEUE)
    assert left
    assert check_history([*log, *left]) == []


async def test_a_second_broker_on_the_folder_is_refused_and_the_first_goes_on() -> None:
    log: list[Entry] = []
    sender = LoadSender("sender", QUEUE, log.append, KEYS, random.Random(1))
    with broker_process(CONFIG) as broker:
        async with asyncio.TaskGroup() as group:
            group.create_task(sender.run(broker.amqp_port))
            await until(log, Acknowledged, 1)
            second = await asyncio.to_thread(partial(serve_on, broker.folder / "data"))
            await until(log, Acknowledged, count(log, Acknowledged) + 1000)
            sender.leave()
    assert (second.returncode, second.stdout) == (1, "")
    [line] = second.stderr.splitlines()
    assert "another broker runs on the data folder" in line
    assert str(broker.folder / "data") in line


def serve_on(folder: Path) -> subprocess.CompletedProcess[str]:
    """Start a broker and wait for its end."""
    command = [
        *(sys.executable, "-m", "bendybus", "serve", "--config", str(CONFIG)),
        *("--data", str(folder), "--amqp-port", "0", "--http-port", "0"),
        *("--flight-port", "none"),
    ]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
