"""A broker, a Spark session and a folder, and the rows that all scenarios are about."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.features.stage import Side, Stage
from bench.processes import BenchmarkError
from bench.readings import Figure, Reading
from bench.scenarios import SMALL_BODY_BYTES
from bench.size import SparkSize
from bendybus.model.connection_string import ConnectionString
from bendybus.pipelines.failure import PipelineFailed, reason_of
from bendybus.pipelines.session import spark_session

# Two cores for Spark, as the promises say; tasks are tried again, as on a cluster.
MASTER: Final = "local[2,4]"
FORMAT: Final = "servicebus"
KEYS: Final = 8_000
# A queue for what an ordinary client sends.
SENT: Final = "sent"


@dataclass(frozen=True)
class Lab:
    """Where a scenario is played."""

    spark: SparkSession
    side: Side
    folder: Path

    @property
    def size(self) -> SparkSize:
        """How much the scenario does."""
        return self.side.size.spark

    def options(self, entity: str | None = None, **more: object) -> dict[str, str]:
        """Options of the data source for the entity under load, or another."""
        broker = self.side.broker
        connection = ConnectionString(
            host="127.0.0.1",
            port=broker.port,
            rule_name=broker.user,
            key=broker.password,
            use_development_emulator=True,
        )
        return {
            "connectionString": connection.to_text(),
            "flightEndpoint": f"grpc://127.0.0.1:{broker.flight_port}",
            "entity": entity or self.side.queue,
            **{name: str(value) for name, value in more.items()},
        }

    def bus(self, schema: str | None = None, entity: str | None = None) -> DataFrame:
        """Every message of the entity; only some columns if a schema names them."""
        reader = self.spark.read.format(FORMAT).options(**self.options(entity))
        return (reader.schema(schema) if schema else reader).load()

    @cached_property
    def rows(self) -> Path:
        """Rows to be written, as Parquet: made once, so that no scenario measures their making."""
        path = self.folder / "rows"
        made_rows(self.spark, self.size.messages).write.parquet(str(path))
        return path

    def send(self, rows: DataFrame, transaction: str, entity: str | None = None) -> None:
        """Write rows to the bus, through to durable."""
        options = self.options(entity, transactionId=transaction)
        rows.write.format(FORMAT).options(**options).mode("append").save()

    def send_one_by_one(self, entity: str, count: int) -> float:
        """Let an ordinary client send messages; how many a second."""
        return self.side.clients.send(
            self.side.broker,
            entity,
            count,
            body_bytes=SMALL_BODY_BYTES,
            in_flight=self.side.size.in_flight,
        )

    @cached_property
    def captured(self) -> Path:
        """What the entity holds, all columns, as Parquet: the same rows as the bus has."""
        path = self.folder / "captured"
        self.send(self.spark.read.parquet(str(self.rows)), "fill")
        self.bus().write.parquet(str(path))
        return path

    def rate(self, figure: Figure, count: int, work: Callable[[], object]) -> Reading:
        """Do it once; rows per second. What was written before is on disk by then."""
        os.sync()
        begun = time.perf_counter()
        work()
        return self.side.reading(figure, count / (time.perf_counter() - begun))


@contextmanager
def lab(stage: Stage, name: str, others: tuple[str, ...] = ()) -> Iterator[Lab]:
    """Start a broker and Spark on a new folder, and stop both.

    Raises `BenchmarkError` for whatever Spark could not do.
    """
    try:
        with (
            bulk_side(stage, name, others) as side,
            spark_session("bench", MASTER, {"spark.driver.memory": "4g"}) as spark,
        ):
            yield Lab(spark, side, side.folder)
    except (PipelineFailed, PySparkException, Py4JJavaError) as error:
        raise BenchmarkError(f"{name}: {reason_of(error)}") from error


def bulk_side(
    stage: Stage, name: str, others: tuple[str, ...] = ()
) -> AbstractContextManager[Side]:
    """A broker that serves bulk data, with queues like the one under load beside it."""
    return stage.queues(name, {other: {} for other in others}, has_bulk=True)


def made_rows(spark: SparkSession, count: int) -> DataFrame:
    """Return messages to be sent: 200 bytes that do not repeat, an id, a key, a subject."""
    number = f.col("id")
    body = f.concat(*(f.sha2(f.concat(number.cast("string"), f.lit(part)), 256) for part in "abcd"))
    return spark.range(0, count, numPartitions=4).select(
        f.concat(f.lit("message-"), number).alias("message_id"),
        f.concat(f.lit("key-"), number % KEYS).alias("partition_key"),
        f.concat(f.lit("subject-"), number % 10).alias("subject"),
        f.lit("application/octet-stream").alias("content_type"),
        f.substring(body, 1, SMALL_BODY_BYTES).cast("binary").alias("body"),
    )


def consume(rows: DataFrame) -> None:
    """Compute every column of every row, and keep nothing."""
    rows.write.format("noop").mode("overwrite").save()


def expect_count(found: int, wanted: int, what: str) -> None:
    """Raise `BenchmarkError` if rows were lost or doubled: such a figure is worth nothing."""
    if found != wanted:
        raise BenchmarkError(f"{what}: {found:,} of {wanted:,} rows")
