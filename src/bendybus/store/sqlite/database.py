"""Opens the file of a store, and says what its ids mean.

Rules:
1. WAL with `synchronous=FULL`: a commit has reached the disk when it returns. Commits that
   only take locks run with NORMAL; the next full one syncs them too.
2. A database is used after opening only when its log could be written back and emptied. After a
   failed sync the kernel may hold pages that it will never write; writing every page of the log
   again to the main file, and syncing that, is the one way to know.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw

from bendybus.model.errors import DataFolderUnusable
from bendybus.store.sqlite.statements import SCHEMA, STATEMENTS

SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x42454E44  # "BEND"

COUNTER_BITS_HERE: Final = 44
COUNTER_MASK_HERE: Final = (1 << COUNTER_BITS_HERE) - 1

# Pages of log after which they are written back. Larger means fewer write-backs of the same
# page; smaller means a shorter pause for the commit that does it.
LOG_PAGES_MAX: Final = 2000
LOG_BYTES_KEPT: Final = 64 * 1024 * 1024
CACHE_KIBIBYTES: Final = 2000
BUSY_TIMEOUT_MS: Final = 2000

# Errors that say the request was wrong, not the disk. All others take the store offline.
REQUEST_ERRORS: Final = (apsw.SQLError, apsw.ConstraintError, apsw.MismatchError, apsw.RangeError)


class Database:
    """One open file. Used by the lane's thread alone."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.execute: Final = connection.execute
        self._is_synced = True
        # Of every queue held here: the fragment it is of, and the main queue of that fragment.
        self.fragments: dict[int, int] = {}
        self.mains: dict[int, int] = {}
        self.load_queues()

    def run(self, name: str, bindings: tuple[Any, ...] = ()) -> None:
        """Execute a statement that returns nothing."""
        self.execute(STATEMENTS[name], bindings)

    def row(self, name: str, bindings: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """Execute a statement that returns at most one row."""
        rows = self.execute(STATEMENTS[name], bindings).fetchall()
        return rows[0] if rows else None

    def rows(self, name: str, bindings: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement that returns rows; for start-up and management, not for traffic."""
        return self.execute(STATEMENTS[name], bindings).fetchall()

    def begin(self, *, is_synced: bool) -> None:
        """Start a commit that will, or will not, wait for the disk."""
        if is_synced != self._is_synced:
            self.execute("PRAGMA synchronous=FULL" if is_synced else "PRAGMA synchronous=NORMAL")
            self._is_synced = is_synced
        self.execute("BEGIN IMMEDIATE")

    def load_queues(self) -> None:
        """Read which queues are here."""
        rows = self.rows("queues")
        mains = {(entity, fragment): number for number, entity, fragment, sub in rows if sub == 0}
        self.fragments = {number: fragment for number, _, fragment, _ in rows}
        self.mains = {number: mains[entity, fragment] for number, entity, fragment, _ in rows}

    def close(self) -> None:
        """Close, writing the log back."""
        self.connection.close()


def message_id(queue: int, sequence: int) -> int:
    """Return the row of a message."""
    return queue << COUNTER_BITS_HERE | sequence & COUNTER_MASK_HERE


OpenDatabase = Callable[[], Database]


def open_database(path: Path, *, vfs: str | None = None) -> Database:
    """Open or create the store in the file. Raises `apsw.Error` when the disk does not let us."""
    connection = apsw.Connection(str(path), vfs=vfs)
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA journal_size_limit={LOG_BYTES_KEPT}")
        connection.execute(f"PRAGMA cache_size=-{CACHE_KIBIBYTES}")
        connection.wal_autocheckpoint(LOG_PAGES_MAX)
        _migrate(connection, path)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return Database(connection)
    except BaseException:
        connection.close(force=True)
        raise


def _migrate(connection: apsw.Connection, path: Path) -> None:
    """Make the schema in an empty file; refuse a file that is not ours or from the future."""
    [(version,)] = connection.execute("PRAGMA user_version")
    [(application,)] = connection.execute("PRAGMA application_id")
    [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_schema")
    if tables == 0:
        with connection:
            connection.execute(SCHEMA)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    elif application != APPLICATION_ID:
        raise DataFolderUnusable(f"{path} is a database of another program; choose another folder")
    elif version != SCHEMA_VERSION:
        raise DataFolderUnusable(
            f"{path} has schema version {version}, and this release knows {SCHEMA_VERSION};"
            " run the release that wrote it"
        )
