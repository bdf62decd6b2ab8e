"""Stores on PostgreSQL for tests: the tables are there, and nothing is in them.

Making the tables takes longer than most tests that use them. So those of one test are lent to the
next; what it left is deleted row by row, which takes milliseconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from bendybus.store.postgres.connecting import SCHEMA, connect
from bendybus.store.postgres.migrating import make_tables
from bendybus.testing.postgres import END_SESSIONS, PostgresServer


@dataclass(frozen=True, slots=True)
class _Blank:
    """A database, and what makes it as it was."""

    url: str
    connection: psycopg.Connection[tuple[Any, ...]]
    restoring: sql.Composed


class BlankStores:
    """Databases of one server."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._free: list[_Blank] = []

    @contextmanager
    def lent(self) -> Iterator[str]:
        """Give the URL of a database with the tables of a store, while the block runs."""
        blank = self._free.pop() if self._free else self._make()
        try:
            yield blank.url
        finally:
            blank.connection.execute(END_SESSIONS)
            blank.connection.execute(blank.restoring)
            self._free.append(blank)

    def close(self) -> None:
        """Let go of the databases."""
        for blank in self._free:
            blank.connection.close()

    def _make(self) -> _Blank:
        """Make tables, and remember the few rows that a new store has."""
        name = self._server.make_database()
        url = self._server.url(name)
        with connect(url) as own:
            make_tables(own, name)
        connection = self._server.administrator(name)
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", (SCHEMA,)
        ).fetchall()
        connection.execute("CREATE SCHEMA blank")
        deleting, inserting = sql.Composed([]), sql.Composed([])
        for [table] in tables:
            names = {
                "there": sql.Identifier(SCHEMA, table),
                "blank": sql.Identifier("blank", table),
            }
            deleting += sql.SQL("DELETE FROM {there};").format(**names)
            if connection.execute(sql.SQL("TABLE {there}").format(**names)).fetchall():
                connection.execute(sql.SQL("CREATE TABLE {blank} AS TABLE {there}").format(**names))
                inserting += sql.SQL("INSERT INTO {there} TABLE {blank};").format(**names)
        numbers = sql.SQL(
            "SELECT setval(oid, 1, false) FROM pg_class"
            " WHERE relkind = 'S' AND relnamespace = {}::regnamespace"
        )
        return _Blank(url, connection, deleting + inserting + numbers.format(SCHEMA))
