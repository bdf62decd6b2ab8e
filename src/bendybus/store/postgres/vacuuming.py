"""Makes room of rows that are gone, as fast as messages pass through.

Every message leaves two dead rows behind: the one that was free and the one that was locked.
PostgreSQL's own autovacuum looks once a minute unless its server is told otherwise, and in a minute
a small queue can leave ten times its size. So who looks after the store vacuums it: by the share of
dead rows, so that a table stays within a small multiple of what lives in it, and a large one is
not gone through more often than that needs.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import sql

from bendybus.store.postgres.bounded import BoundedConnection
from bendybus.store.postgres.connecting import ANSWER_SECONDS

# A table is vacuumed when it has so many dead rows more than the last time, and so many of a
# hundred living ones.
DEAD_MIN: Final = 5_000
DEAD_PERCENT: Final = 25
# What could not be removed because somebody might still see it is tried again after a while.
KEPT_SECONDS: Final = 30.0
# How long one table may take: it is in nobody's way. What is cut off then begins anew.
TABLE_SECONDS_MAX: Final = 3600
# A server that finds its client gone ends what it does for it within a second.
SETTINGS: Final = {
    "statement_timeout": f"{TABLE_SECONDS_MAX}s",
    "client_connection_check_interval": "1s",
}

_FIND_DEAD: Final = """
    SELECT relname, n_live_tup, n_dead_tup FROM pg_stat_user_tables
     WHERE schemaname = current_schema() ORDER BY n_dead_tup DESC"""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Vacuumed:
    """When a table was vacuumed, and how many dead rows were left."""

    at: float
    left: int


class Vacuum:
    """A thread with a connection of its own, which it has only while it is its turn."""

    def __init__(
        self,
        connect: Callable[[], BoundedConnection],
        is_due: Callable[[], bool],
        *,
        pause_seconds: float = 1.0,
    ) -> None:
        self._connect = connect
        self._is_due = is_due
        self._pause_seconds = pause_seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vacuum", daemon=True)
        self._connection: BoundedConnection | None = None
        self._vacuumed: dict[str, _Vacuumed] = {}

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """End, in the middle of a table if need be: the next vacuum begins anew.

        The server is not asked: it may be paused, and would be waited for.
        """
        self._is_over.set()
        connection = self._connection
        if connection is not None:
            # It may be closing just now.
            with suppress(OSError, psycopg.Error):
                _hang_up(connection.pgconn.socket)
        self._thread.join()

    # What follows runs in the thread.

    def _run(self) -> None:
        while not self._is_over.wait(self._pause_seconds):
            try:
                if self._is_due():
                    self._look()
                else:
                    self._disconnect()
            except Exception as error:  # noqa: BLE001 - a server that is away, whatever it says
                _log.debug("vacuum put off: %s", error)
                self._disconnect()
        self._disconnect()

    def _look(self) -> None:
        if self._connection is None:
            self._connection = self._connect()
            self._vacuumed.clear()
        for table, live, dead in self._connection.execute(_FIND_DEAD).fetchall():
            if not self._is_over.is_set() and self._is_worth_it(table, live, dead):
                self._vacuum(self._connection, table)

    def _is_worth_it(self, table: str, live: int, dead: int) -> bool:
        threshold = max(DEAD_MIN, live * DEAD_PERCENT // 100)
        last = self._vacuumed.get(table)
        if last is None or time.monotonic() - last.at > KEPT_SECONDS:
            return dead > threshold
        return dead - last.left > threshold

    def _vacuum(self, connection: BoundedConnection, table: str) -> None:
        patience = connection.patience
        connection.patience = TABLE_SECONDS_MAX + ANSWER_SECONDS
        connection.execute(sql.SQL("VACUUM (SKIP_LOCKED) {}").format(sql.Identifier(table)))
        connection.patience = patience
        [(left,)] = connection.execute(
            "SELECT n_dead_tup FROM pg_stat_user_tables"
            " WHERE schemaname = current_schema() AND relname = %s",
            (table,),
        ).fetchall()
        self._vacuumed[table] = _Vacuumed(time.monotonic(), left)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _hang_up(descriptor: int) -> None:
    """Let whoever waits at a socket find it closed."""
    with socket.socket(fileno=os.dup(descriptor)) as wire:
        wire.shutdown(socket.SHUT_RDWR)
