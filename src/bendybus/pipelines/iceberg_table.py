"""Rows in an Iceberg table, by the package `pyiceberg`: Spark's own needs jars that are no package.

The table is named as in `CATALOG.NAMESPACE.TABLE`; where catalogs are is pyiceberg's own setting
(`.pyiceberg.yaml`, or PYICEBERG_CATALOG__DEFAULT__URI and the like).
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.tables import Batch

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.table import Table as Iceberg
except ModuleNotFoundError:
    raise PipelineFailed("--format iceberg needs a package: pip install pyiceberg") from None

# The property of the table that holds the number of a stream's last batch.
_LAST: Final = "bendybus.last-batch."
_PARTS: Final = 3


class IcebergRows:
    """An Iceberg table. A batch goes through the driver: bound it with --batch-messages."""

    def __init__(self, place: str, partition_by: Sequence[str] = ()) -> None:
        catalog, _, self._name = place.partition(".")
        if len(place.split(".")) < _PARTS:
            raise PipelineFailed(f"{place!r} must be CATALOG.NAMESPACE.TABLE with --format iceberg")
        self._catalog = load_catalog(catalog)
        self._partition_by = partition_by

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Commit the rows together with the number of their batch, unless it is there already."""
        arrow = rows.toArrow()
        table = self._made(self._catalog, arrow.schema)
        last = table.properties.get(_LAST + batch.stream)
        if last is not None and int(last) >= batch.number:
            return
        with table.transaction() as transaction:
            transaction.append(arrow)
            transaction.set_properties({_LAST + batch.stream: str(batch.number)})

    def read(self, spark: SparkSession) -> DataFrame:
        """Have Spark read the files that make up the newest snapshot."""
        try:
            tasks = list(self._catalog.load_table(self._name).scan().plan_files())
        except NoSuchTableError:
            raise PipelineFailed(f"the catalog has no table {self._name}") from None
        if any(task.delete_files for task in tasks):
            raise PipelineFailed(f"{self._name} has deleted rows: have its files rewritten first")
        if not tasks:
            raise PipelineFailed(f"the table {self._name} has no rows")
        return spark.read.parquet(*(task.file.file_path for task in tasks))

    def _made(self, catalog: Catalog, schema: pa.Schema) -> Iceberg:
        """Return the table, made as the first batch is if there is none."""
        try:
            return catalog.load_table(self._name)
        except NoSuchTableError:
            catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
            with (
                catalog.create_table_transaction(self._name, schema) as creation,
                creation.update_spec() as spec,
            ):
                for column in self._partition_by:
                    spec.add_identity(column)
            return catalog.load_table(self._name)
