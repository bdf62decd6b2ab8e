"""Streams that take messages out of the broker, each exactly once."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import SourceProgress

import pyspark_servicebus
from pyspark_servicebus.offsets import read_any_consumed
from tests.spark.conftest import Bus
from tests.spark.streams import Capture, finish, wait_for
from tests.spark.traffic import count_of, numbered, numbers, receive_all, send

pytestmark = [pytest.mark.spec("R9.2"), pytest.mark.spec("R9.3")]


@pytest.fixture
def capture(spark: SparkSession, bus: Bus, tmp_path: Path) -> Capture:
    return Capture(spark, bus, tmp_path)


def test_what_is_consumed_is_in_the_table_once_and_no_longer_in_the_queue(
    capture: Capture, is_partitioned: bool
) -> None:
    queue = capture.bus.queue(is_partitioned=is_partitioned)
    send(capture.bus, queue, numbered(500))
    assert capture.run(capture.source(queue, maxMessagesPerTrigger=150)) >= 4
    assert capture.numbers() == list(range(500))
    assert count_of(capture.bus, queue) == 0

    send(capture.bus, queue, numbered(100, first=500))
    capture.run(capture.source(queue))
    assert capture.numbers() == list(range(600))
    assert count_of(capture.bus, queue) == 0


@pytest.fixture
def going_on(capture: Capture) -> SourceProgress:
    """What a stream that goes on said of its source, when it had committed its last batch."""
    queue = capture.bus.queue(is_partitioned=True)
    query = capture.start(capture.source(queue), is_endless=True)
    try:
        send(capture.bus, queue, numbered(40))
        wait_for(lambda: count_of(capture.bus, queue) == 0, query)
        wait_for(lambda: len(capture.numbers()) == 40, query)
        progress = next(each for each in query.recentProgress if each.numInputRows)
    finally:
        query.stop()
    [source] = progress.sources
    return source


def test_a_stream_that_goes_on_commits_its_last_batch(going_on: SourceProgress) -> None:
    offset = read_any_consumed(going_on.endOffset)
    assert offset is not None
    assert offset.reader == "capture"
    assert list(offset.positions) == list(range(16))


def test_a_stream_that_goes_on_reports_its_lag(going_on: SourceProgress) -> None:
    lag = json.loads(going_on.latestOffset)["lag"]
    assert list(lag) == [str(fragment) for fragment in range(16)]


def test_tasks_that_fail_after_reading_read_the_same_again(capture: Capture) -> None:
    queue = capture.bus.queue(is_partitioned=True)
    send(capture.bus, queue, numbered(300))

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if TaskContext.get().attemptNumber() == 0:  # type: ignore[union-attr]  # in a task
            raise RuntimeError("failed after reading")

    frame = capture.source(queue)
    capture.run(frame.mapInArrow(fail_once, frame.schema))

    assert capture.numbers() == list(range(300))
    assert count_of(capture.bus, queue) == 0


@pytest.mark.parametrize("is_moved", [pytest.param(False, marks=pytest.mark.prove), True])
def test_a_batch_that_failed_is_read_again_from_the_checkpoint(
    capture: Capture, is_moved: bool, tmp_path: Path
) -> None:
    queue = capture.bus.queue(is_partitioned=True)
    send(capture.bus, queue, numbered(200))
    fails = tmp_path / "fails"
    fails.touch()

    def fail_if_told(
        batches: Iterator[pa.RecordBatch], path: str = str(fails)
    ) -> Iterator[pa.RecordBatch]:
        yield from batches
        if Path(path).exists():
            raise RuntimeError("failed on purpose")

    frame = capture.source(queue)
    frame = frame.mapInArrow(fail_if_told, frame.schema)
    with pytest.raises(StreamingQueryException, match="failed on purpose"):
        capture.run(frame)
    fails.unlink()
    assert receive_all(capture.bus, queue) == []
    send(capture.bus, queue, numbered(50, first=200))
    if is_moved:
        moved = tmp_path / "elsewhere"
        moved.mkdir()
        shutil.move(capture.checkpoint, moved / "checkpoint")
        capture.checkpoint = moved / "checkpoint"
    capture.run(frame)

    assert capture.numbers() == list(range(250))
    assert count_of(capture.bus, queue) == 0


def test_ordinary_receivers_compete_and_every_message_goes_to_one_side(
    capture: Capture, is_partitioned: bool
) -> None:
    queue = capture.bus.queue(is_partitioned=is_partitioned)
    send(capture.bus, queue, numbered(200))
    query = capture.start(capture.source(queue, maxMessagesPerTrigger=50), is_endless=True)
    received: list[int] = []
    try:
        for first in range(200, 800, 100):
            send(capture.bus, queue, numbered(100, first=first))
            received += numbers(receive_all(capture.bus, queue))
        wait_for(lambda: count_of(capture.bus, queue) == 0, query)
        wait_for(lambda: len(capture.numbers()) + len(received) >= 800, query)
    finally:
        query.stop()
    assert sorted(capture.numbers() + received) == list(range(800))


def test_a_checkpoint_of_another_entity_is_refused(capture: Capture) -> None:
    queue, other = capture.bus.queue(), capture.bus.queue()
    send(capture.bus, queue, numbered(1))
    capture.run(capture.source(queue))
    with pytest.raises(StreamingQueryException, match=f"for '{queue}', and this query reads"):
        capture.run(capture.source(other))


def test_what_is_done_can_be_committed_by_a_listener_and_by_hand(
    capture: Capture, spark: SparkSession
) -> None:
    queue = capture.bus.queue(is_partitioned=True)
    options = capture.bus.source(queue)
    listener = pyspark_servicebus.settle(spark, options)
    try:
        send(capture.bus, queue, numbered(30))
        frame = capture.source(queue)
        query = frame.writeStream.format("noop").trigger(processingTime="1 hour")
        running = query.option("checkpointLocation", str(capture.checkpoint)).start()
        try:
            wait_for(lambda: count_of(capture.bus, queue) == 0, running)
            progress = running.recentProgress[0]
        finally:
            running.stop()
    finally:
        spark.streams.removeListener(listener)
    pyspark_servicebus.commit(options, progress.sources[0].endOffset)
    finish(running)
