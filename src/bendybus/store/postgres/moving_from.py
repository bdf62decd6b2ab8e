"""The database that a store is to leave, read and watched by a session of its own.

Which rows change is noted by triggers, for whichever front end changes them. A trigger notes
nothing once nobody moves the store any more: whoever did holds a lock for as long as it lives.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bendybus.store.moving.moving import Change, Notes, Taken
from bendybus.store.moving.tables import BODY, NUMBERED, SEEN, TABLES, Key, MovedTable, Row
from bendybus.store.postgres.locks import NOBODY_MOVES, TAKE_TURN
from bendybus.store.postgres.moving_session import MovingSession

SIZES_TOGETHER: Final = 2000
# Less than others wait for their turn; longer than between two steps of a move.
_SETTINGS: Final = {
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "4s",
}
_NOTED: Final = (*TABLES, SEEN)
# Contents that were added or went, as many as are not too much at once.
_SOME_CONTENTS: Final = """
SELECT place FROM (
    SELECT c.place, sum(coalesce(octet_length(b.content), 0)) OVER (ORDER BY c.id)
            - coalesce(octet_length(b.content), 0) AS before
      FROM (SELECT ctid AS place, id FROM changed_body LIMIT 1000) c LEFT JOIN body b USING (id)
) AS picked WHERE before < 1048576
"""


class PostgresSource(MovingSession):
    """Reads the tables of a store. Used by one thread."""

    def __init__(self, url: str, target_url: str) -> None:
        self._target_url = target_url
        super().__init__(url, purpose="move away", settings=_SETTINGS)

    def begin(self) -> None:
        """Note from here on what changes."""
        with self._connection.transaction():
            # Nobody is amid a commit when triggers are made.
            self._run(TAKE_TURN)
            self._drop_notes()
            for table in _NOTED:
                self._make_notes(table)

    def end(self) -> None:
        """Note nothing any more, and leave nothing behind."""
        if self._connection.closed or self._connection.broken:
            return
        with self._connection.transaction():
            self._run(TAKE_TURN)
            self._drop_notes()

    def message_count(self) -> int:
        """How many messages there are, about."""
        [(count,)] = self._run("SELECT coalesce(sum(message_count), 0) FROM queue").fetchall()
        return int(count)

    def last_key(self, table: MovedTable) -> Key | None:
        """Return the highest key."""
        keys = ", ".join(f"{name} DESC" for name in table.key)
        return self._run(
            f"SELECT {', '.join(table.key)} FROM {table.name} ORDER BY {keys} LIMIT 1"
        ).fetchone()

    def page(self, table: MovedTable, after: Key | None) -> Sequence[Row]:
        """Return the next rows in the order of their keys."""
        keys = ", ".join(table.key)
        marks = ", ".join(["%s"] * len(table.key))
        beyond = f"WHERE ({keys}) > ({marks})" if after is not None else ""
        return self._run(
            f"SELECT {', '.join(table.columns)} FROM {table.name} {beyond} ORDER BY {keys}"
            f" LIMIT {table.rows_together}",
            after or (),
        ).fetchall()

    def content_sizes(self, after: int) -> Sequence[tuple[int, int]]:
        """Return the ids and sizes of the next contents."""
        found = self._run(
            "SELECT id, octet_length(content) FROM body WHERE id > %s ORDER BY id LIMIT %s",
            (after, SIZES_TOGETHER),
        ).fetchall()
        return [(number, size) for number, size in found]

    def contents(self, ids: Sequence[int]) -> Sequence[Row]:
        """Return those of these contents that are there."""
        return self._found(BODY, [(number,) for number in ids])

    def seen_page(self, after: Key | None) -> tuple[Sequence[Row], Key | None]:
        """Return the next ids of duplicate detection, and where the following begin."""
        rows = self.page(SEEN, after)
        return rows, SEEN.key_of(rows[-1]) if rows else None

    def take(self) -> Taken:
        """Return some of what changed, with nobody changing it meanwhile."""
        with self._connection.transaction():
            self._run(TAKE_TURN)
            return self._take()

    def switch(self, finish: Callable[[Notes, Mapping[str, int]], None]) -> None:
        """Have the turn while `finish` takes what is left, and leave word where the store is."""
        with self._connection.transaction():
            self._run(TAKE_TURN)
            finish(_NotesOf(self._take), self._numbers())
            self._drop_notes()
            self._run("UPDATE identity SET moved_to = %s", (self._target_url,))
            self._run("UPDATE generation SET number = number + 1")

    def _make_notes(self, table: MovedTable) -> None:
        keys = ", ".join(table.key)
        old, new = (", ".join(f"{row}.{name}" for name in table.key) for row in ("OLD", "NEW"))
        noted = f"changed_{table.name}"
        self._run(f"CREATE UNLOGGED TABLE {noted} AS SELECT {keys} FROM {table.name} LIMIT 0")
        self._run(f"ALTER TABLE {noted} ADD PRIMARY KEY ({keys})")
        note = f"INSERT INTO {noted} VALUES"
        self._run(
            f"CREATE FUNCTION note_{noted}() RETURNS trigger LANGUAGE plpgsql"
            " SET search_path FROM CURRENT AS $$ BEGIN"
            f" IF {NOBODY_MOVES} THEN RETURN NULL; END IF;"
            f" IF TG_OP <> 'INSERT' THEN {note} ({old}) ON CONFLICT DO NOTHING; END IF;"
            f" IF TG_OP <> 'DELETE' THEN {note} ({new}) ON CONFLICT DO NOTHING; END IF;"
            " RETURN NULL; END $$"
        )
        self._run(
            f"CREATE TRIGGER {noted} AFTER INSERT OR UPDATE OR DELETE ON {table.name}"
            f" FOR EACH ROW EXECUTE FUNCTION note_{noted}()"
        )

    def _drop_notes(self) -> None:
        for table in _NOTED:
            self._run(f"DROP FUNCTION IF EXISTS note_changed_{table.name}() CASCADE")
            self._run(f"DROP TABLE IF EXISTS changed_{table.name}")

    def _take(self) -> Taken:
        changes: list[Change] = []
        has_more = False
        for table in _NOTED:
            keys = ", ".join(table.key)
            noted = f"changed_{table.name}"
            some = f"SELECT ctid FROM {noted} LIMIT {table.notes_together}"
            found = self._run(
                f"DELETE FROM {noted} WHERE ctid = ANY (ARRAY ("
                f"{_SOME_CONTENTS if table is BODY else some})) RETURNING {keys}"
            ).fetchall()
            if found:
                changes.append(Change(table, found, self._found(table, found)))
                left = f"SELECT FROM {noted} LIMIT 1 OFFSET {table.little}"
                has_more = has_more or bool(self._run(left).fetchall())
        return Taken(changes, has_more)

    def _found(self, table: MovedTable, keys: Sequence[Key]) -> list[Row]:
        arrays = ", ".join(f"%s::{self._types[table.name, column]}[]" for column in table.key)
        same = " AND ".join(f"t.{column} = k.{column}" for column in table.key)
        columns = ", ".join(f"t.{column}" for column in table.columns)
        return self._run(
            f"SELECT {columns} FROM unnest({arrays}) AS k({', '.join(table.key)})"
            f" JOIN {table.name} t ON {same}",
            [list(each) for each in zip(*keys, strict=True)],
        ).fetchall()

    def _numbers(self) -> dict[str, int]:
        given = dict(self._run("SELECT kind, highest FROM number_given").fetchall())
        for name in NUMBERED:
            if name not in given:
                column = next(each.key[0] for each in TABLES if each.name == name)
                [(number,)] = self._run(
                    f"SELECT pg_sequence_last_value(pg_get_serial_sequence('{name}', '{column}'))"
                ).fetchall()
                given[name] = number or 0
        return {name: int(given[name]) for name in NUMBERED}


class _NotesOf:
    """What was noted, for whoever has the turn."""

    def __init__(self, take: Callable[[], Taken]) -> None:
        self.take = take
