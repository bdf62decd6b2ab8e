"""The columns of a message as Arrow types: exactly those that Spark expects of a source."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from bendybus.columns.schema import COLUMNS, ColumnType

# One value of an application property. Spark calls the value of a map nullable, and its key not.
PROPERTY: Final = pa.struct([pa.field("type", pa.string()), pa.field("value", pa.string())])
PROPERTIES: Final = pa.map_(pa.string(), pa.field("value", PROPERTY))

ARROW_TYPES: Final[dict[ColumnType, pa.DataType]] = {
    ColumnType.INT: pa.int32(),
    ColumnType.BIGINT: pa.int64(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.STRING: pa.string(),
    ColumnType.BINARY: pa.binary(),
    ColumnType.PROPERTIES: PROPERTIES,
}


def arrow_schema(names: Iterable[str] = COLUMNS) -> pa.Schema:
    """Return the schema of some columns, in the order in which they are named."""
    return pa.schema([pa.field(name, ARROW_TYPES[COLUMNS[name]]) for name in names])
