"""What messages made of rows are for, and which columns they can be made of."""

from difflib import get_close_matches
from typing import NamedTuple

import pyarrow as pa

from bendybus.columns.arrow_types import ARROW_TYPES
from bendybus.columns.schema import COLUMNS, WRITABLE
from bendybus.model.errors import ArgumentInvalid


class Target(NamedTuple):
    """What encoding needs to know of the entity that the messages are for."""

    entity: str
    message_bytes_max: int
    requires_session: bool
    has_duplicate_detection: bool
    is_partitioned: bool
    fragment_count: int
    is_topic: bool


def check_columns(schema: pa.Schema, target: Target) -> None:
    """Refuse columns that no message has, or of a type that cannot be written."""
    if len(set(schema.names)) != len(schema.names):
        raise ArgumentInvalid(f"A column is named twice: {', '.join(schema.names)}.")
    for each in schema:
        if each.name not in COLUMNS:
            near = get_close_matches(each.name, COLUMNS, 1)
            hint = f"Did you mean '{near[0]}'?" if near else f"There are {', '.join(WRITABLE)}."
            raise ArgumentInvalid(f"A message has no column '{each.name}'. {hint}")
        if each.name in WRITABLE and not _is_writable(each):
            raise ArgumentInvalid(
                f"The column '{each.name}' is {each.type}; it must be {_wanted(each.name)}."
            )
    if target.requires_session and "session_id" not in schema.names:
        raise ArgumentInvalid(
            f"'{target.entity}' requires sessions, and the rows have no column 'session_id'."
        )
    if not set(schema.names) & set(WRITABLE):
        raise ArgumentInvalid(f"No column can be written; there are {', '.join(WRITABLE)}.")


def _is_writable(column: pa.Field) -> bool:
    kind = column.type
    wanted = ARROW_TYPES[COLUMNS[column.name]]
    if pa.types.is_null(kind):
        return True
    if pa.types.is_map(wanted):
        return pa.types.is_map(kind) and _is_text(kind.key_type) and _is_property(kind.item_type)
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(kind))
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(kind))
    if pa.types.is_binary(wanted) and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return True
    return _is_text(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_property(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        names = [kind.field(at).name for at in range(kind.num_fields)]
        return names == ["type", "value"] and all(_is_text(kind.field(at).type) for at in (0, 1))
    return _is_text(kind)


def _wanted(name: str) -> str:
    kind = COLUMNS[name].value
    if name == "application_properties":
        return f"{kind} or MAP<STRING, STRING>"
    return "BINARY or STRING" if name == "body" else kind
