"""Makes the tables of a store, and brings those of an earlier release forward.

Several front ends may start at once: one makes the tables, in its turn and in one transaction, and
the others find them made. During an upgrade old front ends go on beside the new ones. So a
migration adds tables, columns with a default, and indexes; `oldest_reader` says which release can
still use what it leaves. Only when none of those is left running may a later migration take away.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import psycopg

from bendybus.model.errors import StoreRefused
from bendybus.store.postgres.bounded import BoundedConnection
from bendybus.store.postgres.connecting import SCHEMA
from bendybus.store.postgres.locks import TAKE_TURN

SCHEMA_SQL: Final = files("bendybus.store.postgres").joinpath("schema.sql").read_text("utf-8")
FIRST_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Migration:
    """What makes a version of the one before."""

    version: int
    # The oldest version of a release that can use the tables then.
    oldest_reader: int
    sql: str


# Namespaces are records, too. A release that does not know them goes on while there are none.
_NAMESPACES: Final = """
ALTER TABLE entity DROP CONSTRAINT entity_kind_check,
    ADD CONSTRAINT entity_kind_check
        CHECK (kind IN ('queue', 'topic', 'subscription', 'namespace'))
"""
# In order, each following on the one before; the first follows on `FIRST_VERSION`.
MIGRATIONS: Final = (Migration(2, 1, _NAMESPACES),)


def make_tables(
    connection: psycopg.Connection[tuple[Any, ...]],
    where: str,
    migrations: Sequence[Migration] = MIGRATIONS,
) -> None:
    """Make the tables as this release knows them, unless they are there.

    Raises `StoreRefused` if they are of a release that this one cannot work beside, or if the role
    has no right to make them.
    """
    known = migrations[-1].version if migrations else FIRST_VERSION
    found = _version(connection)
    if found is None or found[0] < known:
        try:
            with connection.transaction():
                # A table that is changed is locked as a whole; nobody is amid a commit then.
                connection.execute(TAKE_TURN)
                connection.execute("SET LOCAL statement_timeout = 0")
                with _without_bound(connection):
                    found = _make(connection, migrations)
        except psycopg.errors.InsufficientPrivilege as error:
            role = connection.info.user
            raise StoreRefused(
                f"{where}: the role {role} may not make tables there ({_said(error)});"
                f" GRANT CREATE ON DATABASE {connection.info.dbname} TO {role}"
            ) from None
        except psycopg.errors.ReadOnlySqlTransaction:
            raise StoreRefused(f"{where} can only be read: it is a standby") from None
    _check_readable(found, known, where)


def check_tables(connection: psycopg.Connection[tuple[Any, ...]], where: str) -> None:
    """Raise `StoreRefused` if the tables are of a release that this one cannot work beside."""
    found = _version(connection)
    if found is not None:
        _check_readable(found, MIGRATIONS[-1].version, where)


def _check_readable(found: tuple[int, int], known: int, where: str) -> None:
    version, oldest_reader = found
    if oldest_reader > known:
        raise StoreRefused(
            f"{where} has tables of version {version}, which only releases that know version"
            f" {oldest_reader} can use, and this one knows {known}; run a newer release"
        )


@contextmanager
def _without_bound(connection: psycopg.Connection[tuple[Any, ...]]) -> Iterator[None]:
    """Wait as long as it takes: many rows may have to be written."""
    if not isinstance(connection, BoundedConnection):
        yield
        return
    patience, connection.patience = connection.patience, None
    try:
        yield
    finally:
        connection.patience = patience


def _make(
    connection: psycopg.Connection[tuple[Any, ...]], migrations: Sequence[Migration]
) -> tuple[int, int]:
    """Make what is missing, in a transaction; return the version and its oldest reader."""
    # Looked up again: another front end may have made it while we waited for our turn.
    found = _version(connection)
    if found is None:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute(SCHEMA_SQL)
        connection.execute(
            "CREATE TABLE version (version BIGINT NOT NULL, oldest_reader BIGINT NOT NULL)"
        )
        found = FIRST_VERSION, FIRST_VERSION
        connection.execute("INSERT INTO version VALUES (%s, %s)", found)
    for migration in migrations:
        if migration.version > found[0]:
            connection.execute(migration.sql.encode())
            found = migration.version, migration.oldest_reader
            connection.execute("UPDATE version SET version = %s, oldest_reader = %s", found)
    return found


def _version(connection: psycopg.Connection[tuple[Any, ...]]) -> tuple[int, int] | None:
    """Return the version that is there and its oldest reader, if any is."""
    # Not to_regclass: it may remember what was there before we waited for our turn.
    [(is_there,)] = connection.execute(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables"
        " WHERE schemaname = %s AND tablename = 'version')",
        (SCHEMA,),
    ).fetchall()
    if not is_there:
        return None
    [(version, oldest_reader)] = connection.execute(
        "SELECT version, oldest_reader FROM version"
    ).fetchall()
    return version, oldest_reader


def _said(error: psycopg.Error) -> str:
    return error.diag.message_primary or type(error).__name__
