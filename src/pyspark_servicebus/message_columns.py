"""The columns of a frame against those of a message: what cannot be is refused before any row."""

from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from bendybus.columns.schema import COLUMNS, WRITABLE, ColumnType
from bendybus.model.suggestion import suggest

_PLAIN_PROPERTIES: Final = "map<string,string>"


class ColumnInvalid(ValueError):
    """A column has no such name, or not such a type; nothing was done."""


def check_read(schema: StructType) -> tuple[str, ...]:
    """Return the names of the columns that are asked for."""
    names = tuple(schema.fieldNames())
    _refuse_twice(names)
    for field in schema.fields:
        if field.name not in COLUMNS:
            raise ColumnInvalid(
                f"a message has no column '{field.name}'; {suggest(field.name, COLUMNS)}"
            )
        expected, actual = _simple(COLUMNS[field.name]), field.dataType.simpleString()
        if actual != expected:
            raise ColumnInvalid(
                f"column {field.name} is {expected}, not {actual}; cast it after reading"
            )
    return names


def check_write(schema: StructType) -> tuple[str, ...]:
    """Return the names of the columns that are written.

    Those that the broker itself gives a message, such as its sequence number, are left out: a frame
    that was read can be written as it is.
    """
    names = tuple(schema.fieldNames())
    _refuse_twice(names)
    for field in schema.fields:
        if field.name not in COLUMNS:
            raise ColumnInvalid(
                f"a message has no column '{field.name}'; {suggest(field.name, WRITABLE)};"
                " others go into application_properties"
            )
        allowed, actual = _writable_types(field.name), field.dataType.simpleString()
        if field.name in WRITABLE and actual not in allowed:
            raise ColumnInvalid(
                f"column {field.name} must be {' or '.join(allowed)}, not {actual}; cast it"
            )
    written = tuple(name for name in names if name in WRITABLE)
    if not written:
        raise ColumnInvalid(f"nothing to write: none of the columns is {', '.join(WRITABLE)}")
    return written


def shaped(batch: pa.RecordBatch, schema: StructType) -> pa.RecordBatch:
    """Return a batch in the very form that Spark compares its own with, without a copy."""
    fields = [
        pa.field(field.name, batch.schema.field(field.name).type, field.nullable)
        for field in schema.fields
    ]
    columns = [batch.column(field.name) for field in fields]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _writable_types(name: str) -> tuple[str, ...]:
    simple = _simple(COLUMNS[name])
    if name == "body":
        return (simple, "string")
    if name == "application_properties":
        return (simple, _PLAIN_PROPERTIES)
    return (simple,)


def _simple(kind: ColumnType) -> str:
    """Return a type the way Spark writes it shortest."""
    return kind.value.replace(" ", "").lower()


def _refuse_twice(names: tuple[str, ...]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ColumnInvalid(f"column {name} is there twice")
