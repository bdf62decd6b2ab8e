"""One store away: what cannot be reached fails by its name, or is skipped and counted."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark.conftest import Bus
from tests.spark.streams import Capture
from tests.spark.traffic import count_of, numbered, numbers, receive_all, send

pytestmark = pytest.mark.spec("R9.3")
STORE = 3
FRAGMENTS = 16
MESSAGES = 194


@contextmanager
def store_offline(bus: Bus) -> Iterator[None]:
    """Take a store away for a while."""
    bus.administration.ask_json("POST", f"/$stores/{STORE}/offline")
    try:
        yield
    finally:
        bus.administration.ask_json("POST", f"/$stores/{STORE}/online")


def test_a_batch_read_fails_by_name_or_skips(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(MESSAGES))
    given = bus.source(queue, timeoutSeconds=1)
    with store_offline(bus):
        reader = spark.read.format("servicebus").options(**given)
        with pytest.raises(PySparkException, match=rf"fragment \d+ of '{queue}' \(store {STORE}\)"):
            reader.load().collect()
        rows = reader.option("skipOffline", "true").load().collect()
    assert len({row.fragment for row in rows}) == FRAGMENTS - 1
    assert 0 < len(rows) < MESSAGES
    assert spark.read.format("servicebus").options(**given).load().count() == MESSAGES


@pytest.mark.parametrize("mode", ["consume", "browse"])
def test_a_stream_fails_by_name_or_skips_and_counts(
    spark: SparkSession, bus: Bus, tmp_path: Path, mode: str
) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(MESSAGES))
    capture = Capture(spark, bus, tmp_path)
    options = {"mode": mode, "timeoutSeconds": 1}
    if mode == "consume":
        options |= {"reader": "capture", "readerToken": "mine"}
    with store_offline(bus):
        with pytest.raises(StreamingQueryException, match=rf"(?i)store.{{0,12}}{STORE}"):
            capture.run(capture.source(queue, **options))
        query = capture.run(capture.source(queue, **options, skipOffline="true"))
        assert 0 < len(capture.numbers()) < MESSAGES
        report = json.loads(query.recentProgress[0].sources[0].latestOffset)
        assert len(report["skipped"]) == 1

    capture.run(capture.source(queue, **options))
    assert capture.numbers() == list(range(MESSAGES))
    assert count_of(bus, queue) == (0 if mode == "consume" else MESSAGES)


def test_rows_without_a_key_are_written_to_the_others(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue(is_partitioned=True)
    frame = spark.range(200).selectExpr("CAST(id AS STRING) AS body")
    keyed = frame.selectExpr("body", "body AS partition_key")
    options = bus.source(queue, timeoutSeconds=1)
    with store_offline(bus):
        frame.write.format("servicebus").options(**options).mode("append").save()
        with pytest.raises(PySparkException, match=rf"(?i)store.{{0,12}}{STORE}"):
            keyed.write.format("servicebus").options(**options).mode("append").save()
        assert numbers(receive_all(bus, queue)) == list(range(200))
    keyed.write.format("servicebus").options(**options).mode("append").save()
    assert numbers(receive_all(bus, queue)) == list(range(200))
