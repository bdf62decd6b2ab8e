"""A redrive is cut off again and again: the command or the broker is killed, and it is run anew.

Nothing is lost, nothing is doubled, and messages of one key come back in their order.
"""

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from bendybus.broker.browse import browse
from bendybus.broker.clock import SystemClock
from bendybus.client import AsyncClient
from bendybus.model.ids import SubQueue
from bendybus.model.message import Marks, Message
from bendybus.model.operations import Append
from bendybus.model.partitioning import fragment_for
from bendybus.testing.broker_process import BrokerProcess, broker_process
from tests.kill.stored_messages import opened

CONFIG: Final = Path(__file__).with_name("namespace.yaml")
KEYS: Final = [f"key-{number}" for number in range(40)]
KILLS: Final = 5
# Slow enough that a kill comes before the end.
RATE: Final = 10_000
DEAD: Final = Marks("Rejected", "a test", "a queue")
TOGETHER: Final = 1000
SECONDS_MAX: Final = 240
POLL_SECONDS: Final = 0.002
REST_SECONDS: Final = 0.05


LONG: Final = [pytest.mark.prove, pytest.mark.timeout(900)]
AS_IT_IS: Final[list[str]] = []
EDITED: Final = ["--set", "again = TRUE"]
ELSEWHERE: Final = ["--to", "partitioned"]


@pytest.mark.spec("R8.2")
@pytest.mark.parametrize(
    ("queue", "options", "count", "stores"),
    [
        pytest.param("conventional", AS_IT_IS, 20_000, "files", marks=pytest.mark.timeout(300)),
        pytest.param("conventional", AS_IT_IS, 100_000, "files", marks=LONG),
        pytest.param("conventional", EDITED, 100_000, "files", marks=LONG),
        pytest.param("partitioned", AS_IT_IS, 100_000, "files", marks=LONG),
        pytest.param("partitioned", EDITED, 100_000, "files", marks=LONG),
        pytest.param("conventional", ELSEWHERE, 100_000, "files", marks=LONG),
        pytest.param("partitioned", AS_IT_IS, 20_000, "databases", marks=LONG),
        pytest.param("conventional", ELSEWHERE, 20_000, "databases", marks=LONG),
    ],
    indirect=["stores"],
)
async def test_a_redrive_that_is_killed_loses_and_doubles_nothing(
    queue: str, options: list[str], count: int, stores: Sequence[str]
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    with broker_process(CONFIG, stores=stores) as broker:
        assert await asyncio.to_thread(broker.stop) == 0
        await bury(broker, queue, count)
        await asyncio.to_thread(broker.start)
        left = count
        command = start_redrive(broker, queue, options)
        try:
            for number in range(KILLS):
                # Anywhere in what is left, but for the kills to come.
                stop_at = left - rng.randint(1, left // (KILLS - number + 1))
                await few_left(broker, queue, stop_at)
                if number % 2:
                    command.kill()
                    await asyncio.to_thread(command.communicate)
                    resting = await left_at_rest(broker, queue)
                    command = start_redrive(broker, queue, options)
                    # It has begun: if it found no broker then, it would end, and say so.
                    left = await few_left(broker, queue, max(resting - 1, 0))
                else:
                    # The command goes on with the next one.
                    await asyncio.to_thread(broker.kill)
                    await asyncio.to_thread(broker.start)
                    left = await few_left(broker, queue, count)
                assert left, f"not cut off in the middle, with seed {seed}"
            _, errors = await asyncio.to_thread(command.communicate, timeout=SECONDS_MAX)
            assert command.returncode == 0, errors
        finally:
            command.kill()
            command.wait()
        destination = options[1] if options is ELSEWHERE else queue
        await all_arrived(broker, destination, count)
        assert await asyncio.to_thread(broker.stop) == 0
        alive, dead = await contents_of(broker, destination)

    assert dead == []
    numbers = [int(content.rsplit(b"#", 1)[1]) for content in alive]
    assert sorted(numbers) == list(range(count)), f"with seed {seed}"
    for key in range(len(KEYS)):
        own = [number for number in numbers if number % len(KEYS) == key]
        assert own == sorted(own), f"out of order, with seed {seed}"


async def bury(broker: BrokerProcess, queue: str, count: int) -> None:
    """Write dead letters into the files of a broker that does not run."""
    clock = SystemClock()
    async with opened(broker, clock) as local:
        sources = local.queue(queue).sub_queues[SubQueue.DEAD_LETTER].sources
        given: dict[int, list[Message]] = {}
        for number in range(count):
            key = KEYS[number % len(KEYS)]
            message = Message(content(number), partition_key=key, marks=DEAD)
            given.setdefault(fragment_for(key, len(sources)), []).append(message)
        for fragment, messages in given.items():
            source = sources[fragment]
            for at in range(0, len(messages), TOGETHER):
                some = messages[at : at + TOGETHER]
                await source.store.apply([Append(source.number, some, 1 << 40)], now=clock.now())


def content(number: int) -> bytes:
    """Return a message as it is kept: nothing said beside it, and a body of data."""
    body = b"message #%d" % number
    return b"\x00" + b"\x00\x53\x75\xa0" + bytes((len(body),)) + body


def start_redrive(
    broker: BrokerProcess, queue: str, options: Sequence[str]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "bendybus", "redrive", queue, "--rate", str(RATE), *options),
            *("--connection-string", broker.connection_string()),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def few_left(broker: BrokerProcess, queue: str, count: int) -> int:
    """Wait until there are so few dead letters; return how many there are."""
    return await counted(broker, queue, SubQueue.DEAD_LETTER, lambda left: left <= count)


async def all_arrived(broker: BrokerProcess, queue: str, count: int) -> None:
    """Wait until so many messages are there: what goes elsewhere takes its time."""
    await counted(broker, queue, SubQueue.MAIN, lambda arrived: arrived >= count)


async def left_at_rest(broker: BrokerProcess, queue: str) -> int:
    """Count dead letters until nothing is under way that a command had asked for."""
    before, left = -1, await few_left(broker, queue, sys.maxsize)
    while left != before:
        await asyncio.sleep(REST_SECONDS)
        before, left = left, await few_left(broker, queue, sys.maxsize)
    return left


async def counted(
    broker: BrokerProcess, queue: str, sub_queue: SubQueue, is_met: Callable[[int], bool]
) -> int:
    """Count the messages until there are as many as should be."""
    async with (
        asyncio.timeout(SECONDS_MAX),
        AsyncClient.from_connection_string(broker.connection_string()) as client,
    ):
        while True:
            count = await client.count(queue, sub_queue=sub_queue)
            if is_met(count):
                return count
            await asyncio.sleep(POLL_SECONDS)


async def contents_of(broker: BrokerProcess, queue: str) -> tuple[list[bytes], list[bytes]]:
    """Return what the files of a stopped broker hold: the queue, and its dead letters."""
    found: list[list[bytes]] = []
    async with opened(broker, SystemClock()) as local:
        for kind in (SubQueue.MAIN, SubQueue.DEAD_LETTER):
            contents: list[bytes] = []
            following = 0
            while some := await browse(local.queue(queue).sub_queues[kind], following, 250):
                contents += [message.content for message in some]
                following = some[-1].sequence + 1
            found.append(contents)
    [alive, dead] = found
    return alive, dead
