"""A messaging store in a PostgreSQL database, which any number of front ends share."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Final

import psycopg

from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.store_status import StoreStatus
from bendybus.store.identity import StoreIdentity
from bendybus.store.postgres.attendant import Attendant
from bendybus.store.postgres.connecting import (
    ANSWER_SECONDS,
    StoreUnreachable,
    connect,
    shown,
)
from bendybus.store.postgres.database import PostgresDatabase
from bendybus.store.postgres.failures import PostgresFailures
from bendybus.store.postgres.identity import StoreMoved, check_or_claim
from bendybus.store.postgres.locks import TAKE_TURN, TRY_USE, TRY_USE_ALONE
from bendybus.store.postgres.migrating import make_tables
from bendybus.store.postgres.vacuuming import SETTINGS as VACUUM_SETTINGS
from bendybus.store.postgres.vacuuming import Vacuum
from bendybus.store.postgres.wire import Wire
from bendybus.store.sharing import Heard
from bendybus.store.sql.lane import Lane
from bendybus.store.sql.scanner import OpenScans, Scanner
from bendybus.store.sql.store import SqlStore

# The lane, the attendant, the scan and, at the caretaker, the vacuum.
CONNECTIONS_PER_STORE: Final = 4

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """How long a store waits for what. Tests hurry it."""

    # How long one that failed waits before it tries to connect again.
    retry_seconds: float = 0.5
    # How often to ask for the caretaker's place, and whether the catalog was changed.
    beat_seconds: float = 1.0
    # How long to wait for our turn: longer than anybody can have it, who is not one of very many.
    turn_seconds: float = 5.0
    # How long to wait for an answer: longer than the server works on it.
    answer_seconds: float = ANSWER_SECONDS


DEFAULT_PACING: Final = Pacing()


class PostgresStore(SqlStore[PostgresDatabase]):
    """See `bendybus.store.port` for what each method promises."""

    def __init__(
        self,
        number: int,
        url: str,
        *,
        identity: StoreIdentity,
        pacing: Pacing = DEFAULT_PACING,
        is_alone: bool = False,
    ) -> None:
        self._number = number
        # Where the store is; another when it was moved.
        self._url = url
        self._identity = identity
        self._pacing = pacing
        # Whether no front end of another broker may serve from it while this one does.
        self._is_alone = is_alone
        # The last time that this front end became the caretaker.
        self._taken_over: asyncio.Future[None] | None = None
        self._attendant = Attendant(
            number,
            lambda: self._url,
            self._take_over,
            lambda: self.is_online,
            beat_seconds=pacing.beat_seconds,
        )
        self._vacuum = Vacuum(
            lambda: connect(self._url, purpose=f"store {number} vacuum", settings=VACUUM_SETTINGS),
            lambda: self._attendant.is_caretaker,
        )
        failures = PostgresFailures()
        scanner = Scanner(
            self._open_scans,
            failures=failures.every,
            is_online=lambda: self.is_online,
            name=f"scan-{number}",
        )
        super().__init__(
            Lane(
                number,
                self._open,
                failures,
                retry_seconds=pacing.retry_seconds,
                let_go=scanner.let_go,
            ),
            scanner,
        )

    @property
    def url(self) -> str:
        """The URL that the store was given, or has moved to, with its password."""
        return self._url

    @property
    def identity(self) -> StoreIdentity:
        """Which store it is."""
        return self._identity

    @property
    def path(self) -> str:
        """The URL that the store was given, or has moved to, without its password."""
        return shown(self._url)

    async def start(self) -> None:
        """Connect; see `Lane.start`."""
        await super().start()
        await self._attendant.start()
        if self._taken_over is not None:
            await asyncio.wait([self._taken_over])
        self._vacuum.start()

    async def close(self) -> None:
        """Finish what waits, let another be caretaker, and end the sessions."""
        await super().close()
        await asyncio.get_running_loop().run_in_executor(None, self._vacuum.close)
        await self._attendant.close()

    def status(self) -> StoreStatus:
        """Say how the store is."""
        lane = self._lane
        return StoreStatus(
            number=lane.number,
            state=lane.state,
            reason=lane.reason or None,
            path=self.path,
            size_bytes=self._attendant.size_bytes,
            fragments=lane.fragments_held,
        )

    @property
    def log_bytes(self) -> int:
        """The server's log is its own."""
        return 0

    # What other front ends have to do with it.

    @property
    def is_shared(self) -> bool:
        """Whether other front ends may serve from it: any number."""
        return True

    @property
    def generation(self) -> int:
        """How often the catalog was changed, as far as is known here."""
        return self._attendant.generation

    @property
    def is_caretaker(self) -> bool:
        """Whether this front end looks after the store."""
        return self._attendant.is_caretaker

    def listen(self, heard: Heard) -> None:
        """Have a function called when others tell."""
        self._attendant.listen(heard)

    def tell(self, queues: Sequence[QueueNumber]) -> None:
        """Tell others, soon."""
        self._attendant.tell(queues)

    def catalog_turn(self) -> AbstractAsyncContextManager[None]:
        """Be the only front end that changes the catalog here."""
        return self._attendant.catalog_turn()

    async def server_time(self) -> Instant | None:
        """Return the server's time."""
        return await self._attendant.server_time()

    def _open_scans(self) -> OpenScans:
        # numpy comes with it, which only those need who scan.
        from bendybus.store.postgres.scan_connection import open_scan_connection

        return open_scan_connection(self._number, self._url)

    def _open(self) -> PostgresDatabase:
        """Connect, and make the tables if they are not there. Runs in the lane's thread."""
        while True:
            connection = connect(
                self._url,
                purpose=f"store {self._number} lane",
                settings={"lock_timeout": f"{self._pacing.turn_seconds * 1000:.0f}ms"},
            )
            try:
                self._make_sure(connection)
                database = PostgresDatabase(
                    Wire(connection, patience=self._pacing.answer_seconds),
                    self._attendant.note_generation,
                )
                if self._attendant.holds_place:
                    database.begin(is_synced=False)
                    database.end_holds()
                    database.commit()
                    self._attendant.has_taken_over = True
            except StoreMoved as moved:
                connection.close()
                _log.warning(
                    "store %d has moved from %s to %s: list that one at the next start",
                    self._number,
                    self.path,
                    shown(moved.url),
                )
                self._url = moved.url
                self._identity = replace(self._identity, follows=True)
            except BaseException:
                connection.close()
                raise
            else:
                self._attendant.hurry()
                return database

    def _make_sure(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Make sure of the tables, and of whose they are."""
        make_tables(connection, self.path)
        [(is_ours,)] = connection.execute(TRY_USE_ALONE if self._is_alone else TRY_USE).fetchall()
        if not is_ours:
            raise StoreUnreachable(
                f"{self.path} is served already by others, and this broker moved it there: start it"
                " anew"
                if self._is_alone
                else f"{self.path} is served by the broker that moved it there, and by that one"
                " alone until it is started anew"
            )
        with connection.transaction():
            connection.execute(TAKE_TURN)
            check_or_claim(connection, self._identity, self.path)

    def _take_over(self) -> None:
        """Become the caretaker of a store that is open; called in the loop."""

        def work(database: PostgresDatabase) -> None:
            database.end_holds()
            self._attendant.has_taken_over = True
            # Whoever looks after the store looks at all of it.
            self._lane.openings += 1

        # If it fails, so does the store, and its next opening does it.
        self._taken_over = self._lane.submit(work, is_synced=False)
        self._taken_over.add_done_callback(_seen)


def _seen(done: "asyncio.Future[None]") -> None:
    """Look at the outcome, so that nobody complains that nobody did."""
    if not done.cancelled():
        done.exception()
