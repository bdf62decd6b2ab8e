"""A triage that is cut off again and again deals with every dead letter once."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bendybus.client import Client, Message, Purge, ReceiveMode
from tests.spark.conftest import Bus
from tests.spark.dead_letters import DEAD, SOON, as_bytes, rules_in
from tests.spark.driver import Driver, driver
from tests.spark.kills import MOMENT_SECONDS_MAX, STORES, store_away

pytestmark = [pytest.mark.prove, pytest.mark.spec("R9.3"), pytest.mark.timeout(3600)]
TOGETHER = 1000
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


def bury_many(client: Client, queue: str, count: int) -> None:
    sender = client.sender(queue)
    for start in range(0, count, TOGETHER):
        numbers = range(start, start + TOGETHER)
        sender.send([Message(b"%d" % at, message_id=f"{at}") for at in numbers])
    with client.receiver(queue, prefetch=TOGETHER) as receiver:
        left = count
        while left:
            some = receiver.receive(TOGETHER, SOON)
            receiver.dead_letter(some, "Rejected", "no good")
            left -= len(some)


def dead_in(bus: Bus, queue: str) -> int:
    """Count dead letters by a connection of its own: the broker may have been killed meanwhile."""
    with Client.from_connection_string(bus.connection_string) as client:
        return client.count(queue, sub_queue=DEAD)


def received(client: Client, queue: str) -> list[bytes]:
    """Return the bodies of all messages; they are gone then."""
    found: list[bytes] = []
    with client.receiver(queue, mode=ReceiveMode.RECEIVE_AND_DELETE, prefetch=TOGETHER) as receiver:
        while some := receiver.receive(TOGETHER, 1):
            found += map(as_bytes, some)
    return found


def cut_off(running: Driver, bus: Bus, queue: str, rng: random.Random) -> None:
    """Wait until it deals with something, then kill a part of all that it needs.

    The broker and a store that go away may end it, which is why it is run again; whoever calls
    kills it then, at another moment.
    """
    before = dead_in(bus, queue)
    running.wait_for(lambda: running.has_ended or dead_in(bus, queue) < before)
    running.live_on(rng.uniform(0, MOMENT_SECONDS_MAX))
    match rng.randrange(3):
        case 0:
            bus.broker.kill()
            bus.broker.start()
        case 1:
            running.kill_worker()
        case _:
            with store_away(bus, rng.randrange(STORES)):
                running.live_on(rng.uniform(0, MOMENT_SECONDS_MAX))
    running.live_on(rng.uniform(0, MOMENT_SECONDS_MAX))


@pytest.mark.parametrize(("count", "kills"), [(20_000, 4), (1_000_000, 12)])
def test_every_dead_letter_is_dealt_with_once(
    spark: SparkSession,
    mortal: Bus,
    is_partitioned: bool,
    tmp_path: Path,
    count: int,
    kills: int,
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    queue = mortal.queue(is_partitioned=is_partitioned)
    rules = rules_in(tmp_path, RULES.format(folder=tmp_path))
    command = (
        *("triage", queue, "--rules", str(rules)),
        *("--management-url", mortal.broker.management_url),
    )
    with Client.from_connection_string(mortal.connection_string) as client:
        bury_many(client, queue, count)
    for _ in range(kills):
        with driver(mortal, *command) as running:
            cut_off(running, mortal, queue, rng)
    with driver(mortal, *command) as running:
        running.result()

    archive = spark.read.parquet(f"{tmp_path}/archive").select("body")
    archived = [bytes(row["body"]) for row in archive.collect()]
    by_rest = [[b"%d" % at for at in range(rest, count, 5)] for rest in range(5)]
    redriven = by_rest[0] + [b"edited " + each for each in by_rest[1]]
    with Client.from_connection_string(mortal.connection_string) as client:
        assert sorted(received(client, queue)) == sorted(redriven), seed
        assert sorted(archived) == sorted(by_rest[2]), seed
        assert client.count(queue, sub_queue=DEAD) == len(by_rest[4]), seed
        client.purge(queue, Purge(), sub_queue=DEAD)
