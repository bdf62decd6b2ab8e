"""Streams of the tests: short, with a table in memory or a folder of Parquet at their end."""

import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_servicebus.available_now import TAKES_ALL
from tests.spark.conftest import Bus

COLUMNS = "body BINARY, sequence_number BIGINT, fragment INT"
QUERY_SECONDS = 60
WAIT_SECONDS = 40


class Capture:
    """A stream from an entity into a folder, which can be run again and again."""

    def __init__(self, spark: SparkSession, bus: Bus, folder: Path) -> None:
        self.spark = spark
        self.bus = bus
        self.table = folder / "table"
        self.checkpoint = folder / "checkpoint"

    def source(self, entity: str, **options: object) -> DataFrame:
        """Return the stream of an entity's bodies; consuming unless told otherwise."""
        consuming = {"mode": "consume", "reader": "capture"} if "mode" not in options else {}
        return (
            self.spark.readStream.format("servicebus")
            .options(**self.bus.source(entity, **consuming, **options))
            .schema(COLUMNS)
            .load()
        )

    def start(self, frame: DataFrame, *, is_endless: bool = False) -> StreamingQuery:
        """Start writing a stream into the table."""
        writer = frame.writeStream.format("parquet").option("path", str(self.table))
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        trigger = {"processingTime": "0 seconds"} if is_endless else {"availableNow": True}
        return writer.trigger(**trigger).start()

    def run(self, frame: DataFrame) -> int:
        """Write what is there now; return in how many batches. Raises what ends a query."""
        return finish_all(lambda: self.start(frame))

    def numbers(self) -> list[int]:
        """Return the numbers in the table, in order."""
        if not self.table.exists():
            return []
        rows = self.spark.read.schema(COLUMNS).parquet(str(self.table)).collect()
        return sorted(int(bytes(row.body)) for row in rows)


def finish_all(start: Callable[[], StreamingQuery]) -> int:
    """Run a query that takes what is there now, and again where Spark takes one batch of that.

    Returns how many batches had rows.
    """
    batches = 0
    while True:
        query = start()
        finish(query)
        had_rows = sum(each.numInputRows > 0 for each in query.recentProgress)
        batches += had_rows
        if TAKES_ALL or not had_rows:
            return batches


def finish(query: StreamingQuery) -> None:
    """Wait for a query that ends by itself."""
    try:
        assert query.awaitTermination(QUERY_SECONDS), "the query does not end"
    finally:
        query.stop()


def wait_for(is_true: Callable[[], bool], query: StreamingQuery) -> None:
    """Wait until a condition holds; what ends the query ends the wait."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_true():
        if (error := query.exception()) is not None:
            raise error
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(0.05)
