"""A messaging store in one SQLite file that several processes of one machine serve from."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from bendybus.model.errors import ServerBusy, StoreUnavailable
from bendybus.model.ids import QueueNumber
from bendybus.model.scanned import Scanned
from bendybus.store.scan import Scan
from bendybus.store.sharing import Heard
from bendybus.store.sql.store import SqlStore
from bendybus.store.sqlite.data_folder import url_file_of
from bendybus.store.sqlite.database import Pacing, SqliteDatabase
from bendybus.store.sqlite.hints import Hints
from bendybus.store.sqlite.notes import MOVER
from bendybus.store.sqlite.shared_database import open_shared
from bendybus.store.sqlite.store import DEFAULT_PACING, SqliteStore
from bendybus.store.sqlite.users import FileTurn, side_folder

# How long a change of the catalog waits for another, and how often it looks.
TURN_SECONDS_MAX: Final = 30.0
TURN_LOOK_SECONDS: Final = 0.005

_log = logging.getLogger(__name__)


class SharedSqliteStore(SqliteStore):
    """One process's way to the file."""

    def __init__(
        self, number: int, path: Path, *, vfs: str | None = None, pacing: Pacing = DEFAULT_PACING
    ) -> None:
        self._heard: Heard = _nobody
        self._hints: Hints | None = None
        super().__init__(number, path, vfs=vfs, pacing=pacing)

    def _opener(self, pacing: Pacing, vfs: str | None) -> Callable[[], SqliteDatabase]:
        return partial(open_shared, self.path, pacing, vfs=vfs)

    @property
    def is_shared(self) -> bool:
        """Whether others serve from it: they may."""
        return True

    @property
    def generation(self) -> int:
        """How often the catalog was changed here, as of the last commit or look."""
        return self._lane.generation if self._successor is None else self._successor.generation

    @property
    def is_caretaker(self) -> bool:
        """Whether this process holds the lock of who looks after the store."""
        return self._lane.is_caretaker if self._successor is None else self._successor.is_caretaker

    @property
    def is_left_behind(self) -> bool:
        """Whether another process has moved the store, and this one has not followed yet."""
        return not self.has_moved and url_file_of(self.path).exists()

    async def follow(self, successor: SqlStore[Any]) -> None:
        """Be at the place that another process has moved the store to, surely."""
        await self._lane.follow()
        await self.give_way(successor)

    async def give_way(self, successor: SqlStore[Any]) -> None:
        """Be at another place, and hear there what others tell."""
        successor.listen(self._hear)
        await super().give_way(successor)
        self._stop_hearing()

    async def start(self) -> None:
        """Open the file, and hear what others tell."""
        try:
            self._hints = Hints(side_folder(self.path), self._hear)
        except OSError as error:
            _log.warning("store %d hears no hints of others: %s", self._lane.number, error)
        await super().start()

    async def close(self) -> None:
        """Finish what waits, and leave the file to others."""
        self._stop_hearing()
        await super().close()

    def _stop_hearing(self) -> None:
        if self._hints is not None:
            self._hints.close()
            self._hints = None

    def listen(self, heard: Heard) -> None:
        """Have a function called when others tell."""
        self._heard = heard

    def _hear(self, queues: Sequence[QueueNumber]) -> None:
        self._heard(queues)

    def tell(self, queues: Sequence[QueueNumber]) -> None:
        """Tell the others that something may have become free."""
        if self._successor is not None:
            self._successor.tell(queues)
        elif self._hints is not None and self.is_online:
            self._hints.tell(queues)

    def scan(self, request: Scan) -> "asyncio.Task[Scanned]":
        """Read many messages as columns; of a file that the store has left, none."""
        return asyncio.create_task(self._scan_where_it_is(request))

    async def _scan_where_it_is(self, request: Scan) -> Scanned:
        if self.is_left_behind:
            raise StoreUnavailable(self._lane.number, "it has just moved")
        return await super().scan(request)

    @asynccontextmanager
    async def catalog_turn(self) -> AsyncIterator[None]:
        """Be the only one who changes the catalog here."""
        if self._successor is not None:
            async with self._successor.catalog_turn():
                yield
            return
        if not self.is_online:
            raise StoreUnavailable(self._lane.number, self._lane.reason)
        turn = FileTurn(side_folder(self.path) / "catalog")
        try:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + TURN_SECONDS_MAX
            while not turn.take():
                if loop.time() >= deadline:
                    raise ServerBusy(
                        f"Another process changes the catalog of messaging store"
                        f" {self._lane.number} and does not get done."
                    )
                await asyncio.sleep(TURN_LOOK_SECONDS)
            yield
        finally:
            turn.close()


def is_surely_moved(path: Path) -> bool:
    """Say whether the store that was in a file is elsewhere, and nobody can undo that any more."""
    turn = FileTurn(side_folder(path) / MOVER)
    try:
        return turn.take() and url_file_of(path).exists()
    finally:
        turn.close()


def _nobody(queues: Sequence[QueueNumber]) -> None:
    """Hear nothing."""
