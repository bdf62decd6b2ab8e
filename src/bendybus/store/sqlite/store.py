"""A messaging store in one SQLite file."""

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from bendybus.model.errors import StoreUnavailable
from bendybus.model.scanned import Scanned
from bendybus.model.store_status import StoreStatus
from bendybus.store.scan import Scan
from bendybus.store.sharing import Unshared
from bendybus.store.sql.careful_scan import scan_carefully
from bendybus.store.sql.lane import Lane
from bendybus.store.sql.store import SqlStore
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.failures import SqliteFailures
from bendybus.store.sqlite.scanner import NotOpen, Scanner, Suspicious

DEFAULT_PACING: Final = Pacing()

_log = logging.getLogger(__name__)


class SqliteStore(Unshared, SqlStore[SqliteDatabase]):
    """See `bendybus.store.port` for what each method promises."""

    def __init__(
        self, number: int, path: Path, *, vfs: str | None = None, pacing: Pacing = DEFAULT_PACING
    ) -> None:
        self.path = path
        self._scanner = Scanner(
            path, vfs=vfs, is_online=lambda: self.is_online, name=f"scan-{number}"
        )
        super().__init__(
            Lane(
                number,
                partial(open_database, path, pacing, vfs=vfs),
                SqliteFailures(),
                retry_seconds=pacing.retry_seconds,
                let_go=self._scanner.let_go,
            )
        )

    async def close(self) -> None:
        """Finish what waits and close the file."""
        self._scanner.close()
        await super().close()

    def scan(self, request: Scan) -> "asyncio.Task[Scanned]":
        """Read many messages as columns."""
        return asyncio.create_task(self._scan(request))

    async def _scan(self, request: Scan) -> Scanned:
        try:
            return await self._scanner.scan(request)
        except NotOpen:
            raise StoreUnavailable(self._lane.number, self._lane.reason) from None
        except Suspicious:
            pass
        except apsw.Error as error:
            # Whether the disk is to blame, the lane finds out.
            _log.warning("a scan of store %d failed: %s", self._lane.number, error)
        return await self._lane.submit(lambda db: scan_carefully(db, request), is_synced=False)

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
