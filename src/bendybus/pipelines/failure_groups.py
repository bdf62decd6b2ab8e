"""Dead letters put together by what went wrong: where, why, and with which text."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as every program on Spark calls it

from bendybus.model.entity import subscription_path
from bendybus.pipelines.measures import bucket_seconds, moment
from bendybus.pipelines.plots import COLOURS

BY: Final = ("entity", "subscription", "dead_letter_reason", "exception_text")
HOUR_SECONDS: Final = 3600
_SAMPLE_BYTES: Final = 200
_SAMPLE_CHARACTERS: Final = 500


def failure_groups(letters: DataFrame, groups_max: int) -> list[dict[str, Any]]:
    """Return the largest groups, each with its oldest and its newest message."""
    enqueued = F.unix_micros("enqueued_time")
    rows = (
        letters.groupBy(*BY)
        .agg(
            F.count("*").alias("messages"),
            F.min(enqueued).alias("first"),
            F.max(enqueued).alias("last"),
            F.min_by(_sample(), F.struct(enqueued, "sequence_number")).alias("oldest"),
            F.max_by(_sample(), F.struct(enqueued, "sequence_number")).alias("newest"),
        )
        .orderBy(F.desc("messages"), *BY)
        .limit(groups_max)
        .collect()
    )
    return [_group(row) for row in rows]


def failures_over_time(letters: DataFrame, groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many failed in each hour, or longer if there were many, by the largest groups."""
    if not groups:
        return {"bucket_seconds": HOUR_SECONDS, "buckets": []}
    enqueued = F.unix_seconds("enqueued_time")
    [span] = letters.agg(F.min(enqueued).alias("first"), F.max(enqueued).alias("last")).collect()
    seconds = max(HOUR_SECONDS, bucket_seconds(span["last"] - span["first"]))
    # The last colour is for all others together.
    group = F.lit(None).cast("int")
    for number, each in reversed(list(enumerate(groups[: COLOURS - 1]))):
        group = F.when(_is_of(each), F.lit(number)).otherwise(group)
    rows = (
        letters.groupBy(F.floor(enqueued / seconds).alias("bucket"), group.alias("group"))
        .count()
        .collect()
    )
    found = {(row["bucket"], row["group"]): row["count"] for row in rows}
    buckets = range(span["first"] // seconds, span["last"] // seconds + 1)
    return {
        "bucket_seconds": seconds,
        "buckets": [
            {
                "from": moment(bucket * seconds * 1_000_000),
                "by_group": [
                    found.get((bucket, number), 0) for number in range(len(groups[: COLOURS - 1]))
                ],
                "others": found.get((bucket, None), 0),
            }
            for bucket in buckets
        ],
    }


def _sample() -> Column:
    """What is shown of a message: enough to know it, and no more than fits on a line."""
    return F.struct(
        "sequence_number",
        "message_id",
        F.substring("dead_letter_error_description", 1, _SAMPLE_CHARACTERS).alias("description"),
        F.substring("body", 1, _SAMPLE_BYTES).alias("body"),
    )


def _group(row: Row) -> dict[str, Any]:
    place = row["entity"]
    if row["subscription"] is not None:
        place = subscription_path(place, row["subscription"])
    samples = [row["oldest"]] if row["messages"] == 1 else [row["oldest"], row["newest"]]
    return {
        "place": place,
        **{name: row[name] for name in BY},
        "messages": row["messages"],
        "first": moment(row["first"]),
        "last": moment(row["last"]),
        "samples": [_shown(each) for each in samples],
    }


def _shown(sample: Row) -> dict[str, Any]:
    body = bytes(sample["body"] or b"").decode("utf-8", "replace")
    return {**sample.asDict(), "body": body}


def _is_of(group: Mapping[str, Any]) -> Column:
    conditions = [F.col(name).eqNullSafe(F.lit(group[name])) for name in BY]
    whole = conditions[0]
    for each in conditions[1:]:
        whole &= each
    return whole
