"""Reading an entity in one go, and what the broker needs for it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bench.features.stage import Stage, in_turns
from bench.processes import resident_bytes
from bench.readings import Figure, Reading
from bench.scenarios import MEGABYTE
from bench.spark.lab import SENT, Lab, consume, expect_count, lab, made_rows

BODY: Final = "body BINARY"
POLL_SECONDS: Final = 0.1


def reading(stage: Stage) -> Iterator[Reading]:
    """All columns and the body alone, from the bus and from Parquet, in turns.

    Beside what was written in bulk, as many messages that an ordinary client sent one by one.
    """
    with lab(stage, "read", (SENT,)) as here:
        count, parquet = here.size.messages, str(here.captured)
        expect_count(here.spark.read.parquet(parquet).count(), count, "captured")
        here.send_one_by_one(SENT, count)

        def read_bus(
            figure: Figure, schema: str | None = None, entity: str | None = None
        ) -> Reading:
            return here.rate(figure, count, lambda: consume(here.bus(schema, entity)))

        def read_files(figure: Figure, schema: str | None = None) -> Reading:
            source = here.spark.read.schema(schema) if schema else here.spark.read
            return here.rate(figure, count, lambda: consume(source.parquet(parquet)))

        read_bus(Figure.SPARK_READ)  # the first one of a session is about its start
        yield from in_turns(
            here.size.repeats,
            lambda _: [read_files(Figure.PARQUET_READ)],
            lambda _: [read_bus(Figure.SPARK_READ)],
            lambda _: [read_bus(Figure.SPARK_READ_SENT, entity=SENT)],
            lambda _: [read_files(Figure.PARQUET_READ_BODY, BODY)],
            lambda _: [read_bus(Figure.SPARK_READ_BODY, BODY)],
            lambda _: [read_bus(Figure.SPARK_READ_SENT_BODY, BODY, SENT)],
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
