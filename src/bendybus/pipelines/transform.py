"""Transforms the messages of an entity, and sends what comes of them to another or to a table.

What is read is completed in the broker when what came of it is there, each exactly once. Stop it or
kill it at any moment and start it again with the same --checkpoint: it goes on where it stood.

    bendybus pipeline run transform orders big-orders.sql --to big-orders --checkpoint /data/big

    bendybus pipeline run transform orders rules.py:priced --to-table /data/priced --trigger 10

PROGRAM is a file with one SQL query that reads from `messages`:

    SELECT message_id, session_id, body FROM messages WHERE subject = 'order'

or a Python function that takes the messages as a DataFrame and returns another. To an entity go
the columns of a message by their names; a table takes any columns.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, cast

from pyspark.sql import DataFrame, SparkSession

from bendybus.model.errors import ArgumentInvalid
from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.program import import_file
from bendybus.pipelines.progress import Progress
from bendybus.pipelines.streams import StreamOptions, batch_of, read_messages, run_stream
from bendybus.pipelines.tables import TableFormat, table_at
from bendybus.pipelines.writing import messages_of

READER: Final = "transform"
VIEW: Final = "messages"


@dataclass(frozen=True, kw_only=True)
class Options(StreamOptions):
    """What can be chosen."""

    program: Annotated[str, "A file of SQL, or a Python function as in rules.py:priced."]
    to: Annotated[str | None, "The queue or topic to send to."] = None
    to_table: Annotated[str | None, "The table to write instead."] = None
    format: Annotated[TableFormat, "What kind of table."] = TableFormat.PARQUET
    partition_by: Annotated[tuple[str, ...], "A column that the table has folders for."] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        super().__post_init__()
        if (self.to is None) == (self.to_table is None):
            raise ArgumentInvalid("say where it goes: --to an entity, or --to-table")
        if self.checkpoint is None and (self.to or self.format is TableFormat.ICEBERG):
            raise ArgumentInvalid("--checkpoint must name a folder that remembers how far it came")


def run(spark: SparkSession, options: Options, progress: Progress) -> Mapping[str, object]:
    """Read the entity as a stream, have the program change it, and write what comes out."""
    checkpoint = options.checkpoint or f"{options.to_table}/_checkpoint"
    messages = read_messages(spark, options, reader=READER, checkpoint=checkpoint)
    changed = applied(spark, options.program, messages)

    if options.to_table is not None:
        table = table_at(options.to_table, options.format, options.partition_by)

        def write(rows: DataFrame, number: int) -> None:
            table.write(rows, batch_of(rows, number))

        stream = changed.writeStream.foreachBatch(write)
    else:
        target = options.bus(str(options.to))
        stream = messages_of(changed).writeStream.format("servicebus").options(**target)

    progress.stage("transforming")
    run_stream(stream, options, progress, checkpoint=checkpoint)
    return {"read": progress.reading.rows, "to": options.to or options.to_table}


def applied(spark: SparkSession, program: str, messages: DataFrame) -> DataFrame:
    """Return what a program makes of messages. Raises `PipelineFailed` if it is none."""
    place, colon, name = program.rpartition(":")
    path = Path(place if colon else program)
    if not path.is_file():
        raise PipelineFailed(f"there is no file {path}")
    if path.suffix == ".py":
        changed = function_of(path, name)(messages)
    else:
        messages.createOrReplaceTempView(VIEW)
        changed = spark.sql(path.read_text(encoding="utf-8").strip().removesuffix(";"))
    if not (isinstance(changed, DataFrame) and changed.isStreaming):
        raise PipelineFailed(f"{program} must give a DataFrame that is made of the messages")
    return changed


def function_of(path: Path, name: str) -> Callable[[DataFrame], object]:
    """Return a function of a Python file. Raises `PipelineFailed` if it has none of that name."""
    function = getattr(import_file(path.stem, path), name, None) if name else None
    if not callable(function):
        raise PipelineFailed(f"name a function of {path}, as in {path.name}:FUNCTION")
    return cast("Callable[[DataFrame], object]", function)
