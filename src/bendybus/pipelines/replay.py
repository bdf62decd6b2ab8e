"""Sends the messages of a captured table to an entity again, each exactly once.

The order within each key and each session is that of the capture; ids, keys, sessions and
properties are those of the capture too. Cut off and repeated, nothing is sent twice: a replay of
the same files, by the same conditions, to the same entity is one transaction. --again begins
another.

    bendybus pipeline run replay /data/orders orders --dry-run

    bendybus pipeline run replay /data/orders orders --since 2026-11-16T08:00 --session s-7

    bendybus pipeline run replay /data/news news --subscription mails --where "subject = 'hello'"

    bendybus pipeline run replay /data/orders orders --rate 500

With --subscription only that subscription gets the messages, whatever its rules say.
"""

import hashlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from math import ceil
from typing import Annotated, Final

from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as f

from bendybus.columns.schema import WRITABLE
from bendybus.model.errors import ArgumentInvalid
from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.options import BusOptions
from bendybus.pipelines.patience import patiently
from bendybus.pipelines.progress import Progress
from bendybus.pipelines.tables import TableFormat, table_at

# With a rate, messages are sent in portions of so long.
PORTION_SECONDS: Final = 2.0
# A sequence number is the fragment and, in so many bits, a counter.
COUNTER_BITS: Final = 48


@dataclass(frozen=True, kw_only=True)
class Options(BusOptions):
    """What can be chosen."""

    table: Annotated[str, "The table to read."]
    entity: Annotated[str, "The queue or topic to send to."]
    subscription: Annotated[str | None, "Only to this subscription of the topic."] = None
    format: Annotated[TableFormat, "What kind of table."] = TableFormat.PARQUET
    since: Annotated[str | None, "Enqueued at this time or later, such as 2026-11-16T08:00."] = None
    until: Annotated[str | None, "Enqueued before this time."] = None
    key: Annotated[tuple[str, ...], "Only this partition key; may repeat."] = ()
    session: Annotated[tuple[str, ...], "Only this session; may repeat."] = ()
    where: Annotated[str | None, "Only rows for which this SQL condition is true."] = None
    rate: Annotated[float | None, "At most so many messages a second."] = None
    dry_run: Annotated[bool, "Send nothing; say what it would be."] = False
    again: Annotated[bool, "Send it even if the same replay was done before."] = False
    transaction: Annotated[str | None, "Name the transaction yourself: it is done once."] = None
    tasks: Annotated[int | None, "Send by so many tasks at once; by default one per core."] = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("since", "until"):
            moment_of(name, getattr(self, name))
        if self.rate is not None and not self.rate > 0:
            raise ArgumentInvalid(f"--rate must be more than 0, not {self.rate:g}")
        if self.again and self.transaction is not None:
            raise ArgumentInvalid("--again and --transaction: use one of them")


def run(spark: SparkSession, options: Options, progress: Progress) -> Mapping[str, object]:
    """Choose rows, put them in order, and send them in one transaction; with a rate, in several."""
    progress.stage("reading the table")
    rows = chosen(table_at(options.table, options.format).read(spark), options)
    transaction = transaction_of(rows, options)
    if options.dry_run:
        return {"would_send": described(rows), "transaction": transaction}
    progress.stage("sending")
    begun, sent = time.monotonic(), 0
    with progress.watched():
        for number, portion in enumerate(portions(rows, options.rate)):
            if options.rate is not None:
                time.sleep(max(0.0, begun + sent / options.rate - time.monotonic()))
            count = patiently(partial(send, portion, options, f"{transaction}-{number}"), progress)
            progress.rows(count)
            sent += count
    return {"sent": sent, "entity": options.entity, "transaction": transaction}


def as_text(result: Mapping[str, object]) -> str:
    """Word what was sent, or would be, for people."""
    transaction = result["transaction"]
    figures = result.get("would_send")
    if not isinstance(figures, Mapping):
        sent, entity = result["sent"], result["entity"]
        return f"{sent:,} messages are sent to {entity}, once: transaction {transaction}"
    lines = [f"{name.replace('_', ' ')}: {value}" for name, value in figures.items()]
    return "\n".join([*lines, f"transaction: {transaction}", "nothing was sent"])


def chosen(rows: DataFrame, options: Options) -> DataFrame:
    """Return the rows that the options mean."""
    if "sequence_number" not in rows.columns:
        raise PipelineFailed(
            f"{options.table} has no column sequence_number, so nobody knows the order of its"
            ' messages; send it with df.write.format("servicebus"), see docs/spark.md'
        )
    if (since := moment_of("since", options.since)) is not None:
        rows = rows.where(f.col("enqueued_time") >= f.lit(since))
    if (until := moment_of("until", options.until)) is not None:
        rows = rows.where(f.col("enqueued_time") < f.lit(until))
    if options.key:
        rows = rows.where(f.coalesce("partition_key", "session_id").isin(*options.key))
    if options.session:
        rows = rows.where(f.col("session_id").isin(*options.session))
    return rows if options.where is None else rows.where(options.where)


def portions(rows: DataFrame, rate: float | None) -> Iterator[DataFrame]:
    """Cut the rows into portions: every fragment's in its order, and some of each in every portion.

    They are cut the same way each time, because each is a transaction of its own.
    """
    count = 0 if rate is None else rows.count()
    number = 1 if rate is None else ceil(count / (rate * PORTION_SECONDS))
    if number <= 1:
        yield rows
        return
    fragment = f.shiftrightunsigned("sequence_number", COUNTER_BITS)
    whole = Window.partitionBy(fragment)
    place = f.row_number().over(whole.orderBy("sequence_number"))
    # Fragments are shifted against each other, lest the rests of all of them meet in one portion.
    shifted = (place - 1 + (fragment % 16) / 16) / f.count("*").over(whole)
    cut = rows.withColumn("portion", f.least(f.floor(shifted * number), f.lit(number - 1)))
    cut = cut.persist()
    try:
        for each in range(number):
            yield cut.where(f.col("portion") == each)
    finally:
        cut.unpersist()


def send(rows: DataFrame, options: Options, transaction: str) -> int:
    """Send rows, each key and each session by one task and in its order; return how many."""
    if rows.isEmpty():
        # Spark would not even count them.
        return 0
    tasks = options.tasks or rows.sparkSession.sparkContext.defaultParallelism
    key = f.coalesce("session_id", "partition_key", f.col("sequence_number").cast("string"))
    counted = Observation()
    (
        rows.observe(counted, f.count(f.lit(1)).alias("rows"))
        .repartition(tasks, key)
        .sortWithinPartitions("sequence_number")
        .select(*(name for name in WRITABLE if name in rows.columns))
        .write.format("servicebus")
        .options(**options.bus(options.entity, options.subscription), transactionId=transaction)
        .mode("append")
        .save()
    )
    return int(counted.get["rows"])


def transaction_of(rows: DataFrame, options: Options) -> str:
    """Name the transaction by what it sends and where, so that repeating it means the same one."""
    if options.transaction is not None:
        return options.transaction
    if options.again:
        return str(uuid.uuid4())
    meant = [
        *(options.entity, options.subscription, options.since, options.until, options.where),
        *(sorted(options.key), sorted(options.session), options.rate),
        sorted(rows.inputFiles()),
    ]
    return hashlib.sha256(json.dumps(meant).encode()).hexdigest()[:32]


def described(rows: DataFrame) -> dict[str, object]:
    """Say what the rows are, for whoever has to decide."""
    figures = rows.agg(
        f.count("*").alias("messages"),
        f.sum(f.length("body")).alias("body_bytes"),
        f.count_distinct("session_id").alias("sessions"),
        f.count_distinct("partition_key").alias("keys"),
        f.min("enqueued_time").cast("string").alias("first_enqueued"),
        f.max("enqueued_time").cast("string").alias("last_enqueued"),
    )
    return figures.first().asDict()  # type: ignore[union-attr]  # an aggregate has one row


def moment_of(name: str, text: str | None) -> datetime | None:
    """Read a time; without an offset it is UTC. Raises `ArgumentInvalid`."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentInvalid(
            f"--{name} must be a time such as 2026-11-16 or 2026-11-16T08:00, not {text!r}"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
