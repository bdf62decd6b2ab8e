"""The database that a store is to be in: filled, and nobody's until the store has left its place.

Whose it is to be stands in its table `identity` with a mark, so that nobody serves a copy that is
not complete. Only who was sent here by the place that the store has left takes the mark off.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bendybus.model.errors import StoreRefused
from bendybus.store.identity import StoreIdentity
from bendybus.store.moving.moving import Change
from bendybus.store.moving.tables import BODY, SEEN, TABLES, MovedTable, Row
from bendybus.store.postgres.identity import MOVING
from bendybus.store.postgres.migrating import make_tables
from bendybus.store.postgres.moving_session import MovingSession
from bendybus.store.postgres.texts import to_store

_EVERY: Final = (*TABLES, SEEN)
# Between the pages of a slow source nothing is said here. What is copied is safe when the last of
# it is, which is waited for.
_SETTINGS: Final = {
    "idle_session_timeout": "0",
    "synchronous_commit": "off",
}
_NUMBERED_BY_ROWS: Final = {"entity", "queue"}


class PostgresTarget(MovingSession):
    """Fills a database. Used by one thread."""

    def __init__(self, url: str, identity: StoreIdentity, *, is_escaped: bool) -> None:
        self._identity = identity
        # Whether texts come as they are kept here.
        self._is_escaped = is_escaped
        super().__init__(url, purpose=f"move {identity.number}", settings=_SETTINGS)

    def prepare(self) -> None:
        """Empty it, but for contents, which an earlier try has copied."""
        names = ", ".join(table.name for table in _EVERY if table is not BODY)
        with self._connection.transaction():
            self._run(f"TRUNCATE {names}")

    def content_ids(self, after: int, until: int | None) -> set[int]:
        """Return the contents that are there already, within ids."""
        bound = "" if until is None else f"AND id <= {int(until)}"
        found = self._run(f"SELECT id FROM body WHERE id > {int(after)} {bound}")
        return {number for (number,) in found.fetchall()}

    def add(self, table: MovedTable, rows: Sequence[Row]) -> None:
        """Write rows that are not there."""
        with self._connection.transaction():
            self._copy(table, rows)

    def replace(self, changes: Sequence[Change]) -> None:
        """Make rows be as they are at the source, or not be."""
        with self._connection.transaction():
            for change in changes:
                if change.keys:
                    self._delete(change.table, change.keys)
                if change.rows:
                    self._copy(change.table, change.rows)

    def complete(self, numbers: Mapping[str, int]) -> None:
        """Wait until everything is safe; numbers up to these were given."""
        with self._connection.transaction():
            self._run("SET LOCAL synchronous_commit = on")
            for name, number in numbers.items():
                if name in _NUMBERED_BY_ROWS:
                    self._run(
                        "UPDATE number_given SET highest = greatest(highest, %s) WHERE kind = %s",
                        (number, name),
                    )
                elif number:
                    column = next(each.key[0] for each in TABLES if each.name == name)
                    self._run(
                        "SELECT setval(pg_get_serial_sequence(%s, %s), %s)", (name, column, number)
                    )
            # Ids that were seen in queues that are gone.
            self._run("DELETE FROM seen_id WHERE queue NOT IN (SELECT number FROM queue)")
            self._run("UPDATE generation SET number = number + 1")

    def _make_ready(self) -> None:
        """Claim the database, with a mark."""
        make_tables(self._connection, self._shown)
        mark = MOVING + self._identity.cluster
        row = self._run("SELECT cluster, number FROM identity").fetchone()
        if row is None:
            [(count,)] = self._run("SELECT count(*) FROM entity").fetchall()
            if count:
                raise StoreRefused(f"{self._shown} is not empty; name an empty database")
            self._run(
                "INSERT INTO identity (cluster, number, count, namespaces) VALUES (%s, %s, %s, %s)",
                (
                    mark,
                    self._identity.number,
                    self._identity.count,
                    json.dumps(self._identity.namespaces),
                ),
            )
        elif row != (mark, self._identity.number):
            raise StoreRefused(
                f"{self._shown} holds a store already, or a part of another; name an empty database"
            )

    def _copy(self, table: MovedTable, rows: Iterable[Row]) -> None:
        names = ", ".join(table.columns)
        types = [self._types[table.name, column] for column in table.columns]
        statement = f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)".encode()
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row if self._is_escaped else [_kept(value) for value in row])

    def _delete(self, table: MovedTable, keys: Sequence[tuple[Any, ...]]) -> None:
        columns = list(zip(*keys, strict=True))
        arrays = ", ".join(f"%s::{self._types[table.name, column]}[]" for column in table.key)
        same = " AND ".join(f"t.{column} = k.{column}" for column in table.key)
        values = columns if self._is_escaped else [list(map(_kept, each)) for each in columns]
        self._run(
            f"DELETE FROM {table.name} t USING unnest({arrays}) AS k({', '.join(table.key)})"
            f" WHERE {same}",
            [list(each) for each in values],
        )


def _kept(value: object) -> object:
    return to_store(value) if isinstance(value, str) else value
