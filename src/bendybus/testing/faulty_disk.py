"""A disk for SQLite files that fails on demand and remembers all that was done to it.

It is a VFS over the real one: give its `name` to a store. Faults last until `mend`.

A sync that fails is told apart from one that was never made: Linux marks the pages of a failed
sync as clean, so a later sync that succeeds says nothing about them. The history keeps that.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import PurePath
from typing import Final, NamedTuple

import apsw


class Fault(Enum):
    """What the disk refuses."""

    WRITE_ERROR = "writes fail"
    FULL = "there is no room for more bytes"
    SYNC_ERROR = "syncs fail"


class Act(Enum):
    """What can be done to a file."""

    WRITE = "write"
    TRUNCATE = "truncate"
    DELETE = "delete"
    SYNC = "sync"
    FAILED_SYNC = "failed sync"
    SYNC_FOLDER = "sync of the folder"


class Event(NamedTuple):
    """One thing that was done to a file; `at` is an offset or a size."""

    act: Act
    file: str
    at: int = 0
    content: bytes = b""


_LOGS: Final = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
_numbers: Final = itertools.count()


class FaultyDisk:
    """One disk. Make it with `faulty_disk`, which also takes it away again."""

    def __init__(self) -> None:
        self.name = f"faulty-{next(_numbers)}"
        self.history: list[Event] = []
        self._fault: Fault | None = None
        self._calls_before_fault = 0
        self._has_failed = False

    def break_at(self, call: int, fault: Fault) -> None:
        """Let the call of that number from now on (0 is the next), and all after it, fail."""
        self._fault, self._calls_before_fault = fault, call

    def mend(self) -> bool:
        """Work again. Says whether anything had failed."""
        had_failed, self._has_failed = self._has_failed, False
        self._fault = None
        return had_failed

    def refuses(self, fault: Fault) -> bool:
        """Count one call that could meet the fault, and say whether it does."""
        if self._fault is not fault:
            return False
        self._calls_before_fault -= 1
        is_refused = self._calls_before_fault < 0
        self._has_failed |= is_refused
        return is_refused


@contextmanager
def faulty_disk() -> Iterator[FaultyDisk]:
    """Register a disk for the time of a test."""
    disk = FaultyDisk()
    vfs = _DiskVfs(disk)
    try:
        yield disk
    finally:
        vfs.unregister()


class _DiskVfs(apsw.VFS):
    def __init__(self, disk: FaultyDisk) -> None:
        self._disk = disk
        super().__init__(disk.name, "")

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> "_DiskFile":
        return _DiskFile(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001 - SQLite's name and order
        super().xDelete(filename, syncdir)
        self._disk.history.append(Event(Act.DELETE, PurePath(filename).name))


class _DiskFile(apsw.VFSFile):
    def __init__(
        self, disk: FaultyDisk, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._file = PurePath(path or "").name
        # The VFS below syncs the folder with the first sync of a log or journal that it opened.
        self._is_folder_synced = not flags[0] & _LOGS
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        if self._disk.refuses(Fault.WRITE_ERROR):
            raise _error(apsw.IOError, apsw.SQLITE_IOERR_WRITE)
        if offset + len(data) > self.xFileSize() and self._disk.refuses(Fault.FULL):
            raise _error(apsw.FullError, apsw.SQLITE_FULL)
        super().xWrite(data, offset)
        self._disk.history.append(Event(Act.WRITE, self._file, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        if self._disk.refuses(Fault.WRITE_ERROR):
            raise _error(apsw.IOError, apsw.SQLITE_IOERR_TRUNCATE)
        super().xTruncate(newsize)
        self._disk.history.append(Event(Act.TRUNCATE, self._file, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802, ARG002 - SQLite's name and argument
        if self._disk.refuses(Fault.SYNC_ERROR):
            self._disk.history.append(Event(Act.FAILED_SYNC, self._file))
            raise _error(apsw.IOError, apsw.SQLITE_IOERR_FSYNC)
        # The real file need not be synced: what survives is worked out from the history.
        self._disk.history.append(Event(Act.SYNC, self._file))
        if not self._is_folder_synced:
            self._is_folder_synced = True
            self._disk.history.append(Event(Act.SYNC_FOLDER, ""))


def _error(kind: type[apsw.Error], code: int) -> apsw.Error:
    error = kind("the disk was told to fail")
    # By these apsw tells SQLite which error it was.
    error.__dict__.update(result=code & 0xFF, extendedresult=code)
    return error
