"""A batch read as Spark does it, without Spark."""

import pickle

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from bendybus.columns.schema import COLUMNS, ColumnType
from pyspark_servicebus import DefaultSource

PROPERTY = StructType([StructField("type", StringType()), StructField("value", StringType())])
TYPES: dict[ColumnType, DataType] = {
    ColumnType.INT: IntegerType(),
    ColumnType.BIGINT: LongType(),
    ColumnType.TIMESTAMP: TimestampType(),
    ColumnType.STRING: StringType(),
    ColumnType.BINARY: BinaryType(),
    ColumnType.PROPERTIES: MapType(StringType(), PROPERTY),
}


def schema_of(*names: str) -> StructType:
    """Return the schema of some columns, or of all."""
    return StructType([StructField(name, TYPES[COLUMNS[name]]) for name in names or COLUMNS])


def read(options: dict[str, str], *names: str) -> list[dict[str, object]]:
    """Plan and read a batch; workers get the reader and their shares as pickles."""
    reader = DefaultSource(options).reader(schema_of(*names))
    rows: list[dict[str, object]] = []
    for partition in reader.partitions():
        worker, share = pickle.loads(pickle.dumps((reader, partition)))  # noqa: S301 - our own
        for batch in worker.read(share):
            rows += batch.to_pylist()
    return rows
