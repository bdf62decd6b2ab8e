"""A thread and a connection of their own for scans, beside the lane.

So that a long read keeps no commit waiting. Both are there while somebody scans, and a little
longer.

The lane decides when the database is open at all, and for SQLite it must be able to be the only one
that has the file (rule 3 of `sqlite.database`). So it calls `let_go` whenever it closes and before
it opens, and here nothing is opened while the lane is not online.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from bendybus.model.scanned import Scanned
from bendybus.store.scan import Scan

# How long the connection stays open after the last scan.
IDLE_SECONDS: Final = 10.0


class NotOpen(Exception):
    """The lane is not online."""


class ScanFailed(Exception):
    """The database did not let us read."""


class Suspicious(Exception):
    """Something that was scanned is not as it was written."""


class Uneven(ValueError):
    """A column has not as many values as there should be: one was missing, or too large."""


class OpenScans(Protocol):
    """A connection that can scan; see `scanning.ScanConnection`."""

    def scan(self, request: Scan) -> Scanned:
        """Read the next messages. Raises `Suspicious`, `EntityNotFound` or the engine's errors."""
        ...

    def interrupt(self) -> None:
        """Break off a scan under way; called from any thread."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class Scanner:
    """Scans one store."""

    def __init__(
        self,
        connect: Callable[[], OpenScans],
        *,
        failures: tuple[type[Exception], ...],
        is_online: Callable[[], bool],
        name: str,
    ) -> None:
        self._connect = connect
        # All that the database itself raises.
        self._failures = failures
        self._is_online = is_online
        self._name = name
        # Held while the connection is used.
        self._lock = threading.Lock()
        self._connection: OpenScans | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._scans = 0
        self._idle: asyncio.TimerHandle | None = None

    async def scan(self, request: Scan) -> Scanned:
        """Read the next messages. Raises as `OpenScans.scan`, `NotOpen` and `ScanFailed`."""
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
        with self._lock:
            if not self._is_online():
                self._close()
                raise NotOpen
            try:
                if self._connection is None:
                    self._connection = self._connect()
                return self._connection.scan(request)
            except self._failures as error:
                self._close()
                raise ScanFailed(str(error)) from error

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
