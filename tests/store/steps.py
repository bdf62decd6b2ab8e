"""How much a database does for a call, by statement: what must not grow with a backlog."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from bendybus.store.postgres.connecting import connect
from bendybus.store.postgres.database import PostgresDatabase
from bendybus.store.postgres.migrating import make_tables
from bendybus.store.postgres.wire import Wire
from bendybus.store.sql.database import SqlDatabase
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.statements import STATEMENTS

# The rows and entries of indexes that a session has read so far, of all our tables.
ROWS_READ = """
    SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(oid)
                        + pg_stat_get_xact_tuples_fetched(oid)), 0)::bigint
      FROM pg_class WHERE relnamespace = 'bendybus'::regnamespace AND relkind IN ('r', 'i')"""


@dataclass(frozen=True)
class Measured:
    """An open database, a count of its steps while a block runs, and an answer to any SQL."""

    database: SqlDatabase
    counted: Callable[[], AbstractContextManager[Counter[str]]]
    asked: Callable[[str], list[tuple[Any, ...]]]
    # Takes away what only looks as if it were there: rows that are gone, or never came to be.
    vacuum: Callable[[], None]


@contextmanager
def sqlite_measured(path: Path) -> Iterator[Measured]:
    """A store in a file: the steps are those of SQLite's machine."""
    database = open_database(path, Pacing())
    yield Measured(
        database,
        partial(_counted_in_sqlite, database),
        lambda text: database.execute(text).fetchall(),
        lambda: None,
    )
    database.close()


@contextmanager
def postgres_measured(url: str) -> Iterator[Measured]:
    """A store in a PostgreSQL database: a step is a row, or an entry of an index."""
    connection = connect(url)
    make_tables(connection, url)
    database = PostgresDatabase(Wire(connection, patience=60), lambda _: None)
    yield Measured(
        database,
        partial(_counted_in_postgres, database),
        lambda text: database._asked(text, text).rows(),
        partial(_vacuum, url),
    )
    database.close()


def _vacuum(url: str) -> None:
    with connect(url, settings={"statement_timeout": "0"}, patience=None) as connection:
        # Of few dead rows among many it would leave the entries of indexes.
        connection.execute("VACUUM (INDEX_CLEANUP on)")


@contextmanager
def _counted_in_sqlite(database: SqliteDatabase) -> Iterator[Counter[str]]:
    steps: Counter[str] = Counter()
    names = {statement: name for name, statement in STATEMENTS.items()}

    def note(event: dict[str, Any]) -> None:
        name = names.get(event["sql"].strip(), event["sql"])
        steps[name] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    execute = database.execute
    # A statement that is kept for the next time counts on where it was.
    vars(database)["execute"] = partial(execute, can_cache=False)
    database.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    try:
        yield steps
    finally:
        database.connection.trace_v2(0, None)
        vars(database)["execute"] = execute


@contextmanager
def _counted_in_postgres(database: PostgresDatabase) -> Iterator[Counter[str]]:
    steps: Counter[str] = Counter()

    def rows_read() -> int:
        [(count,)] = database._asked("rows_read", ROWS_READ).rows()
        return int(count)

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(name: str, bindings: tuple[Any, ...] = ()) -> Any:
            before = rows_read()
            answer = call(name, bindings)
            steps[name] += rows_read() - before
            return answer

        return counted

    for each in ("run", "row", "rows"):
        vars(database)[each] = counting(getattr(database, each))
    try:
        yield steps
    finally:
        for each in ("run", "row", "rows"):
            del vars(database)[each]
