"""A messaging store in one SQLite file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from bendybus.model.store_status import StoreStatus
from bendybus.store.sharing import Unshared
from bendybus.store.sql.lane import Lane
from bendybus.store.sql.scanner import OpenScans, Scanner
from bendybus.store.sql.store import SqlStore
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.failures import SqliteFailures

DEFAULT_PACING: Final = Pacing()


class SqliteStore(Unshared, SqlStore[SqliteDatabase]):
    """See `bendybus.store.port` for what each method promises."""

    def __init__(
        self, number: int, path: Path, *, vfs: str | None = None, pacing: Pacing = DEFAULT_PACING
    ) -> None:
        self.path = path
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

    def status(self) -> StoreStatus:
        """Say how the store is."""
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
        log = self.path.with_name(f"{self.path.name}-wal")
        return log.stat().st_size if log.exists() else 0


def _open_scans(path: Path, vfs: str | None) -> OpenScans:
    # numpy comes with it, which only those need who scan.
    from bendybus.store.sqlite.scan_connection import open_scan_connection

    return open_scan_connection(path, vfs)
