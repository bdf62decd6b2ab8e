"""Captures the messages of an entity in a table, each exactly once.

The messages are taken: what is in the table is completed in the broker, and other receivers get
the rest. Stop it or kill it at any moment and start it again: it goes on where it stood. With
--mode browse nothing is taken.

    bendybus pipeline run capture orders /data/orders

    bendybus pipeline run capture orders /data/orders-dead --dead-letter --trigger 60

    bendybus pipeline run capture news /data/news --keep-history --reader archive

The table is partitioned by date and fragment, and has a column for everything that a message has.
TABLE is a folder or a URL that Spark can write, or a name in a catalog with --format iceberg.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bendybus.model.errors import ArgumentInvalid
from bendybus.pipelines.history import make_history
from bendybus.pipelines.progress import Progress
from bendybus.pipelines.streams import (
    Mode,
    StreamOptions,
    batch_of,
    read_messages,
    run_stream,
)
from bendybus.pipelines.tables import TableFormat, table_at

READER: Final = "capture"
# A task has a file open for each date and fragment it meets, so it need not sort by them.
FILES_OPEN_MAX: Final = 64


@dataclass(frozen=True, kw_only=True)
class Options(StreamOptions):
    """What can be chosen."""

    table: Annotated[str, "The table to write."]
    format: Annotated[TableFormat, "What kind of table."] = TableFormat.PARQUET
    keep_history: Annotated[
        bool, "Of a topic: capture all that is sent, whoever else completes it."
    ] = False
    management_url: Annotated[str | None, "Where the broker answers HTTP; for --keep-history."] = (
        None
    )

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        super().__post_init__()
        if self.keep_history and (
            self.subscription or self.dead_letter or self.mode is Mode.BROWSE
        ):
            raise ArgumentInvalid(
                "--keep-history makes a subscription of its own and takes from that: leave out"
                " --subscription, --dead-letter and --mode"
            )
        if self.format is TableFormat.ICEBERG and self.checkpoint is None:
            raise ArgumentInvalid("--format iceberg needs a folder of its own in --checkpoint")


def run(spark: SparkSession, options: Options, progress: Progress) -> Mapping[str, object]:
    """Read the entity as a stream, and write each batch into the table."""
    if options.keep_history:
        name = make_history(options, options.management_url, options.entity, options.reader)
        options = replace(options, subscription=name, keep_history=False)
    spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", FILES_OPEN_MAX)
    table = table_at(options.table, options.format, partition_by=("date", "fragment"))
    checkpoint = options.checkpoint or f"{options.table}/_checkpoint"

    messages = read_messages(spark, options, reader=READER, checkpoint=checkpoint)
    dated = messages.withColumn("date", f.to_date("enqueued_time"))

    def write(rows: DataFrame, number: int) -> None:
        table.write(rows, batch_of(rows, number))

    progress.stage("capturing")
    run_stream(dated.writeStream.foreachBatch(write), options, progress, checkpoint=checkpoint)
    return {"captured": progress.reading.rows, "table": options.table}
