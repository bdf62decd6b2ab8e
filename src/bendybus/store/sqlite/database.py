"""Opens the file of a store.

Rules:
1. WAL with `synchronous=FULL`: a commit has reached the disk when it returns. Commits that
   only take locks run with NORMAL; the next full one syncs them too.
2. A database is used after opening only when its log could be written back and emptied. After a
   failed sync the kernel may show us pages that are not on the disk and that it will never write.
   So we write them ourselves: first the log, over itself, and only when that is synced the pages
   in it to the main file. The other way round, a power cut in the middle would leave the main file
   with half a commit and no log to mend it from.
3. A database that failed is closed without writing its log back: what the index in memory says
   of the log may no longer be true of the disk. Opening reads the log again, by its checksums.
4. Writing the log back is asked for, never left to SQLite, which would swallow its errors.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import apsw

from bendybus.model.errors import DataFolderUnusable
from bendybus.model.ids import SubQueue
from bendybus.store.port import UNTIL_REOPENED
from bendybus.store.sql.database import COUNTER_BITS_HERE, SqlDatabase
from bendybus.store.sqlite.notes import NOTE_NAMES, are_notes_left, drop_notes
from bendybus.store.sqlite.private_files import keep_private
from bendybus.store.sqlite.seen_index import SeenIndex
from bendybus.store.sqlite.statements import ARRIVING, SCHEMA, STATEMENTS
from bendybus.store.sqlite.upgrading import upgrade

SCHEMA_VERSION: Final = 8
# Files since this one are upgraded when they are opened.
OLDEST_VERSION: Final = 2
APPLICATION_ID: Final = 0x42454E44  # "BEND"

LOG_BYTES_KEPT: Final = 64 * 1024 * 1024
# SQLite's own VFS reads and writes less than 128 KiB in one call.
_LOG_BYTES_TOGETHER: Final = 64 * 1024
CACHE_KIBIBYTES: Final = 1200
# Messages of one session lie in many pages, which those of the next few sessions share.
CACHE_KIBIBYTES_FOR_SESSIONS: Final = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """How long a store waits for what. Tests hurry it."""

    # Pages of log after which they are written back. Larger means fewer write-backs of the same
    # page; smaller means a shorter pause for the commit that comes next.
    log_pages_max: int = 2000
    # How long another program may hold the file before we call that a failure.
    busy_timeout_ms: int = 2000
    # How long a store that failed waits before it tries to open again.
    retry_seconds: float = 0.5
    # How often a shared store looks at what others did while it has nothing to do.
    attend_seconds: float = 1.0


class SqliteDatabase(SqlDatabase):
    """One open file."""

    corrupt = (apsw.CorruptError,)
    conflict = (apsw.ConstraintError,)
    unreadable = (ValueError, TypeError, apsw.SQLError)

    def __init__(
        self, connection: apsw.Connection, pacing: Pacing, *, is_shared: bool = False
    ) -> None:
        super().__init__(is_shared=is_shared)
        self.connection = connection
        self.statements = STATEMENTS
        self.execute = self._execute
        self._pacing = pacing
        self._is_synced = True
        # How many pages had been written to the log when it was last written back.
        self._pages_before = 0
        # What a commit of one append is to write: a row of the log of ids, and all of it.
        self._ids: tuple[int, int, bytes] | None = None
        self._append: tuple[Any, ...] | None = None
        # What `find_room` says of queues, while whole appends are all that is done.
        self._rooms: dict[int, tuple[int, int]] = {}
        connection.wal_autocheckpoint(0)
        if not is_shared:
            connection.execute(ARRIVING)
        self.load()

    def load(self) -> None:
        """Read what is known of the file while it is open, and end what its last user held."""
        super().load()
        self.note_packs()
        self.end_holds()
        seen = SeenIndex(self, self._log_ids)
        seen.load(self.execute(STATEMENTS["logged_ids"]))
        self.seen = seen

    def note_packs(self) -> None:
        """Look which queues have packs. Only who is alone with the file makes more of them."""
        found = self.rows("queues_with_packs", (COUNTER_BITS_HERE,))
        self.queues_with_packs = {queue for (queue,) in found}
        self.keeps_packs = not self.is_shared
        if self.queues_with_packs and find_spec("pyarrow") is None:
            raise DataFolderUnusable(
                f"{self.connection.filename} holds messages that were written in bulk, and Arrow,"
                " which reads them, is not installed; pip install 'bendybus[bulk]'"
            )

    def keep_no_packs(self) -> None:
        """Make no more packs while the file is open."""
        self.keeps_packs = False

    def end_holds(self) -> None:
        """Free what was held by who looked after the store before (promise 10)."""
        self.run("end_holds", (UNTIL_REOPENED,))

    def _execute(
        self, text: str, bindings: tuple[Any, ...] = (), *, can_cache: bool = True
    ) -> apsw.Cursor:
        self._rooms.clear()
        if self.is_untouched:
            self._touch()
        return self.connection.execute(text, bindings, can_cache=can_cache)

    def run(self, name: str, bindings: tuple[Any, ...] = ()) -> None:
        """Execute a statement that returns nothing."""
        self.execute(STATEMENTS[name], bindings)

    def row(self, name: str, bindings: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """Execute a statement that returns at most one row."""
        rows = self.execute(STATEMENTS[name], bindings).fetchall()
        return rows[0] if rows else None

    def rows(self, name: str, bindings: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement that returns rows."""
        return list(self.execute(STATEMENTS[name], bindings))

    def array(self, numbers: Iterable[int]) -> object:
        """Bind many numbers."""
        return apsw.carray(array("q", numbers))

    def blobs(self, values: Sequence[bytes]) -> object:
        """Bind many contents."""
        return apsw.carray(values)

    def texts(self, values: Sequence[str | None]) -> object:
        """Bind many texts."""
        return apsw.carray(tuple(values))

    @property
    def changed(self) -> int:
        """How many rows the last statement changed."""
        return self.connection.changes()

    @property
    def changes_made(self) -> int:
        """How many rows were ever changed here."""
        return self.connection.total_changes()

    def begin(self, *, is_synced: bool) -> None:
        """Start a commit that will, or will not, wait for the disk."""
        self._set_synced(is_synced=is_synced)
        self.execute("BEGIN IMMEDIATE")
        self.begin_work()

    def begin_one(self, *, is_synced: bool) -> None:
        """Put the beginning off until it is known what the commit is."""
        self._set_synced(is_synced=is_synced)
        self.is_untouched = True
        self.begin_work()

    def find_room(self, queue: int) -> tuple[int, int]:
        """Ask outside of the commit: nobody else writes to the file."""
        room = self._rooms.get(queue)
        if room is None:
            found = self.connection.execute(STATEMENTS["find_room"], (queue,)).fetchall()
            rows: list[tuple[Any, ...]] = found
            [(counter, bytes_held)] = rows
            room = self._rooms[queue] = counter, bytes_held
        return room

    def append_whole(
        self, queue: int, first: int, now: int, size: int, contents: Sequence[bytes]
    ) -> None:
        """Keep what the commit is to write."""
        digests = None if self._ids is None else self._ids[2]
        bodies = self.blobs(contents)
        self._append = (queue, first, now, len(contents), size, digests, bodies)
        self._ids = None

    def _log_ids(self, queue: int, seen_at: int, digests: bytes) -> None:
        """Write a row of the log of ids, or keep it for `append_whole`."""
        ids = queue, seen_at, digests
        if self.is_untouched:
            self._ids = ids
        else:
            self.run("log_seen", ids)

    def _touch(self) -> None:
        """Begin after all, with what was kept: there is more to do than one statement can."""
        ids, append = self._ids, self._append
        self._let_be()
        self.execute("BEGIN IMMEDIATE")
        if ids is not None:
            self.run("log_seen", ids)
        if append is not None:
            self.run("append_whole", append)

    def _let_be(self) -> None:
        """Keep nothing for a commit of one append any more."""
        self.is_untouched = False
        self._ids = self._append = None

    def _set_synced(self, *, is_synced: bool) -> None:
        """Say whether the next commit waits for the disk."""
        if is_synced != self._is_synced:
            self.execute("PRAGMA synchronous=FULL" if is_synced else "PRAGMA synchronous=NORMAL")
            self._is_synced = is_synced

    def commit(self) -> None:
        """Commit what was begun, unless it was undone."""
        if self.is_untouched:
            append = self._append
            self._let_be()
            if append is not None:
                self._commit_whole(append)
        elif self.connection.in_transaction:
            self.execute("COMMIT")

    def _commit_whole(self, append: tuple[Any, ...]) -> None:
        try:
            self.connection.execute(STATEMENTS["append_whole"], append)
        except (OverflowError, TypeError, ValueError) as error:
            # A value that no column takes is the caller's defect, here as in any other statement.
            raise apsw.MismatchError(str(error)) from error
        queue, _, _, count, size, *_ = append
        counter, bytes_held = self._rooms[queue]
        self._rooms[queue] = counter + count, bytes_held + size

    def undo(self) -> None:
        """Undo the commit that was begun, or put off."""
        self._let_be()
        super().undo()

    def roll_back(self) -> None:
        """Undo what was done, if it was more than one statement: that undoes itself."""
        if self.connection.in_transaction:
            self.execute("ROLLBACK")

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Let nobody write; what is written here meanwhile is undone."""
        yield

    def note_queue(
        self,
        number: int,
        topic: int | None,
        entity: int,
        fragment: int,
        sub_queue: int,
        requires_session: object,
    ) -> None:
        """Note that a queue is here; sessions want more memory."""
        super().note_queue(number, topic, entity, fragment, sub_queue, requires_session)
        if requires_session and sub_queue == SubQueue.MAIN:
            self.execute(f"PRAGMA cache_size=-{CACHE_KIBIBYTES_FOR_SESSIONS}")

    def write_back(self) -> bool:
        """Write a long log back into the main file, as far as readers allow."""
        # Asked for, and not heard of by a hook, for which a commit would need the interpreter.
        pages, _ = self.connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)
        if pages - self._pages_before < self._pacing.log_pages_max:
            return False
        self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._pages_before = pages
        return True

    def close(self) -> None:
        """Close, writing the log back. If that fails, opening does it."""
        self.connection.close()

    def abandon(self) -> None:
        """Close after a failure, touching nothing (rule 3)."""
        self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self.connection.close(force=True)


def open_database(path: Path, pacing: Pacing, *, vfs: str | None = None) -> SqliteDatabase:
    """Open or create the store in the file.

    Raises `apsw.Error` when the disk does not let us, and `DataFolderUnusable`, leaving the file
    as it is, when it is not ours to use.
    """
    with opened_file(path, pacing, vfs=vfs) as connection:
        make_ready(connection, path, vfs=vfs)
        return SqliteDatabase(connection, pacing)


@contextmanager
def opened_file(path: Path, pacing: Pacing, *, vfs: str | None) -> Iterator[apsw.Connection]:
    """Open the file; close it, touching nothing, if what is done with it fails."""
    keep_private(path)
    connection = apsw.Connection(str(path), vfs=vfs)
    try:
        connection.set_busy_timeout(pacing.busy_timeout_ms)
        yield connection
    except (KeyError, TypeError) as error:
        connection.close(force=True)
        raise DataFolderUnusable(
            f"{path} has a damaged list of queues; restore it from a copy"
        ) from error
    except BaseException:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close(force=True)
        raise


def make_ready(connection: apsw.Connection, path: Path, *, vfs: str | None) -> None:
    """Create or upgrade the tables, and write the log back (rule 2). Only alone with the file."""
    version = check_ownership(connection, path)
    set_modes(connection, path)
    if are_notes_left(connection):
        with connection:
            drop_notes(connection)
    if version is None:
        _create_schema(connection)
    elif version < SCHEMA_VERSION:
        upgrade(connection, SCHEMA_VERSION)
        _check_tables(connection, path)
    _make_sure_of_log(connection, path, vfs or "")
    _empty_log(connection)


def check_ownership(connection: apsw.Connection, path: Path) -> int | None:
    """Return the version of the file, or None if it is empty; refuse one that is not ours."""
    [(version,)] = connection.execute("PRAGMA user_version")
    [(application,)] = connection.execute("PRAGMA application_id")
    [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_schema")
    if tables == 0 and application == 0:
        return None
    if application != APPLICATION_ID:
        raise DataFolderUnusable(f"{path} is a database of another program; choose another folder")
    if not OLDEST_VERSION <= version <= SCHEMA_VERSION:
        raise DataFolderUnusable(
            f"{path} has schema version {version}, and this release knows {OLDEST_VERSION} to"
            f" {SCHEMA_VERSION}; run the release that wrote it"
        )
    if version == SCHEMA_VERSION:
        _check_tables(connection, path)
    return int(version)


def _check_tables(connection: apsw.Connection, path: Path) -> None:
    if _schema_of(connection) != _schema_of_new_store():
        raise DataFolderUnusable(
            f"{path} has tables that this release did not make: it is damaged or was changed by"
            " another program; restore it from a copy"
        )


def _schema_of(connection: apsw.Connection) -> list[tuple[Any, ...]]:
    made = connection.execute(
        "SELECT name, CAST(sql AS BLOB) FROM sqlite_schema ORDER BY type, name"
    )
    # One who shares the file may be moving the store.
    return [(text,) for name, text in made if name not in NOTE_NAMES]


def _schema_of_new_store() -> list[tuple[Any, ...]]:
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(SCHEMA)
        return _schema_of(connection)
    finally:
        connection.close()


def set_modes(connection: apsw.Connection, path: Path) -> None:
    """Set what holds while the file is open."""
    [(mode,)] = connection.execute("PRAGMA journal_mode=WAL")
    if mode != "wal":
        raise DataFolderUnusable(f"the file system of {path} does not allow a write-ahead log")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA journal_size_limit={LOG_BYTES_KEPT}")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIBIBYTES}")
    # What a savepoint would put back is kept in memory: pages, as they were before one caller.
    connection.execute("PRAGMA temp_store=MEMORY")
    # Plans do not depend on values. Otherwise a statement that compares one with the column of a
    # partial index is planned anew each time, which takes longer than running it.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def _create_schema(connection: apsw.Connection) -> None:
    with connection:
        connection.execute(SCHEMA)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _make_sure_of_log(connection: apsw.Connection, path: Path, vfs: str) -> None:
    """Write every byte of the log that we can read over itself, and sync it (rule 2).

    The same bytes at the same place: if this is cut short, nothing that was good has changed.
    """
    log_path = f"{path}-wal"
    connection.execute("BEGIN IMMEDIATE")
    if Path(log_path).exists():
        log = apsw.VFSFile(vfs, log_path, [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0])
        try:
            size = log.xFileSize()
            for start in range(0, size, _LOG_BYTES_TOGETHER):
                log.xWrite(log.xRead(min(_LOG_BYTES_TOGETHER, size - start), start), start)
            log.xSync(apsw.SQLITE_SYNC_NORMAL)
        finally:
            log.xClose()
    connection.execute("ROLLBACK")


def _empty_log(connection: apsw.Connection) -> None:
    """Write all of the log back (rule 2), so that a disk that still fails is found here."""
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
