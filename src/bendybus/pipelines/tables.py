"""Tables that the batches of a stream go into, each batch exactly once.

Spark may hand out a batch again: after a crash, or when a try failed half-way. It has the same
number then and the same rows, so a table needs to know only which batches it holds. How it knows
is a matter of its format:

- Parquet: the name of the batch is the last level of folders, and a batch that comes again
  replaces those folders. Whatever reads Parquet sees each row once.
- Delta and Iceberg: the number of the last batch is written in the same commit as its rows, and a
  batch that comes again is left out.
"""

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bendybus.pipelines.failure import PipelineFailed

# The column, and level of folders, that says which batch a row of a Parquet table came by.
BATCH: Final = "batch"
# What Spark leaves beside the rows when it is killed while it writes, and how old it has to be for
# nobody to be writing it any more.
LEFTOVERS: Final = ".spark-staging-*"
LEFTOVER_SECONDS: Final = 24 * 3600.0
_PATH_MISSING: Final = frozenset({"PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"})


class TableFormat(StrEnum):
    """How a table keeps its rows."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of one stream: the same name means the same rows."""

    stream: str
    number: int


class Table(Protocol):
    """A place for rows."""

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Add the rows of a batch, once however often it is called; durable on return."""
        ...

    def read(self, spark: SparkSession) -> DataFrame:
        """Return all rows. Raises `PipelineFailed` if there is no such table."""
        ...


def table_at(place: str, table_format: TableFormat, partition_by: Sequence[str] = ()) -> Table:
    """Return the table at a path, a URL, or of a name in an Iceberg catalog."""
    match table_format:
        case TableFormat.PARQUET:
            return ParquetTable(place, partition_by)
        case TableFormat.DELTA:
            from bendybus.pipelines.delta_table import DeltaRows

            return DeltaRows(place, partition_by)
        case TableFormat.ICEBERG:
            from bendybus.pipelines.iceberg_table import IcebergRows

            return IcebergRows(place, partition_by)


class ParquetTable:
    """Folders of Parquet files, on any file system that Spark knows."""

    def __init__(self, place: str, partition_by: Sequence[str] = ()) -> None:
        self._place = place
        self._folders = (*partition_by, BATCH)

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Write the folders of this batch anew, and no others."""
        # The letter keeps a reader from taking the name for a number or a date.
        name = f"b{batch.number}-{batch.stream.replace('-', '')[:12]}"
        (
            rows.withColumn(BATCH, f.lit(name))
            .write.mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .partitionBy(*self._folders)
            .parquet(self._place)
        )
        if (folder := local_folder(self._place)) is not None:
            sync_batch(folder, self._folders, name)
            _drop_leftovers(folder)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return all rows, with the columns that are folders."""
        try:
            return spark.read.parquet(self._place)
        except AnalysisException as error:
            if error.getCondition() not in _PATH_MISSING:
                raise
            raise PipelineFailed(
                f"there is no Parquet table at {self._place}; `bendybus pipeline run capture`"
                " makes one, and --format is for tables of other kinds"
            ) from None


def sync_batch(folder: Path, levels: Sequence[str], name: str) -> None:
    """Have the disk keep a batch before the broker is told that it need not.

    Spark leaves it to the system when files reach a disk of this machine. A file is found again
    after a power cut only if every folder on the way to it is kept as well.
    """
    *outer, last = levels
    batches = list(folder.glob("/".join([*(f"{level}=*" for level in outer), f"{last}={name}"])))
    way = {each for batch in batches for each in batch.parents if each.is_relative_to(folder)}
    for path in (*(path for batch in batches for path in batch.iterdir()), *batches, *way):
        _sync(path)
    # Who may not look into the folder around the table did not make the table's entry there.
    with suppress(PermissionError):
        _sync(folder.parent)


def _drop_leftovers(folder: Path) -> None:
    for path in folder.glob(LEFTOVERS):
        if time.time() - path.stat().st_mtime > LEFTOVER_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def local_folder(place: str) -> Path | None:
    """Return the folder of this machine that a path or URL means; None if it means another."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return None if parts.scheme else Path(place)


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
