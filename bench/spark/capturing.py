"""An entity into a table by a stream: how fast, how soon, and what ordinary senders feel of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import unquote, urlparse

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from bench.features.stage import Stage, in_turns
from bench.processes import BenchmarkError, wait_until
from bench.readings import Figure, Reading
from bench.scenarios import SMALL_BODY_BYTES
from bench.spark.lab import FORMAT, SENT, Lab, expect_count, lab
from bendybus.pipelines.failure import reason_of

OTHER: Final = "other"
PACED_PER_SECOND: Final = 1_000
FILES_PER_TRIGGER: Final = 4
MS: Final = 1000


def capturing(stage: Stage) -> Iterator[Reading]:
    """As many rows a trigger from the bus and from Parquet, both into new files of Parquet.

    Last, and once, what an ordinary client sent one by one.
    """
    with lab(stage, "capture", (SENT,)) as here:
        count, per_trigger = here.size.messages, here.size.per_trigger
        files = here.folder / "files"
        table = here.spark.read.parquet(str(here.captured))
        # So that a trigger's share is a whole number of files.
        parts = FILES_PER_TRIGGER * -(-count // per_trigger)
        table.repartition(parts).write.parquet(str(files))

        def from_files(number: int) -> list[Reading]:
            source = (
                here.spark.readStream.schema(table.schema)
                .option("maxFilesPerTrigger", FILES_PER_TRIGGER)
                .parquet(str(files))
            )
            return [_drained(here, source, Figure.PARQUET_STREAM, f"files-{number}")]

        def from_bus(number: int) -> list[Reading]:
            if number:
                here.send(here.spark.read.parquet(str(here.rows)), f"again-{number}")
            name = f"bus-{number}"
            source = _consumed(here, here.side.queue, name, maxMessagesPerTrigger=per_trigger)
            return [_drained(here, source, Figure.SPARK_CAPTURE, name)]

        yield from in_turns(here.size.repeats, from_files, from_bus)
        here.send_one_by_one(SENT, count)
        source = _consumed(here, SENT, SENT, maxMessagesPerTrigger=per_trigger)
        yield _drained(here, source, Figure.SPARK_CAPTURE_SENT, SENT)


def _consumed(here: Lab, entity: str, reader: str, **more: object) -> DataFrame:
    options = here.options(entity, mode="consume", reader=reader, **more)
    return here.spark.readStream.format(FORMAT).options(**options).load()


def _started(here: Lab, source: DataFrame, name: str, *, is_drain: bool) -> StreamingQuery:
    """Start a stream into a table: until the source is empty, or for ever and without pauses."""
    sink = (
        source.writeStream.format("parquet")
        .option("path", str(here.folder / name))
        .option("checkpointLocation", str(here.folder / f"{name}-checkpoint"))
    )
    how = sink.trigger(availableNow=True) if is_drain else sink.trigger(processingTime="0 seconds")
    return how.start()


def _drained(here: Lab, source: DataFrame, figure: Figure, name: str) -> Reading:
    def work() -> None:
        _started(here, source, name, is_drain=True).awaitTermination()

    reading = here.rate(figure, here.size.messages, work)
    found = here.spark.read.parquet(str(here.folder / name)).count()
    expect_count(found, here.size.messages, name)
    return reading


def latency(stage: Stage) -> Iterator[Reading]:
    """From when a message was taken in to when the table has it, at a fixed rate."""
    with lab(stage, "latency") as here:
        source = _consumed(here, here.side.queue, "latency")
        query = _started(here, source, "table", is_drain=False)
        try:
            _send_paced(here, seconds=3.0)
            before = _wait_for_rows(here, query, 1)
            _send_paced(here, seconds=here.size.paced_seconds)
            most = int(PACED_PER_SECOND * here.size.paced_seconds * 0.95)
            _wait_for_rows(here, query, before + most)
        finally:
            query.stop()
        waits = waits_ms(here.folder / "table")
        yield here.side.reading(Figure.SPARK_CAPTURE_P50, median(waits))


def _send_paced(here: Lab, *, seconds: float) -> None:
    here.side.clients.waits(
        here.side.broker,
        here.side.queue,
        per_second=PACED_PER_SECOND,
        seconds=seconds,
        body_bytes=SMALL_BODY_BYTES,
    )


def _wait_for_rows(here: Lab, query: StreamingQuery, least: int) -> int:
    """Wait until the stream's table has that many rows; how many it has.

    They are counted by the footers of the files: a query of Spark's would take its cores from the
    stream that is measured.
    """
    found = 0

    def is_there() -> bool:
        nonlocal found
        if (failure := query.exception()) is not None:
            raise BenchmarkError(f"the stream ended: {reason_of(failure)}")
        files = committed_at(here.folder / "table")
        found = sum(parquet.read_metadata(path).num_rows for path in files)
        return found >= least

    wait_until(is_there, seconds_max=120.0, what=f"{least} rows in the table")
    return found


def committed_at(table: Path) -> dict[Path, float]:
    """The files of a table, and when its log had each of them."""
    committed: dict[Path, float] = {}
    logs = [log for log in (table / "_spark_metadata").glob("*") if not log.name.startswith(".")]
    # Every tenth names the files of those before it as well: a file is of the first that has it.
    for log in sorted(logs, key=lambda each: int(each.stem)):
        for line in log.read_text().splitlines()[1:]:
            path = Path(unquote(urlparse(json.loads(line)["path"]).path))
            committed.setdefault(path, log.stat().st_mtime)
    return committed


def waits_ms(table: Path) -> list[float]:
    """How long each row took until its batch was committed to the table's log."""
    waits: list[float] = []
    for path, at in committed_at(table).items():
        taken = parquet.read_table(path, columns=["enqueued_time"])["enqueued_time"]
        taken_us = taken.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        waits += [at * MS - each / MS for each in taken_us.to_pylist()]
    if not waits:
        raise BenchmarkError("no row of the table is in its log")
    return waits


def beside(stage: Stage) -> Iterator[Reading]:
    """The rate of ordinary sends to another queue, alone and during a capture."""
    with lab(stage, "beside", (OTHER,)) as here:
        here.send(here.spark.read.parquet(str(here.rows)), "fill")

        def send() -> float:
            return here.send_one_by_one(OTHER, here.side.size.messages)

        send()
        yield here.side.reading(Figure.ALONE_SEND, send())
        per_trigger = here.size.per_trigger // 10
        source = _consumed(here, here.side.queue, "beside", maxMessagesPerTrigger=per_trigger)
        query = _started(here, source, "table", is_drain=False)
        try:
            _wait_for_rows(here, query, 1)
            rate = send()
            if not query.isActive:
                raise BenchmarkError("the capture ended before the sends beside it")
        finally:
            query.stop()
        yield here.side.reading(Figure.BESIDE_CAPTURE_SEND, rate)
