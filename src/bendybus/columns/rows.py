"""The columns of a batch of rows, as encoding needs them."""

import secrets
from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bendybus.columns.arrow_types import ARROW_TYPES
from bendybus.columns.schema import BODY_TYPES, COLUMNS, WRITABLE

_ID_DIGITS: Final = 32
_SHOWN_MAX: Final = 60


class Rows:
    """The columns of a batch, in the types that encoding needs; None for those that are absent."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.count = batch.num_rows
        self._columns: dict[str, pa.Array] = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if _says_something(name, column):
                self._columns[name] = _cast(name, column)
        self._columns["message_id"] = _with_ids(self._columns.get("message_id"), self.count)

    def get(self, name: str) -> pa.Array | None:
        """Return a column, unless it says nothing."""
        return self._columns.get(name)

    def has_only(self, names: Collection[str]) -> bool:
        """Say whether all columns that can be written, and are not empty, are among these."""
        return all(name in names or name not in WRITABLE for name in self._columns)

    def shown(self, row: int) -> str:
        """Say which row it is, by its values."""
        values = {
            name: self._columns[name][row].as_py()
            for name in ("message_id", "session_id", "partition_key", "subject", "body")
            if name in self._columns
        }
        return ", ".join(
            f"{name}={shown_short(value)}" for name, value in values.items() if value is not None
        )


def shown_short(value: object) -> str:
    """Show a value, its beginning if it is long."""
    text = repr(value)
    if len(text) <= _SHOWN_MAX:
        return text
    size = f"{len(value)} " if isinstance(value, str | bytes) else ""
    unit = "bytes" if isinstance(value, bytes) else "characters"
    return f"{text[:_SHOWN_MAX]}... ({size}{unit})"


def _says_something(name: str, column: pa.Array) -> bool:
    """Say whether messages would be others without the column."""
    if pa.types.is_null(column.type) or column.null_count == len(column):
        return False
    if name == "body_type":
        return not pc.all(pc.equal(column, BODY_TYPES[0])).as_py()
    return not pa.types.is_map(column.type) or column.offsets[0] != column.offsets[-1]


def _cast(name: str, column: pa.Array) -> pa.Array:
    """Bring what may be written in several types to one."""
    kind = ARROW_TYPES.get(COLUMNS[name])
    if name == "body" or kind is None:
        return column.cast(pa.binary())
    if pa.types.is_map(kind):
        return column
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us")).cast(pa.int64())
    return column.cast(kind)


def _with_ids(ids: pa.Array | None, count: int) -> pa.Array:
    """Give an id to rows that have none: clients rely on there being one."""
    if ids is not None and not ids.null_count and not pc.any(pc.equal(ids, "")).as_py():
        return ids
    digits = secrets.token_hex(_ID_DIGITS // 2 * count).encode()
    ends = np.arange(count + 1, dtype=np.int32) * _ID_DIGITS
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(digits)]
    made = pa.Array.from_buffers(pa.string(), count, buffers)
    if ids is None:
        return made
    return pc.if_else(pc.fill_null(pc.not_equal(ids, ""), False), ids, made)
