"""A triage that is killed again and again deals with every dead letter once."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bendybus.client import Client, Message, Purge, ReceiveMode
from tests.spark.conftest import MASTER, Bus
from tests.spark.dead_letters import DEAD, SOON, as_bytes, rules_in

pytestmark = [pytest.mark.prove, pytest.mark.spec("R9.3"), pytest.mark.timeout(900)]
COUNT = 20_000
KILLS = 4
RULES = """\
rules:
  - match: {{where: "pmod(cast(message_id AS INT), 5) = 0"}}
    do: redrive
  - match: {{where: "pmod(cast(message_id AS INT), 5) = 1"}}
    do: edit
    set: {{body: "concat('edited ', cast(body AS STRING))"}}
  - match: {{where: "pmod(cast(message_id AS INT), 5) = 2"}}
    do: archive
    into: {folder}/archive
  - match: {{where: "pmod(cast(message_id AS INT), 5) = 3"}}
    do: drop
"""


def command(bus: Bus, queue: str, rules: Path) -> Sequence[str]:
    return [
        *(sys.executable, "-m", "bendybus", "pipeline", "run", "triage", queue),
        *("--rules", str(rules), "--master", MASTER),
        *("--connection-string", bus.connection_string, "--flight-endpoint", bus.flight_endpoint),
        *("--management-url", bus.broker.management_url),
    ]


def killed_after(seconds: float, arguments: Sequence[str]) -> bool:
    """Run a program and kill it with all that it started; say whether it had ended before."""
    process = subprocess.Popen(
        arguments, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(SOON)
        return False
    return True


def bury_many(client: Client, queue: str) -> None:
    sender = client.sender(queue)
    for start in range(0, COUNT, 1000):
        numbers = range(start, start + 1000)
        sender.send([Message(b"%d" % at, message_id=f"{at}") for at in numbers])
    with client.receiver(queue, prefetch=1000) as receiver:
        left = COUNT
        while left:
            some = receiver.receive(1000, SOON)
            receiver.dead_letter(some, "Rejected", "no good")
            left -= len(some)


def received(client: Client, queue: str) -> list[bytes]:
    """Return the bodies of all messages; they are gone then."""
    found: list[bytes] = []
    with client.receiver(queue, mode=ReceiveMode.RECEIVE_AND_DELETE, prefetch=1000) as receiver:
        while some := receiver.receive(1000, 1):
            found += map(as_bytes, some)
    return found


def test_every_dead_letter_is_dealt_with_once(
    spark: SparkSession, bus: Bus, is_partitioned: bool, tmp_path: Path
) -> None:
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")  # noqa: T201 - to find the same moments again
    chance = random.Random(seed)
    queue = bus.queue(is_partitioned=is_partitioned)
    rules = rules_in(tmp_path, RULES.format(folder=tmp_path))
    arguments = command(bus, queue, rules)
    with Client.from_connection_string(bus.connection_string) as client:
        bury_many(client, queue)
        for _ in range(KILLS):
            killed_after(chance.uniform(15, 40), arguments)
        ends_at = time.monotonic() + 300
        while subprocess.run(arguments, check=False, capture_output=True).returncode:
            assert time.monotonic() < ends_at

        alive = received(client, queue)
        archived = [row["body"] for row in spark.read.parquet(f"{tmp_path}/archive").collect()]

        by_rest = [[b"%d" % at for at in range(rest, COUNT, 5)] for rest in range(5)]
        redriven = by_rest[0] + [b"edited " + each for each in by_rest[1]]
        assert sorted(alive) == sorted(redriven)
        assert sorted(archived) == sorted(by_rest[2])
        assert client.count(queue, sub_queue=DEAD) == len(by_rest[4])
        client.purge(queue, Purge(), sub_queue=DEAD)
