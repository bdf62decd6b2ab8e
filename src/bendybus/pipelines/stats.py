"""Say what is in an entity, or in a captured table: rates, sizes, ages, skew, hot keys, duplicates.

Nothing is changed in the broker: messages are looked at where they are. With `--report` the same is
written as an HTML page with plots, one file that can be sent to others.

    bendybus pipeline run stats orders --report orders.html

    bendybus pipeline run stats news --subscription mails --dead-letter

    bendybus pipeline run stats orders --table captured/orders --output json
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from bendybus.client.bulk_values import Place
from bendybus.columns.schema import spark_schema
from bendybus.model.errors import ArgumentInvalid
from bendybus.pipelines import measures
from bendybus.pipelines.bulk_access import bulk_client
from bendybus.pipelines.options import BusOptions
from bendybus.pipelines.plots import plain
from bendybus.pipelines.progress import Progress
from bendybus.pipelines.report_page import write_page
from bendybus.pipelines.stats_report import stats_page


@dataclass(frozen=True, kw_only=True)
class Options(BusOptions):
    """What can be chosen."""

    entity: Annotated[str, "A queue or a topic."]
    subscription: Annotated[str | None, "A subscription of the topic."] = None
    dead_letter: Annotated[bool, "Its dead-letter queue instead."] = False
    table: Annotated[
        str | None, "Look at this folder of Parquet files, as capture writes them, instead."
    ] = None
    top: Annotated[int, "How many keys, sessions and ids to name."] = 20
    as_of: Annotated[
        str | None, "The moment from which ages count, such as 2026-11-16T12:00:00Z; now if none."
    ] = None
    report: Annotated[Path | None, "Write an HTML page with plots to this file."] = None

    def __post_init__(self) -> None:
        if self.top < 1:
            raise ArgumentInvalid("--top must be at least 1")
        self.counted_until()

    def counted_until(self) -> datetime:
        """Return the moment from which ages count."""
        if self.as_of is None:
            return datetime.now(UTC)
        try:
            at = datetime.fromisoformat(self.as_of)
        except ValueError:
            raise ArgumentInvalid(
                f"--as-of: '{self.as_of}' is no time; write it as 2026-11-16T12:00:00Z"
            ) from None
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def run(spark: SparkSession, options: Options, progress: Progress) -> Mapping[str, object]:
    """Look at every message once, keep the few columns that count, and ask questions of them."""
    as_of = options.counted_until()
    progress.stage("reading messages")
    messages = measures.narrowed(read(spark, options)).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = measured(messages, options, as_of)
    finally:
        messages.unpersist()
    progress.rows(found["messages"])
    if options.report is not None:
        write_page(options.report, stats_page(found))
    return found


def read(spark: SparkSession, options: Options) -> DataFrame:
    """Return the columns that are looked at, of the entity or of the table."""
    if options.table is not None:
        return spark.read.parquet(options.table).select(*measures.COLUMNS)
    sub_queue = "deadletter" if options.dead_letter else None
    return (
        spark.read.format("servicebus")
        .options(**options.bus(options.entity, options.subscription, sub_queue))
        .schema(spark_schema(measures.COLUMNS))
        .load()
    )


def measured(messages: DataFrame, options: Options, as_of: datetime) -> dict[str, Any]:
    """Take all measures."""
    whole = measures.totals(messages)
    return {
        "entity": place_of(options),
        "as_of": as_of.isoformat(),
        **whole,
        "states": measures.by_state(messages),
        "rate": measures.rates(messages, whole),
        "age_seconds": measures.ages(messages, as_of),
        "sizes": measures.sizes(messages),
        "skew": measures.by_fragment(messages, fragments_of(options)),
        "keys": measures.keys(messages, options.top),
        "sessions": measures.sessions(messages, options.top),
        "duplicates": measures.duplicates(messages, options.top),
    }


def fragments_of(options: Options) -> Sequence[int]:
    """Return the fragments of the entity: an empty one counts, and a table does not tell of it."""
    if options.table is not None:
        return ()
    sub_queue = "deadletter" if options.dead_letter else None
    with bulk_client(options) as client:
        described = client.describe(Place(options.entity, options.subscription, sub_queue))
    return [each.fragment for each in described.fragments]


def place_of(options: Options) -> str:
    """Name what was looked at."""
    if options.table is not None:
        return f"{options.entity} in {options.table}"
    path = options.entity
    if options.subscription is not None:
        path += f"/Subscriptions/{options.subscription}"
    return f"{path}/$DeadLetterQueue" if options.dead_letter else path


def as_text(result: Mapping[str, Any]) -> str:
    """Word the outcome for people."""
    if not result["messages"]:
        return f"{result['entity']} holds no messages"
    rate, skew, keys, sessions = (result[each] for each in ("rate", "skew", "keys", "sessions"))
    hottest = "".join(f"; {each['key']} {each['share']:.0%}" for each in keys["hottest"][:3])
    lengths = _distribution(sessions["messages_per_session"])
    most = f"{plain(rate['per_second_most'])}/s over {rate['bucket_seconds']} s at most"
    fullest = f"the fullest has {plain(skew['most_to_mean'])} times the mean"
    doubled = result["duplicates"]
    lines = {
        "messages": f"{result['messages']:,} with {result['bytes']:,} bytes of bodies",
        "states": ", ".join(f"{count:,} {state}" for state, count in result["states"].items()),
        "enqueued": f"{result['first']} to {result['last']}",
        "rate": f"{plain(rate['per_second_mean'])}/s in the mean, {most}",
        "body bytes": _distribution(result["body_bytes"]),
        "age (s)": _distribution(result["age_seconds"]),
        "fragments": f"{len(skew['fragments'])}, {fullest}; Gini {skew['gini']:.2f}",
        "keys": f"{keys['keys']:,} of {keys['messages_with_key']:,} messages{hottest}",
        "sessions": f"{sessions['sessions']:,}{', messages ' if lengths else ''}{lengths}",
        "duplicates": f"{doubled['ids']:,} ids, {doubled['extra_messages']:,} messages too many",
    }
    told = (f"{name:<10} {text}" for name, text in lines.items())
    return "\n".join([result["entity"], *told])


def _distribution(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {plain(value)}" for name, value in values.items())
