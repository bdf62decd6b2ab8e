"""Of which types the columns of a store's tables are, as the server says it."""

from typing import Any, Final

import psycopg

_TYPES: Final = {"bigint": "int8", "text": "text", "bytea": "bytea"}


def column_types(connection: "psycopg.Connection[tuple[Any, ...]]") -> dict[tuple[str, str], str]:
    """Return the type of each column, by table and name."""
    found = connection.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns"
        " WHERE table_schema = current_schema()"
    )
    return {(table, column): _TYPES.get(kind, kind) for table, column, kind in found.fetchall()}
