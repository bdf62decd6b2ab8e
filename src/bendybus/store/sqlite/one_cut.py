"""All files of the stores as they are at one instant, while others write to them.

What goes from one store to another is in both for a moment, or on its way; copies of two different
instants would lose it or have it twice. So for a moment nobody may write to any of the files, and
in that moment a transaction that reads begins in each. It sees its file as it was, however long it
lasts, and disturbs no writer: only the log cannot begin anew until it ends, and grows meanwhile.

This is for a process of its own. A second library of SQLite in the broker's would, by closing a
file, let go of the broker's locks on it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import apsw

from bendybus.model.errors import DataFolderUnusable
from bendybus.store.sqlite.database import APPLICATION_ID
from bendybus.store.sqlite.users import OthersInTheWay, Users

# A quarter of how long a broker waits before it takes the store for failed.
PAUSE_SECONDS_MAX: Final = 0.5
_TRIES: Final = 40
_REST_SECONDS: Final = 0.25
_JOIN_SECONDS: Final = 2.0
# How often a file is tried that a writer holds: between two commits it is free for a moment only.
_POLL_SECONDS: Final = 0.0002


class Snapshots:
    """The files, each in a transaction that reads it as it was at the cut."""

    def __init__(
        self,
        connections: Mapping[int, apsw.Connection],
        users: Sequence[Users],
        pause_seconds: float,
    ) -> None:
        self.connections = connections
        self._users = users
        # How long nobody could write.
        self.pause_seconds = pause_seconds

    @property
    def must_let_go(self) -> bool:
        """Whether workers that share the files found the disk failing, and all must close them."""
        return any(each.must_let_go for each in self._users)


@contextmanager
def one_cut(files: Mapping[int, Path]) -> Iterator[Snapshots]:
    """Begin to read all of the files at the same instant."""
    with ExitStack() as open_files:
        users = [each for path in files.values() for each in _joined(path, open_files)]
        writers = {
            number: open_files.enter_context(_opened(path)) for number, path in files.items()
        }
        readers = {
            number: open_files.enter_context(_opened(path)) for number, path in files.items()
        }
        begun = _hold_all(list(writers.values()))
        try:
            for reader in readers.values():
                reader.execute("BEGIN")
                _look_at(reader)
        finally:
            for writer in writers.values():
                writer.execute("ROLLBACK")
        pause_seconds = time.monotonic() - begun
        for writer in writers.values():
            writer.close()
        yield Snapshots(readers, users, pause_seconds)


def _joined(path: Path, open_files: ExitStack) -> Iterator[Users]:
    """Be one of those who have a file open, where workers share it."""
    folder = Path(f"{path}-shared")
    if not folder.is_dir():
        return
    users = Users(folder)
    open_files.callback(users.close)
    try:
        users.join(within_seconds=_JOIN_SECONDS)
    except OthersInTheWay as error:
        raise DataFolderUnusable(f"cannot open {path}: {error}; try again") from None
    yield users


@contextmanager
def _opened(path: Path) -> Iterator[apsw.Connection]:
    """Open a file to look at it: nothing is written, also not its log, when it is closed."""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error as error:
        raise DataFolderUnusable(f"cannot open {path}: {error}") from None
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.wal_autocheckpoint(0)
        connection.set_busy_handler(None)
        try:
            [(application,)] = connection.execute("PRAGMA application_id")
            # What takes long is done before the pause: the log and the tables are found.
            _look_at(connection)
        except apsw.Error as error:
            raise DataFolderUnusable(f"cannot read {path}: {error}") from None
        if application != APPLICATION_ID:
            raise DataFolderUnusable(f"{path} is no messaging store")
        yield connection
    finally:
        connection.close()


def _look_at(connection: apsw.Connection) -> None:
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()


def _hold_all(writers: Sequence[apsw.Connection]) -> float:
    """Keep everybody from writing to any of the files; return since when some waited."""
    for _ in range(_TRIES):
        begun = time.monotonic()
        held: list[apsw.Connection] = []
        for writer in writers:
            if not _hold(writer, begun + PAUSE_SECONDS_MAX):
                break
            held.append(writer)
        else:
            return begun
        for writer in held:
            writer.execute("ROLLBACK")
        time.sleep(_REST_SECONDS)
    raise DataFolderUnusable(
        "the stores are written to without a pause, or held by another program, so that they"
        " cannot be copied as of one instant; try again when there is less traffic"
    )


def _hold(writer: apsw.Connection, deadline: float) -> bool:
    while True:
        try:
            writer.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True
