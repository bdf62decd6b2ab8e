"""Moves stores to databases at servers while the broker runs, one thread for each move."""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from typing import NamedTuple

from bendybus.model.errors import ArgumentInvalid, ServerBusy, SettingInvalid, StoreNotFound
from bendybus.model.store_move import StoreMoveProgress
from bendybus.model.store_place import StorePlace, read_place
from bendybus.settings import Settings
from bendybus.store.identity import StoreIdentity
from bendybus.store.moving.moving import Progress, move
from bendybus.store.port import Store
from bendybus.store.sqlite.data_folder import cluster_of, put_moved_away, url_file
from bendybus.store.sqlite.moving_from import SqliteSource
from bendybus.store.sqlite.shared_store import SharedSqliteStore
from bendybus.store.sqlite.store import SqliteStore

_log = logging.getLogger(__name__)


class StoreMove(NamedTuple):
    """A move that is under way, or has ended."""

    to: StorePlace
    progress: Progress
    task: "asyncio.Task[None]"


class StoreMoves:
    """The moves that were asked for since the broker started."""

    def __init__(self, settings: Settings, stores: Sequence[Store]) -> None:
        self._settings = settings
        self._stores = stores
        self._moves: dict[int, StoreMove] = {}

    def begin(self, number: int, url: str) -> None:
        """Begin to move a store. The same again changes nothing while it is under way."""
        try:
            place = read_place(url, "the place to move to")
        except SettingInvalid as error:
            raise ArgumentInvalid(str(error)) from None
        under_way = self._moves.get(number)
        if under_way is not None and not under_way.task.done():
            if under_way.to != place:
                raise ServerBusy(f"Store {number} is being moved to {under_way.to}.")
            return
        self._check(number, place)
        progress = Progress()
        task = asyncio.create_task(self._move(number, place, progress), name=f"move-{number}")
        self._moves[number] = StoreMove(place, progress, task)

    def progress(self, number: int) -> StoreMoveProgress:
        """Say how far the last move of a store is. Raises `StoreNotFound` if there was none."""
        if number not in self._moves:
            raise StoreNotFound(f"Store {number} is not being moved, and was not since the start.")
        to, progress, task = self._moves[number]
        is_said = progress.stage != "done" or task.done()
        return StoreMoveProgress(
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

    async def close(self) -> None:
        """End what is under way; it can be begun again."""
        tasks = [each.task for each in self._moves.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _check(self, number: int, place: StorePlace) -> None:
        if not 0 <= number < len(self._stores):
            raise StoreNotFound(
                f"There is no store {number}; they are numbered 0 to {len(self._stores) - 1}."
            )
        store = self._stores[number]
        if isinstance(store, SharedSqliteStore):
            raise ArgumentInvalid(
                "Workers share the embedded stores. Start the broker without --workers to move one."
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
        from bendybus.store.postgres.moving_to import PostgresTarget
        from bendybus.store.postgres.store import PostgresStore

        data = self._settings.data
        names = sorted(chosen.namespace.name for chosen in self._settings.namespaces)
        identity = StoreIdentity(cluster_of(data), number, len(self._stores), tuple(names))
        source = SqliteSource(store, asyncio.get_running_loop(), url_file(data, number), place.url)

        def work() -> None:
            with closing(PostgresTarget(place.url, identity, is_escaped=False)) as target:
                move(source, target, progress)

        await asyncio.to_thread(work)
        successor = PostgresStore(
            number, place.url, identity=replace(identity, follows=True), is_alone=True
        )
        left_at = time.monotonic() - progress.pause_seconds
        await store.give_way(successor)
        progress.pause_seconds = time.monotonic() - left_at
        put_moved_away(data)
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
