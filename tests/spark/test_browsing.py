"""Streams that look at an entity and change nothing in it."""

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.conftest import Bus
from tests.spark.streams import Capture, wait_for
from tests.spark.traffic import count_of, numbered, send

pytestmark = pytest.mark.spec("R9.1")


@pytest.fixture
def capture(spark: SparkSession, bus: Bus, tmp_path: Path) -> Capture:
    return Capture(spark, bus, tmp_path)


def browse(capture: Capture, entity: str, **options: object) -> DataFrame:
    return capture.source(entity, mode="browse", **options)


def test_what_is_browsed_is_in_the_table_once_and_still_in_the_queue(
    capture: Capture, is_partitioned: bool
) -> None:
    queue = capture.bus.queue(is_partitioned=is_partitioned)
    send(capture.bus, queue, numbered(300))
    assert capture.run(browse(capture, queue, maxMessagesPerTrigger=100)) >= 3
    send(capture.bus, queue, numbered(100, first=300))
    capture.run(browse(capture, queue))
    assert capture.numbers() == list(range(400))
    assert count_of(capture.bus, queue) == 400


def test_a_stream_from_the_latest_sees_what_comes_then(capture: Capture) -> None:
    queue = capture.bus.queue(is_partitioned=True)
    send(capture.bus, queue, numbered(20))
    frame = browse(capture, queue, startingOffsets="latest")
    query = capture.start(frame, is_endless=True)
    try:
        wait_for(lambda: query.lastProgress is not None, query)
        send(capture.bus, queue, numbered(20, first=20))
        wait_for(lambda: len(capture.numbers()) == 20, query)
    finally:
        query.stop()
    assert capture.numbers() == list(range(20, 40))


def test_a_stream_that_goes_on_reports_its_lag(capture: Capture) -> None:
    queue = capture.bus.queue(is_partitioned=True)
    send(capture.bus, queue, numbered(20))
    query = capture.start(browse(capture, queue, maxMessagesPerTrigger=16), is_endless=True)
    try:
        wait_for(lambda: len(capture.numbers()) == 20, query)
        wait_for(lambda: sum(_lag(query.lastProgress).values()) == 0, query)
        behind = [sum(_lag(each).values()) for each in query.recentProgress]
    finally:
        query.stop()
    assert any(behind)


def _lag(progress: object) -> dict[str, int]:
    [source] = progress.sources  # type: ignore[attr-defined]  # of a query that runs
    lag = json.loads(source.latestOffset)["lag"]
    assert isinstance(lag, dict)
    return lag
