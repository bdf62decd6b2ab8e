"""Notes of the rows that change in a file while its store is moved, made by triggers.

Where one process has the file, they are temporary: only its connection has them, and whoever opens
the file next finds no trace of them. Where several share it, tables and triggers must be in the
file, so that each of them notes what it changes. Then a crash may leave them behind; whoever comes
first, or looks after the store, removes them.
"""

from typing import Final

import apsw

from bendybus.store.moving.tables import TABLES, MovedTable

# How the ids of duplicate detection are kept here: many in a row, never changed.
SEEN_ROWS: Final = MovedTable("seen", ("id",), ("queue", "seen_at", "digests"))
NOTED: Final = (*TABLES, SEEN_ROWS)
# The turn of whoever moves a store that several share: with it its notes lose their sense.
MOVER: Final = "mover"
_ENDINGS: Final = {event: f"_{event}" for event in ("INSERT", "UPDATE", "DELETE")}
# Of all tables and triggers that are made for notes.
NOTE_NAMES: Final = frozenset(
    f"changed_{table.name}{ending}" for table in NOTED for ending in ("", *_ENDINGS.values())
)
_ARE_THERE: Final = "SELECT 1 FROM main.sqlite_schema WHERE name = 'changed_message'"


def make_notes(connection: apsw.Connection, *, is_shared: bool) -> None:
    """Note from here on what changes, within a transaction."""
    drop_notes(connection)
    temporary = "" if is_shared else "TEMP "
    for table in NOTED:
        names = ", ".join(table.key)
        old, new = (", ".join(f"{row}.{name}" for name in table.key) for row in ("old", "new"))
        noted = f"changed_{table.name}"
        note = f"INSERT OR IGNORE INTO {noted} VALUES"
        connection.execute(
            f"CREATE {temporary}TABLE {noted} ({names}, PRIMARY KEY ({names})) WITHOUT ROWID"
        )
        for event, notes in (
            ("INSERT", f"{note} ({new});"),
            ("UPDATE", f"{note} ({old}); {note} ({new});"),
            ("DELETE", f"{note} ({old});"),
        ):
            connection.execute(
                f"CREATE {temporary}TRIGGER {noted}{_ENDINGS[event]} AFTER {event}"
                f" ON main.{table.name} BEGIN {notes} END"
            )


def drop_notes(connection: apsw.Connection) -> None:
    """Note nothing any more, and forget what was noted, within a transaction."""
    for table in NOTED:
        noted = f"changed_{table.name}"
        for ending in _ENDINGS.values():
            connection.execute(f"DROP TRIGGER IF EXISTS {noted}{ending}")
        connection.execute(f"DROP TABLE IF EXISTS {noted}")


def are_notes_left(connection: apsw.Connection) -> bool:
    """Say whether the file itself has notes."""
    return bool(connection.execute(_ARE_THERE).fetchall())
