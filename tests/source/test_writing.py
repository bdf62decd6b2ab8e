"""Rows that are staged by tasks and published by a driver, without Spark."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructField, StructType

from bendybus.client.bulk_values import RejectedRow
from bendybus.client.errors import ClientError
from pyspark_servicebus import DefaultSource
from pyspark_servicebus.rejects import KeptRows
from pyspark_servicebus.writing import StreamUnknown
from tests.spark.conftest import Bus
from tests.spark.kills import store_away
from tests.spark.traffic import count_of, numbers, receive_all

pytestmark = [pytest.mark.spec("R9.3")]
STORE = 3
SCHEMA = StructType([StructField("body", StringType()), StructField("partition_key", StringType())])


def be_a_task(
    monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], attempt: int = 0
) -> None:
    """Let this process look like a worker with a task of Spark's."""
    # Whoever makes one makes it that of the process: this is undone, too.
    monkeypatch.setattr(TaskContext, "_taskContext", None)
    task = TaskContext()
    task._partitionId, task._taskAttemptId, task._localProperties = 0, 7, properties
    task._attemptNumber = attempt


def rows(count: int) -> Iterator[pa.RecordBatch]:
    """Make rows, of which each that ends in 3 has too long a key."""
    keys = ["k" * 200 if number % 10 == 3 else None for number in range(count)]
    texts = [str(number) for number in range(count)]
    yield pa.record_batch({"body": texts, "partition_key": pa.array(keys, pa.string())})


def good_rows(count: int) -> Iterator[pa.RecordBatch]:
    for batch in rows(count):
        yield batch.set_column(1, "partition_key", pa.nulls(count, pa.string()))


def test_a_batch_of_a_stream_is_published_once_whatever_is_repeated(
    bus: Bus, is_partitioned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    be_a_task(monkeypatch, {"sql.streaming.queryId": "q", "streaming.sql.batchId": "0"})
    writer = DefaultSource(bus.source(queue)).streamWriter(SCHEMA, overwrite=False)
    lost, first, again = (writer.write(good_rows(50)) for _ in range(3))
    assert count_of(bus, queue) == 0
    writer.abort([lost, None], 0)
    writer.commit([first], 0)
    # Spark aborts a batch whose commit it did not hear of, and runs it again.
    writer.abort([first], 0)
    writer.commit([again], 0)
    assert numbers(receive_all(bus, queue)) == list(range(50))


def test_a_stream_is_not_written_by_a_spark_that_does_not_tell_its_batches(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_a_task(monkeypatch, {})
    writer = DefaultSource(bus.source(bus.queue())).streamWriter(SCHEMA, overwrite=False)
    with pytest.raises(StreamUnknown, match="transactionId"):
        writer.write(good_rows(1))


def test_a_task_that_is_tried_again_waits_for_a_broker_that_restarts(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bus.queue(is_partitioned=True)
    be_a_task(monkeypatch, {}, attempt=1)
    writer = DefaultSource(bus.source(queue, timeoutSeconds=40)).writer(SCHEMA, overwrite=False)
    bus.broker.kill()
    with ThreadPoolExecutor(1) as threads:
        staging = threads.submit(writer.write, good_rows(50))
        bus.broker.start()
        writer.commit([staging.result()])
    assert numbers(receive_all(bus, queue)) == list(range(50))


def test_rows_for_a_store_that_is_away_fail_by_its_name_and_come_once_when_it_is_back(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bus.queue(is_partitioned=True)
    be_a_task(monkeypatch, {})
    given = bus.source(queue, timeoutSeconds=1, transactionId="t")
    texts = [str(number) for number in range(97)]
    keyed = pa.record_batch({"body": texts, "partition_key": texts})
    writer = DefaultSource(given).writer(SCHEMA, overwrite=False)
    with (
        store_away(bus, STORE),
        pytest.raises(ClientError, match=rf"(?i)store {STORE}\b.* of '{queue}', is unavailable"),
    ):
        writer.write(iter([keyed]))
    assert count_of(bus, queue) == 0
    for _ in range(2):
        writer.commit([writer.write(iter([keyed]))])
    assert numbers(receive_all(bus, queue)) == list(range(97))


def test_a_bad_row_fails_the_task_and_is_named(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = bus.queue()
    be_a_task(monkeypatch, {})
    writer = DefaultSource(bus.source(queue)).writer(SCHEMA, overwrite=False)
    with pytest.raises(ClientError, match=r"Row 3 .*partition_key='kkk.*it may have 128"):
        writer.write(rows(10))
    assert count_of(bus, queue) == 0


def test_bad_rows_go_to_their_folder_once_if_so_asked(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    queue = bus.queue(is_partitioned=True)
    be_a_task(monkeypatch, {})
    given = bus.source(queue, rejectPath=tmp_path / "bad", transactionId="t")
    for _ in range(2):
        writer = DefaultSource(given).writer(SCHEMA, overwrite=False)
        writer.commit([writer.write(rows(100))])

    assert numbers(receive_all(bus, queue)) == [each for each in range(100) if each % 10 != 3]
    rejected = parquet.read_table(tmp_path / "bad").to_pylist()
    assert sorted(int(row["body"]) for row in rejected) == list(range(3, 100, 10))
    assert all("200 characters" in row["reject_reason"] for row in rejected)
    assert list((tmp_path / "bad" / "_staging").iterdir()) == []


def test_rejected_rows_are_those_whose_numbers_were_told() -> None:
    batches = [pa.record_batch({"n": list(range(at, at + 3))}) for at in (0, 3, 6)]
    with KeptRows(is_wanted=True) as kept:
        assert list(kept.noting(iter(batches))) == batches
        found = kept.rejected([RejectedRow(1, "b"), RejectedRow(8, "i")])
        assert pa.Table.from_batches(found).to_pylist() == [
            {"n": 1, "reject_reason": "b"},
            {"n": 8, "reject_reason": "i"},
        ]
