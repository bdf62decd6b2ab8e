"""Moves stores to databases at servers while the broker runs, one thread for each move.

Where several workers share the stores, the one that is asked moves a store, and tells the others,
which follow. They also look for themselves, for whoever moves one may be killed at any moment.
"""

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import Final, NamedTuple

from bendybus.assemble.stores import place_in
from bendybus.doors.arrivals import Arrivals
from bendybus.model.errors import (
    ArgumentInvalid,
    BusError,
    ServerBusy,
    SettingInvalid,
    StoreNotFound,
)
from bendybus.model.store_move import StoreMoveProgress
from bendybus.model.store_place import StorePlace, read_place
from bendybus.settings import Settings
from bendybus.store.identity import StoreIdentity
from bendybus.store.moving.moving import Progress, move
from bendybus.store.port import Store
from bendybus.store.sqlite.data_folder import cluster_of, put_moved_away, sync_folder, url_file
from bendybus.store.sqlite.moving_from import SqliteSource
from bendybus.store.sqlite.shared_store import SharedSqliteStore, is_surely_moved
from bendybus.store.sqlite.store import SqliteStore

# How often a worker looks whether others have moved a store and could not say so.
LOOK_SECONDS: Final = 1.0
_PROGRESS: Final = "move"
_MOVED: Final = "moved"

_log = logging.getLogger(__name__)


class StoreMove(NamedTuple):
    """A move that is under way, or has ended."""

    to: StorePlace
    progress: Progress
    task: "asyncio.Task[None]"
    # By a clock that all workers have in common.
    begun_at: float


class Reported(NamedTuple):
    """A move, of this worker or another."""

    begun_at: float
    progress: StoreMoveProgress

    @property
    def is_under_way(self) -> bool:
        """Whether it has not ended."""
        return self.progress.stage not in {"done", "failed"}


class StoreMoves:
    """The moves that were asked for since the broker started, or this worker of it."""

    def __init__(
        self, settings: Settings, stores: Sequence[Store], workers: Arrivals | None = None
    ) -> None:
        self._settings = settings
        self._stores = stores
        self._workers = workers
        self._moves: dict[int, StoreMove] = {}
        self._is_told = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        if workers is not None:
            workers.answer(_PROGRESS, self._report)
            workers.answer(_MOVED, self._hear_moved)
            if any(isinstance(store, SharedSqliteStore) for store in stores):
                self._looking = asyncio.create_task(self._look(), name="moved-stores")

    async def begin(self, number: int, url: str) -> None:
        """Begin to move a store. The same again changes nothing while it is under way."""
        try:
            place = read_place(url, "the place to move to")
        except SettingInvalid as error:
            raise ArgumentInvalid(str(error)) from None
        # That of another worker first: from the look at our own on nobody else begins one here.
        for known in (await self._elsewhere(number), self._own(number)):
            if known is not None and known.is_under_way:
                if known.progress.to != str(place):
                    raise ServerBusy(f"Store {number} is being moved to {known.progress.to}.")
                return
        self._check(number, place)
        progress = Progress()
        task = asyncio.create_task(self._move(number, place, progress), name=f"move-{number}")
        self._moves[number] = StoreMove(place, progress, task, time.monotonic())

    async def progress(self, number: int) -> StoreMoveProgress:
        """Say how far the last move of a store is. Raises `StoreNotFound` if there was none."""
        latest = _latest([self._own(number), await self._elsewhere(number)])
        if latest is None:
            raise StoreNotFound(
                f"Store {number} is not being moved, and was not since the start"
                + ("." if self._workers is None else " of the workers that are there now.")
            )
        return latest.progress

    def _own(self, number: int) -> Reported | None:
        """Return the last move of a store here."""
        if number not in self._moves:
            return None
        to, progress, task, begun_at = self._moves[number]
        is_said = progress.stage != "done" or task.done()
        shown = StoreMoveProgress(
            number=number,
            to=str(to),
            # The store is at its new place when it is open there.
            stage=progress.stage if is_said else "switching",
            rows=progress.rows,
            rows_total=progress.rows_total,
            kept=progress.kept,
            caught_up=progress.caught_up,
            pause_seconds=progress.pause_seconds,
            reason=progress.reason,
        )
        return Reported(begun_at, shown)

    async def _elsewhere(self, number: int) -> Reported | None:
        """Return the last move of a store at any other worker."""
        if self._workers is None:
            return None
        answers = await self._workers.ask(f"{_PROGRESS} {number}")
        known: list[Reported | None] = []
        for answer in filter(None, answers.values()):
            begun_at, progress = json.loads(answer)
            known.append(Reported(begun_at, StoreMoveProgress(**progress)))
        return _latest(known)

    async def _report(self, number: str) -> bytes:
        own = self._own(int(number))
        return b"" if own is None else json.dumps([own.begun_at, asdict(own.progress)]).encode()

    async def close(self) -> None:
        """End what is under way; it can be begun again."""
        tasks = [each.task for each in self._moves.values()]
        if self._looking is not None:
            tasks.append(self._looking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _check(self, number: int, place: StorePlace) -> None:
        if not 0 <= number < len(self._stores):
            raise StoreNotFound(
                f"There is no store {number}; they are numbered 0 to {len(self._stores) - 1}."
            )
        store = self._stores[number]
        if isinstance(store, SqliteStore) and store.has_moved:
            raise ArgumentInvalid(
                f"Store {number} was moved since the broker started; start it anew to move it on."
            )
        if find_spec("psycopg") is None:
            raise ArgumentInvalid(
                "The broker needs the driver for PostgreSQL: pip install 'bendybus[postgres]'."
            )
        for other in self._stores:
            if other.status().path == str(place):
                raise ArgumentInvalid(
                    f"{place} is store {other.status().number}; name another database."
                )

    async def _move(self, number: int, place: StorePlace, progress: Progress) -> None:
        store = self._stores[number]
        try:
            if isinstance(store, SqliteStore):
                await self._move_out(number, store, place, progress)
            else:
                await self._move_on(store, place, progress)
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever asked is to know it
            progress.stage = "failed"
            progress.reason = str(error) or type(error).__name__
            _log.error("store %d was not moved: %s", number, progress.reason)

    async def _move_out(
        self, number: int, store: SqliteStore, place: StorePlace, progress: Progress
    ) -> None:
        """Move a store from a file to a server."""
        from bendybus.assemble.servers import check_room
        from bendybus.store.postgres.moving_to import PostgresTarget
        from bendybus.store.postgres.store import PostgresStore

        data = self._settings.data
        identity = self._identity(number)
        source = SqliteSource(store, asyncio.get_running_loop(), url_file(data, number), place.url)

        def work() -> None:
            check_room(place, front_ends=self._settings.workers)
            with closing(PostgresTarget(place.url, identity, is_escaped=False)) as target:
                move(source, target, progress)

        await asyncio.to_thread(work)
        successor = PostgresStore(
            number, place.url, identity=replace(identity, follows=True), is_alone=True
        )
        left_at = time.monotonic() - progress.pause_seconds
        await store.give_way(successor)
        progress.pause_seconds = time.monotonic() - left_at
        if self._workers is None:
            put_moved_away(data)
        else:
            # Some may still have the file open. It is put away at the next start.
            await self._workers.ask(f"{_MOVED} {number}")
        _log.warning("store %d has moved to %s", number, place)

    async def _move_on(self, store: Store, place: StorePlace, progress: Progress) -> None:
        """Move a store from a server to another. Every front end follows by itself."""
        from bendybus.store.postgres.moving_from import PostgresSource
        from bendybus.store.postgres.moving_to import PostgresTarget
        from bendybus.store.postgres.store import PostgresStore

        assert isinstance(store, PostgresStore), "there are no other stores"

        def work() -> None:
            with (
                closing(PostgresSource(store.url, place.url)) as source,
                closing(PostgresTarget(place.url, store.identity, is_escaped=True)) as target,
            ):
                move(source, target, progress)

        await asyncio.to_thread(work)

    async def _hear_moved(self, _number: str) -> bytes:
        """Follow a store that another worker has moved, soon: whoever asks does not wait for it."""
        self._is_told.set()
        return b"done"

    async def _look(self) -> None:
        """Follow stores that others have moved, told or not, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._is_told.wait()
            self._is_told.clear()
            for number in range(len(self._stores)):
                try:
                    await self._follow(number)
                except (BusError, SettingInvalid, OSError) as error:
                    _log.error("store %d has moved, and cannot be followed: %s", number, error)

    async def _follow(self, number: int) -> None:
        """Be where another worker has moved a store to, if one has."""
        store = self._stores[number]
        if not isinstance(store, SharedSqliteStore) or not store.is_left_behind:
            return
        own = self._own(number)
        if (own is not None and own.is_under_way) or not is_surely_moved(store.path):
            return
        # Only who has such stores needs the driver.
        from bendybus.store.postgres.store import PostgresStore

        # Whoever wrote it down may have been killed before it was on disk.
        await asyncio.to_thread(sync_folder, self._settings.data)
        place = place_in(self._settings.data, number)
        assert isinstance(place, StorePlace), "it stays once it is there"
        identity = replace(self._identity(number), follows=True)
        await store.follow(PostgresStore(number, place.url, identity=identity, is_alone=True))
        _log.warning("store %d was moved to %s by another worker", number, place)

    def _identity(self, number: int) -> StoreIdentity:
        names = sorted(chosen.namespace.name for chosen in self._settings.namespaces)
        cluster = cluster_of(self._settings.data)
        return StoreIdentity(cluster, number, len(self._stores), tuple(names))


def _latest(moves: Sequence[Reported | None]) -> Reported | None:
    """Return the move of several that is under way, or else began last; None if there is none."""
    known = [each for each in moves if each is not None]
    return max(known, key=lambda each: (each.is_under_way, each.begun_at), default=None)
