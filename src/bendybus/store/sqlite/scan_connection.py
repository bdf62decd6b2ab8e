"""Scans of an SQLite file: columns of numbers come as digits (queries/scanning.sql)."""

import contextlib
from pathlib import Path
from typing import Any, Final

import apsw
import numpy as np
from numpy.typing import NDArray

from bendybus.store.sql.scanning import ScanConnection
from bendybus.store.sqlite.digits import long_numbers, short_numbers
from bendybus.store.sqlite.statements import STATEMENTS

# Pages are read once, from the beginning to the end.
_CACHE_KIBIBYTES: Final = 512
_BUSY_TIMEOUT_MS: Final = 2000


class SqliteScanConnection(ScanConnection):
    """See `bendybus.store.sql.scanning`."""

    has_packs = True

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def begin(self) -> None:
        """See one state of the file from now on."""
        self._connection.execute("BEGIN")

    def end(self) -> None:
        """Let go of what was seen."""
        self._connection.execute("ROLLBACK")

    def row(self, name: str, *bindings: object) -> tuple[Any, ...] | None:
        """Execute a statement that returns at most one row."""
        rows = self._connection.execute(STATEMENTS[name], bindings).fetchall()
        return rows[0] if rows else None

    def array(self, ids: NDArray[np.int64]) -> object:
        """Bind many ids."""
        return apsw.carray(ids)

    def long_numbers(self, column: bytes | None, count: int) -> NDArray[np.int64]:
        """Read numbers of 16 digits."""
        return long_numbers(column, count)

    def short_numbers(self, column: bytes | None, count: int) -> NDArray[np.int64]:
        """Read numbers of 8 digits."""
        return short_numbers(column, count)

    def interrupt(self) -> None:
        """Break off a scan under way."""
        with contextlib.suppress(apsw.ConnectionClosedError):
            self._connection.interrupt()

    def close(self) -> None:
        """Close the file, whatever goes on."""
        self._connection.close(force=True)


def open_scan_connection(path: Path, vfs: str | None) -> SqliteScanConnection:
    """Open a file for scans alone."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIBIBYTES}")
    return SqliteScanConnection(connection)
