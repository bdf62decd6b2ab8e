"""A thread and a connection of their own for scans, beside the lane.

So that a long read keeps no commit waiting. Both are there while somebody scans, and a little
longer.

The lane decides when the file is open at all. Before it opens the file it must be the only one that
has it: with another connection open SQLite would not read the log again, but believe what memory
says of it (rule 3 of `database`). So it calls `let_go` whenever it closes and before it opens, and
here nothing is opened while the lane is not online.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import apsw

from bendybus.model.scanned import Scanned
from bendybus.store.scan import Scan

# How long the connection stays open after the last scan.
IDLE_SECONDS: Final = 10.0
# Pages are read once, from the beginning to the end.
_CACHE_KIBIBYTES: Final = 512
_BUSY_TIMEOUT_MS: Final = 2000


class NotOpen(Exception):
    """The lane is not online."""


class Suspicious(Exception):
    """Something that was scanned is not as it was written."""


class Scanner:
    """Scans one store."""

    def __init__(
        self, path: Path, *, vfs: str | None, is_online: Callable[[], bool], name: str
    ) -> None:
        self._path = path
        self._vfs = vfs
        self._is_online = is_online
        self._name = name
        # Held while the connection is used.
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._scans = 0
        self._idle: asyncio.TimerHandle | None = None

    async def scan(self, request: Scan) -> Scanned:
        """Read the next messages. Raises as `scanning.scan` does, and `NotOpen`."""
        loop = asyncio.get_running_loop()
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        self._scans += 1
        try:
            return await loop.run_in_executor(self._thread, self._scan, request)
        finally:
            self._scans -= 1
            if not self._scans:
                self._idle = loop.call_later(IDLE_SECONDS, self._rest)

    def let_go(self) -> None:
        """Close the connection, from any thread; a scan under way is broken off."""
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(apsw.ConnectionClosedError):
                connection.interrupt()
        with self._lock:
            self._close()

    def close(self) -> None:
        """End the thread too. Not to be called before the last scan has ended."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._rest()

    def _rest(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.submit(self.let_go)
            thread.shutdown(wait=False)

    # What follows runs in the thread.

    def _scan(self, request: Scan) -> Scanned:
        # numpy comes with it, which only those need who scan.
        from bendybus.store.sqlite import scanning

        with self._lock:
            if not self._is_online():
                self._close()
                raise NotOpen
            if self._connection is None:
                self._connection = _open(self._path, self._vfs)
            try:
                return scanning.scan(self._connection, request)
            except apsw.Error:
                self._close()
                raise

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(force=True)


def _open(path: Path, vfs: str | None) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIBIBYTES}")
    return connection
