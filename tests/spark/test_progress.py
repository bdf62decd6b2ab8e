"""Following a stream: what is shown meanwhile, and how it ends."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.interruption import Interruption
from bendybus.pipelines.progress import Progress
from bendybus.pipelines.reading import Reading


def numbers(spark: SparkSession) -> DataFrame:
    """Rows that come by and by."""
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()


def started(rows: DataFrame, checkpoint: Path) -> StreamingQuery:
    return rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()


@pytest.mark.spec("R9.2")
def test_rows_are_shown_while_a_stream_runs_and_an_interrupt_stops_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    readings: list[Reading] = []

    def show(reading: Reading) -> None:
        is_first = all(each.rows < 60 for each in readings)
        readings.append(reading)
        if reading.rows >= 60 and is_first:
            os.kill(os.getpid(), signal.SIGTERM)

    query = started(numbers(spark), tmp_path)
    with Interruption(spark) as interruption:
        progress = Progress(spark, show, interruption)
        progress.stage("counting")
        with pytest.raises(KeyboardInterrupt):
            progress.follow(query)
        with pytest.raises(KeyboardInterrupt):
            progress.stage("going on")
    assert not query.isActive
    assert readings[0].stage == "counting"
    rows = [reading.rows for reading in readings]
    assert rows == sorted(rows)
    assert readings[-1].batch is not None
    assert readings[-1].rows_per_second > 0


def test_an_interrupt_ends_a_job_and_spark_answers_as_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    @f.udf("long", useArrow=False)
    def for_ever(value: int) -> int:
        (tmp_path / "begun").touch()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            time.sleep(0.05)
        return value

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    with Interruption(spark) as interruption:
        threading.Thread(target=interrupt).start()
        with pytest.raises((PySparkException, Py4JJavaError), match="cancelled"):
            spark.range(1).select(for_ever("id")).collect()
        with pytest.raises(KeyboardInterrupt):
            interruption.check()
    assert spark.range(7).count() == 7


def test_a_stream_that_fails_ends_with_what_its_program_said(
    spark: SparkSession, tmp_path: Path
) -> None:
    @f.udf("string", useArrow=False)
    def refuse(value: int) -> str:
        raise ValueError(f"{value} is not for us")

    query = started(numbers(spark).select(refuse("value")), tmp_path)
    with pytest.raises(PipelineFailed, match=r"^\d+ is not for us$"):
        Progress(spark, lambda _: None).follow(query)


def test_the_tasks_of_work_in_hand_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    seen = tmp_path / "seen"

    @f.udf("long", useArrow=False)
    def waiting(value: int) -> int:
        deadline = time.monotonic() + 60
        while value == 3 and not seen.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return value

    def show(reading: Reading) -> None:
        if (reading.tasks_done, reading.tasks) == (3, 4):
            seen.touch()

    with Progress(spark, show).watched():
        # A mere count would not ask for the values at all.
        assert len(spark.range(0, 4, numPartitions=4).select(waiting("id")).collect()) == 4
    assert seen.exists()
