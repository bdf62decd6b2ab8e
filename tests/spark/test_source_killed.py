"""Kills in the middle of streams: of the broker, of workers, of the driver. Nothing is lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tests.spark.conftest import Bus
from tests.spark.streams import Capture, wait_for
from tests.spark.traffic import count_of, numbered, numbers, receive_all, send

pytestmark = [pytest.mark.spec("R9.3")]
DRIVER = Path(__file__).with_name("moving_driver.py")


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
    command = [sys.executable, str(DRIVER), str(tmp_path), source, target]
    environment = {
        **os.environ,
        "BENDYBUS_CONNECTION_STRING": bus.connection_string,
        "BENDYBUS_FLIGHT_ENDPOINT": bus.flight_endpoint,
    }
    kills = 0
    while True:
        driver = subprocess.Popen(command, env=environment, start_new_session=True)
        before = count_of(bus, target)
        deadline = time.monotonic() + 120
        while driver.poll() is None and count_of(bus, target) < before + 3000:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        if driver.poll() is not None:
            assert driver.returncode == 0
            break
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        kills += 1
    assert kills >= 3
    assert numbers(receive_all(bus, target)) == list(range(count))
    assert count_of(bus, source) == 0
