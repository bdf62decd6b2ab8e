"""Scans of a PostgreSQL database: numbers in columns come as bytes, the highest first.

A session of its own that can do nothing but read. One scan is one transaction, so that all its
statements see the same; it is short, because what a scan brings is bounded, and so keeps the server
from cleaning up for no longer than that.
"""

import os
import socket
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bendybus.store.postgres.connecting import connect
from bendybus.store.postgres.statements import STATEMENTS
from bendybus.store.postgres.texts import KEPT_SIGN
from bendybus.store.postgres.values import BINARY, Packed
from bendybus.store.postgres.wire import Wire
from bendybus.store.sql.scanner import Uneven
from bendybus.store.sql.scanning import ScanConnection

# A scan may take longer than what a lane waits for, and nobody waits for its turn meanwhile.
STATEMENT_SECONDS: Final = 30
ANSWER_SECONDS: Final = 35.0
_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_LONG: Final = np.dtype(">i8")
_SHORT: Final = np.dtype(">i4")
# An array of one dimension without nulls, of bigints, counted from 1.
_ARRAY_HEAD: Final = np.array([1, 0, 20, 0, 1], _SHORT)
_ARRAY_ITEM: Final = np.dtype([("size", ">i4"), ("value", ">i8")])


class PostgresScanConnection(ScanConnection):
    """See `bendybus.store.sql.scanning`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        # Another handle of the same connection: it can be ended by it from any thread.
        self._socket = socket.socket(fileno=os.dup(wire.socket))

    def begin(self) -> None:
        """See one state of the database from now on; said with the first statement."""
        self._wire.send(_BEGIN, _BEGIN)

    def end(self) -> None:
        """Let go of what was seen."""
        self._wire.send("ROLLBACK", "ROLLBACK")
        self._wire.answers()

    def row(self, name: str, *bindings: object) -> tuple[Any, ...] | None:
        """Execute a statement that returns at most one row."""
        self._wire.send(name, STATEMENTS[name], bindings)
        rows = self._wire.answers()[-1].rows()
        if not rows:
            return None
        if name == "scan_keys" and any(KEPT_SIGN in (joined or b"") for joined in rows[0][1::2]):
            # Texts that are kept in another form are left to the lane, which reads them one by one.
            raise Uneven
        return rows[0]

    def array(self, ids: NDArray[np.int64]) -> object:
        """Bind many ids, as they go over the wire."""
        head = _ARRAY_HEAD.copy()
        head[3] = len(ids)
        items = np.empty(len(ids), _ARRAY_ITEM)
        items["size"] = _LONG.itemsize
        items["value"] = ids
        return Packed(head.tobytes() + items.tobytes(), BINARY)

    def long_numbers(self, column: bytes | None, count: int) -> NDArray[np.int64]:
        """Read numbers of eight bytes."""
        return _numbers(column, count, _LONG)

    def short_numbers(self, column: bytes | None, count: int) -> NDArray[np.int64]:
        """Read numbers of four bytes."""
        return _numbers(column, count, _SHORT)

    def interrupt(self) -> None:
        """Break off a scan under way: the session is over. Asking the server could take long."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # It is over.

    def close(self) -> None:
        """End the session."""
        self._wire.close()
        self._socket.close()


def open_scan_connection(number: int, url: str) -> PostgresScanConnection:
    """Connect for scans alone."""
    settings = {
        "statement_timeout": f"{STATEMENT_SECONDS}s",
        # It keeps nobody waiting, and may itself have to wait for its processor.
        "idle_in_transaction_session_timeout": "60s",
    }
    connection = connect(url, purpose=f"store {number} scan", settings=settings)
    return PostgresScanConnection(Wire(connection, patience=ANSWER_SECONDS))


def _numbers(column: bytes | None, count: int, kind: np.dtype[Any]) -> NDArray[np.int64]:
    if len(column or b"") != count * kind.itemsize:
        raise Uneven
    return np.frombuffer(column or b"", kind).astype(np.int64)
