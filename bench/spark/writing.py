"""Writing rows to an entity in one go: through to durable, and in order per key."""

from collections.abc import Iterator
from pathlib import Path

from bench.features.stage import Stage, in_turns
from bench.readings import Figure, Reading
from bench.spark.lab import SENT, Lab, expect_count, lab
from bendybus.pipelines.progress import Progress
from bendybus.pipelines.replay import Options, run


def writing(stage: Stage) -> Iterator[Reading]:
    """The same rows to Parquet and to the bus; and as many messages as fit in one AMQP turn."""
    with lab(stage, "write", (SENT,)) as here:
        count = here.size.messages
        rows = here.spark.read.parquet(str(here.rows))

        def write_files(number: int) -> list[Reading]:
            path = str(here.folder / f"written-{number}")
            return [here.rate(Figure.PARQUET_WRITE, count, lambda: rows.write.parquet(path))]

        def write_bus(number: int) -> list[Reading]:
            send = f"write-{number}"
            return [here.rate(Figure.SPARK_WRITE, count, lambda: here.send(rows, send))]

        def send(_: int) -> list[Reading]:
            rate = here.send_one_by_one(SENT, here.side.size.messages)
            return [here.side.reading(Figure.SEND, rate)]

        here.send(rows.limit(1_000), "warm", SENT)
        yield from in_turns(here.size.repeats, write_files, write_bus, send)
        found = here.bus("sequence_number BIGINT").count()
        expect_count(found, count * here.size.repeats, "written")


def replaying(stage: Stage) -> Iterator[Reading]:
    """A captured table sent again by the pipeline, in the order of each key."""
    with lab(stage, "replay", (SENT,)) as here:
        count, table = here.size.messages, here.captured

        def send_again(_: int) -> list[Reading]:
            def work() -> None:
                _replay(here, table)

            return [here.rate(Figure.SPARK_REPLAY, count, work)]

        def write(number: int) -> list[Reading]:
            rows = here.spark.read.parquet(str(here.rows))
            name = f"write-{number}"
            return [here.rate(Figure.REPLAY_WRITE, count, lambda: here.send(rows, name, SENT))]

        yield from in_turns(here.size.repeats, send_again, write)


def _replay(here: Lab, table: Path) -> None:
    options = here.options()
    run(
        here.spark,
        Options(
            table=str(table),
            again=True,
            entity=SENT,
            connection_string=options["connectionString"],
            flight_endpoint=options["flightEndpoint"],
        ),
        Progress(here.spark, lambda _: None),
    )
