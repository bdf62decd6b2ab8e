"""Rows in a Delta table, by the package `deltalake`: Spark's own needs jars that are no package."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.tables import Batch

try:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
except ModuleNotFoundError:
    raise PipelineFailed("--format delta needs a package: pip install deltalake") from None


class DeltaRows:
    """A Delta table. A batch goes through the driver: bound it with --batch-messages."""

    def __init__(self, place: str, partition_by: Sequence[str] = ()) -> None:
        self._place = place
        self._partition_by = partition_by

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Commit the rows together with the number of their batch, unless it is there already."""
        if DeltaTable.is_deltatable(self._place):
            last = DeltaTable(self._place).transaction_version(batch.stream)
            if last is not None and last >= batch.number:
                return
        write_deltalake(
            self._place,
            rows.toArrow(),
            mode="append",
            partition_by=list(self._partition_by) or None,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(app_id=batch.stream, version=batch.number)]
            ),
        )

    def read(self, spark: SparkSession) -> DataFrame:
        """Have Spark read the files that make up the newest version."""
        if not DeltaTable.is_deltatable(self._place):
            raise PipelineFailed(f"there is no Delta table at {self._place}")
        files = DeltaTable(self._place).file_uris()
        if not files:
            raise PipelineFailed(f"the Delta table at {self._place} has no rows")
        return spark.read.option("basePath", self._place).parquet(*files)
