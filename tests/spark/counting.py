"""Count rows that Spark makes, in a stream or in one go.

A program as users write it: it is on nobody's path.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType

from bendybus.model.errors import ArgumentInvalid
from bendybus.pipelines.options import BusOptions
from bendybus.pipelines.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Options(BusOptions):
    """What can be chosen."""

    until: Annotated[int, "How far to count."]
    checkpoint: Annotated[Path | None, "Count on for ever, and keep the place here."] = None
    labels: Annotated[tuple[str, ...], "What to call it."] = ()

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.until < 1:
            raise ArgumentInvalid(f"until: {self.until} is less than 1")


@f.udf(LongType(), useArrow=False)
def twice(value: int) -> int:
    """Runs in Spark's workers, which cannot import this file."""
    return 2 * value


def run(spark: SparkSession, options: Options, progress: Progress) -> Mapping[str, object]:
    """Count."""
    progress.stage("counting")
    if options.checkpoint is not None:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", options.until)
        sink = source.load().writeStream.format("noop")
        progress.follow(sink.option("checkpointLocation", str(options.checkpoint)).start())
    summed = spark.range(options.until).agg(f.sum(twice("id"))).first()
    assert summed is not None
    progress.rows(options.until)
    return {"labels": list(options.labels), "sum": summed[0], "java": _java_home(spark)}


def _java_home(spark: SparkSession) -> str:
    machine = spark.sparkContext._jvm
    assert machine is not None
    return str(machine.java.lang.System.getProperty("java.home"))
