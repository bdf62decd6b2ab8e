"""Streams that are written as messages, every batch exactly once."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.spark import failing_source
from tests.spark.conftest import Bus
from tests.spark.streams import finish, finish_all
from tests.spark.traffic import count_of, numbered, numbers, receive_all, send

pytestmark = [pytest.mark.spec("R9.2"), pytest.mark.spec("R9.3")]


def parquet_stream(spark: SparkSession, folder: Path, rows: int, files: int) -> DataFrame:
    path = str(folder / "input")
    frame = spark.range(rows).selectExpr("CAST(id AS STRING) AS body")
    frame.repartition(files).write.parquet(path)
    reader = spark.readStream.schema("body STRING").option("maxFilesPerTrigger", 2)
    return reader.parquet(path)


def test_a_stream_of_rows_becomes_messages(
    spark: SparkSession, bus: Bus, is_partitioned: bool, tmp_path: Path
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    frame = parquet_stream(spark, tmp_path, 600, files=4)
    writer = frame.writeStream.format("servicebus").options(**bus.source(queue))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    for _ in range(2):
        finish(writer.trigger(availableNow=True).start())
    assert numbers(receive_all(bus, queue)) == list(range(600))


@pytest.mark.prove
def test_failures_of_tasks_and_of_commits_double_nothing(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    failing_source.register(spark)
    queue = bus.queue(is_partitioned=True)
    frame = parquet_stream(spark, tmp_path, 400, files=4)
    options = bus.source(queue, authority=tmp_path / "mark")

    def run(tasks: int) -> None:
        writer = frame.repartition(tasks).writeStream.format("failingbus").options(**options)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        finish(writer.trigger(availableNow=True).start())

    # Each of the two batches fails once, after it was published; the second try has more tasks.
    for tasks in (2, 4):
        with pytest.raises(StreamingQueryException, match="failed after all was published"):
            run(tasks)
    run(3)

    assert numbers(receive_all(bus, queue)) == list(range(400))


def test_messages_go_from_entity_to_entity_exactly_once(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    source, target = bus.queue(is_partitioned=True), bus.topic("all", is_partitioned=True)
    send(bus, source, numbered(300))
    frame = spark.readStream.format("servicebus").options(
        **bus.source(source, mode="consume", reader="mover", maxMessagesPerTrigger=100)
    )
    moved = frame.load().selectExpr("body", "message_id", "'moved' AS subject")
    writer = moved.writeStream.format("servicebus").options(**bus.source(target))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))

    finish_all(writer.trigger(availableNow=True).start)

    assert numbers(receive_all(bus, target, "all")) == list(range(300))
    assert count_of(bus, source) == 0


def test_rewriting_everything_is_refused(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue()
    frame = parquet_stream(spark, tmp_path, 10, files=1).groupBy("body").count().select("body")
    writer = frame.writeStream.format("servicebus").options(**bus.source(queue))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="outputMode append or update"):
        finish(writer.outputMode("complete").trigger(availableNow=True).start())
