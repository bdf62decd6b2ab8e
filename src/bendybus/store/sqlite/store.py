"""A messaging store in one SQLite file."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from bendybus.model.scanned import Scanned
from bendybus.model.store_status import StoreStatus
from bendybus.store.scan import Scan
from bendybus.store.sharing import Unshared
from bendybus.store.sql.lane import Lane
from bendybus.store.sql.scanner import OpenScans, Scanner
from bendybus.store.sql.store import SqlStore
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.failures import SqliteFailures

DEFAULT_PACING: Final = Pacing()
T = TypeVar("T")


class SqliteStore(Unshared, SqlStore[SqliteDatabase]):
    """See `bendybus.store.port` for what each method promises."""

    def __init__(
        self, number: int, path: Path, *, vfs: str | None = None, pacing: Pacing = DEFAULT_PACING
    ) -> None:
        self.path = path
        # The store that this one has become, once it was moved while it was open.
        self._successor: SqlStore[Any] | None = None
        failures = SqliteFailures()
        scanner = Scanner(
            partial(_open_scans, path, vfs),
            failures=failures.every,
            is_online=lambda: self.is_online,
            name=f"scan-{number}",
        )
        super().__init__(
            Lane(
                number,
                self._opener(pacing, vfs),
                failures,
                retry_seconds=pacing.retry_seconds,
                let_go=scanner.let_go,
            ),
            scanner,
        )

    def _opener(self, pacing: Pacing, vfs: str | None) -> Callable[[], SqliteDatabase]:
        """Return what opens the file."""
        return partial(open_database, self.path, pacing, vfs=vfs)

    async def give_way(self, successor: SqlStore[Any]) -> None:
        """Be at another place, which `leave` has made ready: what waits meanwhile is done there.

        To its callers it is the same store, which was away for a moment.
        """
        lane = self._lane
        self._lane = await successor.take_over(lane.openings)
        self._scanner.close()
        self._successor = successor
        lane.pass_on(self._lane)

    @property
    def has_moved(self) -> bool:
        """Whether it is at another place now."""
        return self._successor is not None

    def look(self, work: Callable[[SqliteDatabase], T]) -> "asyncio.Future[T]":
        """Do something with the database, in turn with all others."""
        return self._lane.submit(work, is_synced=False)

    async def leave(self, work: Callable[[SqliteDatabase], None]) -> None:
        """See `Lane.leave`."""
        await self._lane.leave(work)

    async def close(self) -> None:
        """Close the file, or what came after it."""
        if self._successor is not None:
            await self._successor.close()
        else:
            await super().close()

    def scan(self, request: Scan) -> "asyncio.Task[Scanned]":
        """Read many messages as columns."""
        return super().scan(request) if self._successor is None else self._successor.scan(request)

    def status(self) -> StoreStatus:
        """Say how the store is."""
        if self._successor is not None:
            return self._successor.status()
        lane = self._lane
        return StoreStatus(
            number=lane.number,
            state=lane.state,
            reason=lane.reason or None,
            path=str(self.path),
            size_bytes=self.path.stat().st_size if self.path.exists() else 0,
            fragments=lane.fragments_held,
        )

    @property
    def log_bytes(self) -> int:
        """The size of the write-ahead log."""
        if self._successor is not None:
            return self._successor.log_bytes
        log = self.path.with_name(f"{self.path.name}-wal")
        return log.stat().st_size if log.exists() else 0


def _open_scans(path: Path, vfs: str | None) -> OpenScans:
    # numpy comes with it, which only those need who scan.
    from bendybus.store.sqlite.scan_connection import open_scan_connection

    return open_scan_connection(path, vfs)
