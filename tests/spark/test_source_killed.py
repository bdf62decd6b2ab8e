"""Kills in the middle of streams: of the broker, of workers, of the driver. Nothing is lost."""

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tests.spark.conftest import Bus
from tests.spark.driver import script
from tests.spark.kills import MOMENT_SECONDS_MAX, STORES, store_away
from tests.spark.streams import Capture, wait_for
from tests.spark.traffic import count_of, numbered, numbers, receive_all, send

pytestmark = [pytest.mark.spec("R9.3")]


def test_the_broker_is_killed_while_a_stream_moves_messages(
    spark: SparkSession, mortal: Bus, tmp_path: Path
) -> None:
    source, target = mortal.queue(is_partitioned=True), mortal.queue(is_partitioned=True)
    send(mortal, source, numbered(3000))
    frame = (
        spark.readStream.format("servicebus")
        .options(**mortal.source(source, mode="consume", reader="r", maxMessagesPerTrigger=200))
        .load()
        .select("body", "message_id")
    )
    writer = frame.writeStream.format("servicebus").options(**mortal.source(target))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        for done in (400, 1200, 2000):
            wait_for(lambda: count_of(mortal, target) >= done, query)  # noqa: B023 - called now
            mortal.broker.kill()
            mortal.broker.start()
        wait_for(lambda: count_of(mortal, source) == 0, query)
    finally:
        query.stop()
    assert numbers(receive_all(mortal, target)) == list(range(3000))


def test_workers_are_killed_while_they_read_and_write(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    source, target = bus.queue(is_partitioned=True), bus.queue(is_partitioned=True)
    send(bus, source, numbered(400))
    capture = Capture(spark, bus, tmp_path)
    frame = capture.source(source)

    def die_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if TaskContext.get().attemptNumber() == 0:  # type: ignore[union-attr]  # in a task
            os.kill(os.getpid(), signal.SIGKILL)

    dying = frame.mapInArrow(die_once, frame.schema).select("body")
    writer = dying.writeStream.format("servicebus").options(**bus.source(target))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)

    assert numbers(receive_all(bus, target)) == list(range(400))
    assert count_of(bus, source) == 0


@pytest.mark.prove
def test_the_driver_is_killed_at_random_moments(bus: Bus, tmp_path: Path) -> None:
    source, target = bus.queue(is_partitioned=True), bus.queue(is_partitioned=True)
    count = 50_000
    send(bus, source, numbered(count))
    kills = 0
    while True:
        enough = count_of(bus, target) + 3000
        with script(bus, "moving_driver", tmp_path, source, target) as running:
            running.wait_for_or_end(lambda: count_of(bus, target) >= enough)  # noqa: B023 - called now
            if running.has_ended:
                running.end()
                break
        kills += 1
    assert kills >= 3
    assert numbers(receive_all(bus, target)) == list(range(count))
    assert count_of(bus, source) == 0


@pytest.mark.prove
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("count", "kills", "seconds_max"), [(20_000, 2, 3.0), (1_000_000, 12, 12.0)]
)
def test_a_write_that_is_killed_writes_every_row_once(
    spark: SparkSession, mortal: Bus, count: int, kills: int, seconds_max: float
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    queue = mortal.queue(is_partitioned=True)
    unfinished = 0
    for number in range(kills):
        with script(mortal, "writing_driver", queue, count) as running:
            running.wait_for_line()
            running.live_on(rng.uniform(0, seconds_max))
            unfinished += not running.has_ended
            if number % 2:
                mortal.broker.kill()
                mortal.broker.start()
                running.kill_worker()
                with store_away(mortal, rng.randrange(STORES)):
                    running.live_on(rng.uniform(0, MOMENT_SECONDS_MAX))
                running.live_on(rng.uniform(0, seconds_max))
    # The second run finds that all is written.
    for _ in range(2):
        with script(mortal, "writing_driver", queue, count) as running:
            running.end()
    assert unfinished, seed
    rows = spark.read.format("servicebus").options(**mortal.source(queue)).load()
    written = rows.select("body", "partition_key", "sequence_number").collect()
    assert sorted(int(row["body"]) for row in written) == list(range(count)), seed
    assert all(row["partition_key"] == f"k{int(row['body']) % 100}" for row in written), seed
