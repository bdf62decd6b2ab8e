"""What can be counted about messages, each measure a query over the same few columns.

Times leave Spark as numbers: a timestamp that is collected comes in the time zone of whoever runs
it. Percentiles of sizes and sessions are exact; those of ages, of which there are as many as
messages, are within a hundredth of a percent of their rank.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as every program on Spark calls it

Measures = dict[str, Any]

COLUMNS: Final = (
    "fragment",
    "sequence_number",
    "enqueued_time",
    "state",
    "message_id",
    "session_id",
    "partition_key",
    "delivery_count",
    "body",
)
"""What of a message is looked at."""

RANKS: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_AGE_ACCURACY: Final = 10_000
_BUCKETS_MAX: Final = 96
_BUCKET_SECONDS: Final = (1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400)


def narrowed(messages: DataFrame) -> DataFrame:
    """Keep what is counted; bodies only as their sizes."""
    return messages.select(
        "fragment",
        "sequence_number",
        F.unix_micros("enqueued_time").alias("enqueued_us"),
        "state",
        "message_id",
        "session_id",
        F.coalesce("session_id", "partition_key").alias("key"),
        "delivery_count",
        F.coalesce(F.octet_length("body"), F.lit(0)).alias("size"),
    )


def totals(messages: DataFrame) -> Measures:
    """How many there are, from when to when, and how large their bodies are."""
    row = _only(
        messages.agg(
            F.count("*").alias("messages"),
            F.coalesce(F.sum("size"), F.lit(0)).alias("bytes"),
            F.min("enqueued_us").alias("first"),
            F.max("enqueued_us").alias("last"),
            F.min("size").alias("min"),
            F.avg("size").alias("mean"),
            *_percentiles("size"),
            F.max("size").alias("max"),
            F.max("delivery_count").alias("deliveries"),
        )
    )
    return {
        "messages": row["messages"],
        "bytes": row["bytes"],
        "first": moment(row["first"]),
        "last": moment(row["last"]),
        "delivery_count_max": row["deliveries"],
        "body_bytes": _distribution(row) if row["messages"] else {},
    }


def ages(messages: DataFrame, as_of: datetime) -> Measures:
    """How long ago they were enqueued, in seconds."""
    age = (F.lit(round(as_of.timestamp() * 1_000_000)) - F.col("enqueued_us")) / 1_000_000
    row = _only(
        messages.agg(
            F.min(age).alias("min"),
            F.avg(age).alias("mean"),
            *(
                F.percentile_approx(age, F.lit(rank), F.lit(_AGE_ACCURACY)).alias(name)
                for name, rank in RANKS.items()
            ),
            F.max(age).alias("max"),
        )
    )
    return {} if row["max"] is None else _distribution(row)


def rates(messages: DataFrame, span: Measures) -> Measures:
    """How many came in each stretch of time, and how many a second at most and in the mean."""
    if span["first"] is None:
        return {"bucket_seconds": 0, "buckets": []}
    first, last = (datetime.fromisoformat(span[end]).timestamp() for end in ("first", "last"))
    seconds = bucket_seconds(last - first)
    bucket = F.floor(F.col("enqueued_us") / (seconds * 1_000_000))
    rows = messages.groupBy(bucket.alias("bucket")).agg(
        F.count("*").alias("messages"), F.sum("size").alias("bytes")
    )
    found = {row["bucket"]: row for row in rows.collect()}
    buckets: list[Measures] = [
        {
            "from": moment(at * seconds * 1_000_000),
            "messages": found[at]["messages"] if at in found else 0,
            "bytes": found[at]["bytes"] if at in found else 0,
        }
        for at in range(min(found), max(found) + 1)
    ]
    most = max(each["messages"] for each in buckets)
    return {
        "bucket_seconds": seconds,
        "per_second_mean": span["messages"] / max(last - first, 1.0),
        "per_second_most": most / seconds,
        "buckets": buckets,
    }


def by_state(messages: DataFrame) -> dict[str, int]:
    """How many wait for what."""
    rows = messages.groupBy("state").count().orderBy("state").collect()
    return {row["state"]: row["count"] for row in rows}


def sizes(messages: DataFrame) -> list[Measures]:
    """How many bodies there are up to each power of two bytes."""
    doubled = F.ceil(F.log2(F.greatest("size", F.lit(1)))).cast("int").alias("power")
    rows = messages.groupBy(doubled).count().orderBy("power").collect()
    return [{"up_to_bytes": 1 << row["power"], "messages": row["count"]} for row in rows]


def by_fragment(messages: DataFrame, fragments: Sequence[int]) -> Measures:
    """How evenly messages lie: of each fragment how many, the most against the mean, Gini."""
    rows = messages.groupBy("fragment").agg(
        F.count("*").alias("messages"), F.sum("size").alias("bytes")
    )
    found = {row["fragment"]: row for row in rows.collect()}
    known = sorted({*fragments, *found})
    counts = [found[each]["messages"] if each in found else 0 for each in known]
    mean = sum(counts) / len(counts) if counts else 0.0
    return {
        "fragments": [
            {
                "fragment": each,
                "messages": count,
                "bytes": found[each]["bytes"] if each in found else 0,
            }
            for each, count in zip(known, counts, strict=True)
        ],
        "most_to_mean": max(counts) / mean if mean else None,
        "gini": gini(counts),
    }


def keys(messages: DataFrame, top: int) -> Measures:
    """Which keys have most messages; a session counts as a key."""
    keyed = messages.where(F.col("key").isNotNull())
    counted = keyed.groupBy("key").agg(F.count("*").alias("messages"), F.sum("size").alias("bytes"))
    whole = _only(
        counted.agg(F.count("*").alias("keys"), F.coalesce(F.sum("messages"), F.lit(0)).alias("n"))
    )
    rows = counted.orderBy(F.desc("messages"), "key").limit(top).collect()
    return {
        "keys": whole["keys"],
        "messages_with_key": whole["n"],
        "hottest": [
            {
                "key": row["key"],
                "messages": row["messages"],
                "bytes": row["bytes"],
                "share": row["messages"] / whole["n"],
            }
            for row in rows
        ],
    }


def sessions(messages: DataFrame, top: int) -> Measures:
    """How many messages sessions have, and which have most."""
    counted = (
        messages.where(F.col("session_id").isNotNull())
        .groupBy("session_id")
        .agg(
            F.count("*").alias("messages"),
            ((F.max("enqueued_us") - F.min("enqueued_us")) / 1_000_000).alias("seconds"),
        )
    )
    row = _only(
        counted.agg(
            F.count("*").alias("sessions"),
            F.min("messages").alias("min"),
            F.avg("messages").alias("mean"),
            *_percentiles("messages"),
            F.max("messages").alias("max"),
        )
    )
    longest = counted.orderBy(F.desc("messages"), "session_id").limit(top).collect()
    return {
        "sessions": row["sessions"],
        "messages_per_session": _distribution(row) if row["sessions"] else {},
        "longest": [each.asDict() for each in longest],
    }


def duplicates(messages: DataFrame, top: int) -> Measures:
    """Message ids that are there more than once, and how many messages that is too many."""
    doubled = (
        messages.where(F.col("message_id").isNotNull())
        .groupBy("message_id")
        .agg(F.count("*").alias("messages"))
        .where(F.col("messages") > 1)
    )
    row = _only(
        doubled.agg(
            F.count("*").alias("ids"),
            F.coalesce(F.sum(F.col("messages") - 1), F.lit(0)).alias("extra"),
        )
    )
    most = doubled.orderBy(F.desc("messages"), "message_id").limit(top).collect()
    return {
        "ids": row["ids"],
        "extra_messages": row["extra"],
        "most": [each.asDict() for each in most],
    }


def gini(counts: Sequence[int]) -> float | None:
    """How unevenly something is shared: 0 for all alike, near 1 if one has all; None of nothing."""
    whole, many = sum(counts), len(counts)
    if not whole:
        return None
    weighted = sum(rank * count for rank, count in enumerate(sorted(counts), start=1))
    return 2 * weighted / (many * whole) - (many + 1) / many


def bucket_seconds(span: float) -> int:
    """How long each column of a plot over so many seconds is."""
    for seconds in _BUCKET_SECONDS:
        if span / seconds < _BUCKETS_MAX:
            return seconds
    weeks = int(span / _BUCKETS_MAX / _BUCKET_SECONDS[-1]) + 1
    return weeks * _BUCKET_SECONDS[-1]


def moment(microseconds: int | None) -> str | None:
    """Write a time as ISO 8601 does, in UTC."""
    if microseconds is None:
        return None
    at = datetime.fromtimestamp(microseconds // 1_000_000, UTC)
    return at.replace(microsecond=microseconds % 1_000_000).isoformat()


def _percentiles(column: str) -> list[Column]:
    return [F.percentile(column, rank).alias(name) for name, rank in RANKS.items()]


def _distribution(row: Row) -> dict[str, float]:
    return {name: row[name] for name in ("min", "mean", *RANKS, "max")}


def _only(frame: DataFrame) -> Row:
    [row] = frame.collect()
    return row
