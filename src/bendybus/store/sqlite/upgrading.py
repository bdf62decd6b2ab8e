"""Makes a file that an earlier release wrote one of this release, in one transaction.

A table that has changed is made anew, by the very text of `schema.sql`, and filled from the old
one; a column that is new has its default. Rows keep their numbers, and numbers that were given
are not given again. A crash leaves the file as it was.
"""

from typing import Final

import apsw

from bendybus.store.sqlite.statements import SCHEMA

_OLD: Final = "before_upgrade"
# What columns hold that are not merely empty at first, by the version that brought them.
_FILLED: Final = {
    3: """
        UPDATE queue SET
            scheduled_count = (SELECT count(*) FROM message
                                WHERE id >= number << 44 AND id < (number + 1) << 44 AND state = 2),
            deferred_count = (SELECT count(*) FROM message
                               WHERE id >= number << 44 AND id < (number + 1) << 44 AND state = 1)
         WHERE message_count > 0
        """,
    4: """
        UPDATE message SET by_session = 1
         WHERE session_id IS NOT NULL
           AND queue IN (SELECT q.number FROM queue q JOIN entity e ON e.number = q.entity
                          WHERE q.sub_queue = 0 AND e.properties ->> 'requires_session')
        """,
}

# Kind, name and text of what a schema has.
_Parts = dict[tuple[str, str], str]


def upgrade(connection: apsw.Connection, version: int) -> None:
    """Bring the file to the present version."""
    [(before,)] = connection.execute("PRAGMA user_version")
    wanted = _parts_of_new_store()
    # Renaming must not change what other tables say of the one that is renamed.
    connection.execute("PRAGMA legacy_alter_table=ON")
    with connection:
        held = _parts(connection)
        for (kind, name), text in wanted.items():
            if kind == "table" and held.get((kind, name)) not in (None, text):
                _make_anew(connection, name, text)
        held = _parts(connection)
        for kind, name in held.keys() - wanted.keys():
            connection.execute(f"DROP {kind} {name}")
        for kind in ("table", "index"):
            for part, text in wanted.items():
                if part[0] == kind and held.get(part) != text:
                    connection.execute(f"DROP {kind} IF EXISTS {part[1]}")
                    connection.execute(text)
        for each, statement in _FILLED.items():
            if before < each <= version:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={version}")
    connection.execute("PRAGMA legacy_alter_table=OFF")


def _make_anew(connection: apsw.Connection, name: str, text: str) -> None:
    columns = _columns(connection, name)
    numbers = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?1", (name,))
    given = [seq for (seq,) in numbers]
    connection.execute(f"ALTER TABLE {name} RENAME TO {_OLD}")
    connection.execute(text)
    kept = ", ".join(column for column in _columns(connection, name) if column in columns)
    connection.execute(f"INSERT INTO {name} ({kept}) SELECT {kept} FROM {_OLD}")  # noqa: S608 - our own names
    connection.execute(f"DROP TABLE {_OLD}")
    if given:
        connection.execute("DELETE FROM sqlite_sequence WHERE name = ?1", (name,))
        connection.execute(
            "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)", (name, *given)
        )


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def _parts(connection: apsw.Connection) -> _Parts:
    found = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema"
        " WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
    )
    return {(kind, name): text for kind, name, text in found}


def _parts_of_new_store() -> _Parts:
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(SCHEMA)
        return _parts(connection)
    finally:
        connection.close()
