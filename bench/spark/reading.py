"""Reading an entity in one go, and what the broker needs for it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bench.features.stage import Stage, in_turns
from bench.processes import resident_bytes
from bench.readings import Figure, Reading
from bench.scenarios import MEGABYTE
from bench.spark.lab import Lab, consume, expect_count, lab, made_rows

BODY: Final = "body BINARY"
POLL_SECONDS: Final = 0.1


def reading(stage: Stage) -> Iterator[Reading]:
    """All columns and the body alone, from the bus and from Parquet, in turns."""
    with lab(stage, "read") as here:
        count, parquet = here.size.messages, str(here.captured)
        expect_count(here.spark.read.parquet(parquet).count(), count, "captured")

        def read(figure: Figure, *, is_bus: bool, schema: str | None = None) -> Reading:
            def work() -> None:
                source = here.spark.read
                files = (source.schema(schema) if schema else source).parquet
                consume(here.bus(schema) if is_bus else files(parquet))

            return here.rate(figure, count, work)

        read(Figure.SPARK_READ, is_bus=True)  # the first one of a session is about its start
        yield from in_turns(
            here.size.repeats,
            lambda _: [read(Figure.PARQUET_READ, is_bus=False)],
            lambda _: [read(Figure.SPARK_READ, is_bus=True)],
            lambda _: [read(Figure.PARQUET_READ_BODY, is_bus=False, schema=BODY)],
            lambda _: [read(Figure.SPARK_READ_BODY, is_bus=True, schema=BODY)],
        )


def memory(stage: Stage) -> Iterator[Reading]:
    """What the broker's memory grows by while very much is read."""
    with lab(stage, "memory") as here:
        idle = resident_bytes(here.side.broker.pid)
        here.send(made_rows(here.spark, here.size.messages_read), "fill")
        with _peak(here) as highest:
            expect_count(here.bus().count(), here.size.messages_read, "read")
        grown = max(highest) - idle
        yield here.side.reading(Figure.SPARK_READ_RESIDENT, grown / MEGABYTE)


@contextmanager
def _peak(here: Lab) -> Iterator[list[int]]:
    """Watch the broker's memory while the block runs."""
    is_over = threading.Event()
    seen = [resident_bytes(here.side.broker.pid)]

    def watch() -> None:
        while not is_over.wait(POLL_SECONDS):
            seen.append(resident_bytes(here.side.broker.pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()
