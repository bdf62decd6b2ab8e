"""Group dead letters by what went wrong, and redrive, edit, archive or drop them by rules.

Without `--rules` nothing is changed: it says which failures there are, how many of each, since
when, and shows the oldest and the newest message. Texts are folded: numbers, ids, times and what
is quoted stand as <n>, <id>, <time> and <text>. With `--report` all of it becomes an HTML page with
a picture, one file that can be sent to others.

    bendybus pipeline run triage orders --report triage.html

    bendybus pipeline run triage "*" --rules rules.yaml --dry-run

    bendybus pipeline run triage news/Subscriptions/mails --rules rules.yaml

Every message is dealt with once: each leaves the dead letters in the commit that puts it where it
goes. What somebody holds is left alone and counted. Stop it or kill it at any moment, and run it
again for the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as every program on Spark calls it

from bendybus.client.bulk_values import Place
from bendybus.columns.schema import spark_schema
from bendybus.pipelines.dead_letter_places import DEAD_LETTERS, places_of
from bendybus.pipelines.exception_text import folded
from bendybus.pipelines.failure_groups import failure_groups, failures_over_time
from bendybus.pipelines.options import BusOptions
from bendybus.pipelines.progress import Progress
from bendybus.pipelines.report_page import write_page
from bendybus.pipelines.triage_archive import archive
from bendybus.pipelines.triage_deeds import perform
from bendybus.pipelines.triage_matching import check_expressions, rule_of
from bendybus.pipelines.triage_report import triage_page, triage_text
from bendybus.pipelines.triage_rules import Deed, Rule, load_rules

GROUPS_MAX: Final = 200


@dataclass(frozen=True, kw_only=True)
class Options(BusOptions):
    """What can be chosen."""

    entity: Annotated[
        str, "A queue, a topic with all its subscriptions, topic/Subscriptions/name, or * for all."
    ]
    rules: Annotated[Path | None, "What becomes of which dead letters; a YAML file."] = None
    dry_run: Annotated[bool, "Change nothing; say how many each rule matches."] = False
    report: Annotated[Path | None, "Write an HTML page with a picture to this file."] = None
    management_url: Annotated[
        str | None, "Where the broker answers HTTP; by default port 5300 of the connection's host."
    ] = None


def run(spark: SparkSession, options: Options, progress: Progress) -> Mapping[str, object]:
    """Read, group, and then do what the rules say, one after the other."""
    rules = [] if options.rules is None else load_rules(options.rules)
    check_expressions(spark, rules)
    progress.stage("looking for dead letters")
    places = places_of(options, options.entity, options.management_url)
    letters = dead_letters(spark, options, places)
    ruled = letters.withColumn("rule", rule_of(rules)).persist(StorageLevel.DISK_ONLY)
    try:
        progress.stage("grouping dead letters")
        result = grouped(ruled, rules)
        progress.rows(result["dead_letters"])
        if rules and not options.dry_run:
            result["done"] = [
                {"rule": rule.name, **follow(spark, options, places, ruled, number, rule, progress)}
                for number, rule in enumerate(rules)
            ]
    finally:
        ruled.unpersist()
    if options.report is not None:
        write_page(options.report, triage_page(options.entity, result))
    return result


def dead_letters(spark: SparkSession, options: Options, places: Sequence[Place]) -> DataFrame:
    """Return all dead letters that nobody set aside, with where they are and a folded text."""
    nothing = spark.createDataFrame([], f"{spark_schema()}, entity STRING, subscription STRING")
    frames = [
        spark.read.format("servicebus")
        .options(**options.bus(place.entity, place.subscription, DEAD_LETTERS), states="active")
        .schema(spark_schema())
        .load()
        .withColumns({"entity": F.lit(place.entity), "subscription": F.lit(place.subscription)})
        for place in places
    ]
    letters = reduce(DataFrame.unionByName, frames, nothing)
    return letters.withColumn("exception_text", folded(F.col("dead_letter_error_description")))


def grouped(ruled: DataFrame, rules: Sequence[Rule]) -> dict[str, Any]:
    """Count by failure, over time, and by rule."""
    groups = failure_groups(ruled, GROUPS_MAX)
    counts = {row["rule"]: row["count"] for row in ruled.groupBy("rule").count().collect()}
    return {
        "dead_letters": sum(counts.values()),
        "groups": groups,
        "over_time": failures_over_time(ruled, groups),
        "rules": [
            {"rule": rule.name, "do": rule.deed.value, "matched": counts.get(number, 0)}
            for number, rule in enumerate(rules)
        ],
        "unmatched": counts.get(None, 0),
    }


def follow(
    spark: SparkSession,
    options: Options,
    places: Sequence[Place],
    ruled: DataFrame,
    number: int,
    rule: Rule,
    progress: Progress,
) -> dict[str, Any]:
    """Do what one rule says to the dead letters that it matches."""
    progress.stage(f"{rule.name}: {rule.deed}")
    chosen = ruled.where(F.col("rule") == number)
    if rule.deed is Deed.ARCHIVE:
        return archive(spark, options, places, chosen, rule)
    return perform(options, chosen, rule)


def as_text(result: Mapping[str, Any]) -> str:
    """Word the outcome for people."""
    return triage_text(result)
