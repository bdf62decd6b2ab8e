"""Frames that are written as messages, once whatever is repeated."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from bendybus.client import Client
from tests.spark import failing_source
from tests.spark.conftest import Bus
from tests.spark.traffic import count_of, numbered, numbers, receive_all, send

pytestmark = pytest.mark.spec("R9.1")


def write(frame: DataFrame, bus: Bus, entity: str, **options: object) -> None:
    writer = frame.write.format("servicebus").options(**bus.source(entity, **options))
    writer.mode("append").save()


def rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr(
        "CAST(id AS STRING) AS body", "CAST(id AS STRING) AS message_id"
    )


def test_every_property_is_written(spark: SparkSession, bus: Bus, is_partitioned: bool) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    later = datetime(2100, 1, 1, tzinfo=UTC)
    frame = spark.sql(
        """
        SELECT X'00FF' AS body, 'm1' AS message_id, 'k1' AS partition_key, 'c1' AS correlation_id,
            'new' AS subject, 'text/plain' AS content_type, 'there' AS `to`, 'here' AS reply_to,
            's9' AS reply_to_session_id, 60000L AS time_to_live,
            MAP('a', NAMED_STRUCT('type', 'int', 'value', '7'),
                'b', NAMED_STRUCT('type', 'null', 'value', CAST(NULL AS STRING)))
                AS application_properties,
            CAST(NULL AS TIMESTAMP) AS scheduled_enqueue_time
        """
    )

    write(frame, bus, queue)

    with Client.from_connection_string(bus.connection_string) as client:
        [message] = client.receiver(queue).receive(2, timeout=10)
    assert message.body == b"\x00\xff"
    assert (message.message_id, message.partition_key) == ("m1", "k1")
    assert (message.correlation_id, message.subject) == ("c1", "new")
    assert (message.content_type, message.to) == ("text/plain", "there")
    assert (message.reply_to, message.reply_to_session_id) == ("here", "s9")
    assert message.time_to_live == timedelta(minutes=1)
    assert message.application_properties == {"a": 7, "b": None}
    write(frame.selectExpr("body", "TIMESTAMP'2100-01-01' AS scheduled_enqueue_time"), bus, queue)
    with Client.from_connection_string(bus.connection_string) as client:
        [scheduled] = [each for each in client.receiver(queue).peek(9) if each.message_id != "m1"]
    assert scheduled.scheduled_time == later


def test_a_frame_that_was_read_can_be_written_as_it_is(spark: SparkSession, bus: Bus) -> None:
    source, target = bus.queue(is_partitioned=True), bus.queue()
    send(bus, source, numbered(100, subject="s", application_properties={"n": 1}))
    frame = spark.read.format("servicebus").options(**bus.source(source)).load()

    write(frame, bus, target)

    assert numbers(receive_all(bus, target)) == list(range(100))


def test_plain_texts_are_properties_of_type_string(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    write(spark.sql("SELECT 'x' AS body, MAP('a', 'b') AS application_properties"), bus, queue)
    with Client.from_connection_string(bus.connection_string) as client:
        [message] = client.receiver(queue).receive(1, timeout=10)
    assert message.application_properties == {"a": "b"}


def test_topics_get_what_is_written_and_so_does_one_subscription(
    spark: SparkSession, bus: Bus, is_partitioned: bool
) -> None:
    topic = bus.topic("a", "b", is_partitioned=is_partitioned)
    write(rows(spark, 50), bus, topic)
    assert numbers(receive_all(bus, topic, "a")) == list(range(50))
    write(rows(spark, 5), bus, topic, subscription="a")
    assert numbers(receive_all(bus, topic, "a")) == list(range(5))
    assert numbers(receive_all(bus, topic, "b")) == list(range(50))


def test_a_transaction_is_written_once_however_often_the_job_runs(
    spark: SparkSession, bus: Bus, is_partitioned: bool
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    for _ in range(2):
        write(rows(spark, 200).repartition(3), bus, queue, transactionId="nightly-1")
    write(rows(spark, 10), bus, queue, transactionId="nightly-2")
    write(rows(spark, 10), bus, queue)
    assert count_of(bus, queue) == 220


def test_a_task_that_breaks_off_and_is_tried_again_doubles_nothing(
    spark: SparkSession, bus: Bus, is_partitioned: bool
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)

    def break_off_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if TaskContext.get().attemptNumber() == 0:  # type: ignore[union-attr]  # in a task
            raise RuntimeError("broken off")

    frame = rows(spark, 400).repartition(4)
    write(frame.mapInArrow(break_off_once, frame.schema), bus, queue)

    assert numbers(receive_all(bus, queue)) == list(range(400))


def test_failures_after_staging_and_after_publishing_double_nothing(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    failing_source.register(spark)
    queue = bus.queue(is_partitioned=True)
    options = bus.source(queue, transactionId="t", authority=tmp_path / "mark")
    job = rows(spark, 300).repartition(3).write.format("failingbus").options(**options)

    with pytest.raises(Exception, match="failed after all was published"):
        job.mode("append").save()
    job.mode("append").save()

    assert numbers(receive_all(bus, queue)) == list(range(300))


def test_rows_of_a_key_keep_their_order(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue(is_partitioned=True)
    frame = spark.range(600).selectExpr(
        "CAST(id AS STRING) AS body", "CAST(id % 7 AS STRING) AS partition_key", "id"
    )
    ordered = frame.repartition(3, "partition_key").sortWithinPartitions("id").drop("id")

    write(ordered, bus, queue)

    found = (
        spark.read.format("servicebus")
        .options(**bus.source(queue))
        .load()
        .orderBy("sequence_number")
        .collect()
    )
    for key in range(7):
        bodies = [int(bytes(row.body)) for row in found if row.partition_key == str(key)]
        assert bodies == list(range(key, 600, 7))


def test_a_bad_row_fails_the_whole_write_and_is_named(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    frame = spark.sql(
        "SELECT * FROM VALUES ('good', 'a'), ('bad', repeat('k', 200)) AS t(body, partition_key)"
    )
    with pytest.raises(Exception, match=r"partition_key.*kkkk"):
        write(frame, bus, queue)
    assert count_of(bus, queue) == 0


def test_bad_rows_go_to_their_folder_if_so_asked(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    frame = spark.range(100).selectExpr(
        "CAST(id AS STRING) AS body",
        "CASE WHEN id % 10 = 3 THEN repeat('k', 200) END AS partition_key",
    )
    for _ in range(2):
        write(frame.repartition(3), bus, queue, rejectPath=tmp_path / "bad", transactionId="t")

    assert numbers(receive_all(bus, queue)) == [each for each in range(100) if each % 10 != 3]
    rejected = spark.read.parquet(str(tmp_path / "bad")).collect()
    assert sorted(int(row.body) for row in rejected) == list(range(3, 100, 10))
    assert all("partition_key" in row.reject_reason for row in rejected)
