"""The file that a store is to leave, read by its lane between two commits; see `notes`."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from bendybus.model.digests import DIGEST_SIZE
from bendybus.store.moving.moving import Change, MoveFailed, Notes, Taken
from bendybus.store.moving.tables import BODY, NUMBERED, SEEN, Key, MovedTable, Row
from bendybus.store.sql.packs import unfold_some
from bendybus.store.sqlite.data_folder import sync_folder
from bendybus.store.sqlite.database import SqliteDatabase
from bendybus.store.sqlite.notes import MOVER, NOTED, SEEN_ROWS, drop_notes, make_notes
from bendybus.store.sqlite.store import SqliteStore
from bendybus.store.sqlite.users import FileTurn, side_folder

# What is taken at once of contents that changed.
CONTENT_BYTES_TOGETHER: Final = 1 << 20
SIZES_TOGETHER: Final = 2000
SEEN_ROWS_TOGETHER: Final = 100
# How long to wait for who removes what an earlier move has left.
TURN_SECONDS_MAX: Final = 5.0
_PRIVATE: Final = 0o600
T = TypeVar("T")


class SqliteSource:
    """Reads through a lane, from a thread that is neither the lane's nor the loop's."""

    def __init__(
        self, store: SqliteStore, loop: asyncio.AbstractEventLoop, url_file: Path, url: str
    ) -> None:
        self._store = store
        self._loop = loop
        self._url_file = url_file
        self._url = url
        self._openings = -1
        self._has_left = False
        # Held while others' notes are ours, too.
        self._turn: FileTurn | None = None

    def begin(self) -> None:
        """Note from here on what changes."""
        is_shared = self._store.is_shared
        if is_shared:
            self._take_turn()
        self._openings = self._store.openings
        try:
            self._in_lane(lambda db: make_notes(db.connection, is_shared=is_shared))
            self._unfold()
        except BaseException:
            self._give_turn()
            raise

    def _unfold(self) -> None:
        """Make rows of all packs: servers have none."""
        self._in_lane(SqliteDatabase.keep_no_packs)
        while self._in_lane(unfold_some):
            continue

    def end(self) -> None:
        """Note nothing any more; nobody does once the file is closed."""
        try:
            if self._openings == self._store.openings and not self._has_left:
                self._in_lane(lambda db: drop_notes(db.connection))
                self._in_lane(SqliteDatabase.note_packs)
        finally:
            self._give_turn()

    def message_count(self) -> int:
        """How many messages there are, about."""
        [(count,)] = self._in_lane(
            lambda db: db.execute("SELECT total(message_count) FROM queue").fetchall()
        )
        return int(count)

    def last_key(self, table: MovedTable) -> Key | None:
        """Return the highest key."""
        return self._in_lane(lambda db: _last_key(db, table))

    def page(self, table: MovedTable, after: Key | None) -> Sequence[Row]:
        """Return the next rows in the order of their keys."""
        return self._in_lane(lambda db: _page(db, table, after, table.rows_together))

    def content_sizes(self, after: int) -> Sequence[tuple[int, int]]:
        """Return the ids and sizes of the next contents."""
        return self._in_lane(
            lambda db: db.execute(
                "SELECT id, octet_length(content) FROM body WHERE id > ? ORDER BY id LIMIT ?",
                (after, SIZES_TOGETHER),
            ).fetchall()
        )

    def contents(self, ids: Sequence[int]) -> Sequence[Row]:
        """Return those of these contents that are there."""
        return self._in_lane(lambda db: _found(db, BODY, [(number,) for number in ids]))

    def seen_page(self, after: Key | None) -> tuple[Sequence[Row], Key | None]:
        """Return the next ids of duplicate detection, and where the following begin."""
        rows = self._in_lane(lambda db: _page(db, SEEN_ROWS, after, SEEN_ROWS_TOGETHER))
        following = SEEN_ROWS.key_of(rows[-1]) if rows else None
        return _taken_apart(rows), following

    def take(self) -> Taken:
        """Return some of what changed."""
        return self._in_lane(_take)

    def switch(self, finish: Callable[[Notes, Mapping[str, int]], None]) -> None:
        """Stand still while `finish` takes what is left, then be elsewhere."""

        def work(database: SqliteDatabase) -> None:
            with database.standing_still():
                finish(_NotesOf(database), _numbers(database))
                self._put_url()

        self._check()
        asyncio.run_coroutine_threadsafe(self._store.leave(work), self._loop).result()
        self._has_left = True

    def _take_turn(self) -> None:
        turn = FileTurn(side_folder(self._store.path) / MOVER)
        if not turn.take(within_seconds=TURN_SECONDS_MAX):
            turn.close()
            raise MoveFailed("another worker moves the store just now")
        self._turn = turn

    def _give_turn(self) -> None:
        if self._turn is not None:
            self._turn.close()
            self._turn = None

    def _put_url(self) -> None:
        """Write down where the store is from now on: the one act that moves it."""
        unfinished = self._url_file.with_suffix(".moving")
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
        try:
            os.write(file, f"{self._url}\n".encode())
            os.fsync(file)
        finally:
            os.close(file)
        unfinished.rename(self._url_file)
        try:
            sync_folder(self._url_file.parent)
        except OSError:
            # Not certain, so it must not be: the store stays.
            self._url_file.unlink()
            raise

    def _in_lane(self, work: Callable[[SqliteDatabase], T]) -> T:
        self._check()

        async def submitted() -> T:
            return await self._store.look(work)

        return asyncio.run_coroutine_threadsafe(submitted(), self._loop).result()

    def _check(self) -> None:
        if self._store.openings != self._openings:
            raise MoveFailed("the store was away meanwhile; begin again when it is back")


class _NotesOf:
    """The notes of a database, for whoever is in its thread."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def take(self) -> Taken:
        return _take(self._database)


def _page(database: SqliteDatabase, table: MovedTable, after: Key | None, count: int) -> list[Row]:
    # Names of namespaces compare without case there, and here by their bytes.
    keys = ", ".join(f"{name} COLLATE BINARY" for name in table.key)
    marks = ", ".join("?" * len(table.key))
    beyond = f"WHERE ({keys}) > ({marks})" if after is not None else ""
    rows: list[Row] = database.execute(
        f"SELECT {', '.join(table.columns)} FROM {table.name} {beyond} ORDER BY {keys} LIMIT ?",
        (*(after or ()), count),
    ).fetchall()
    return rows


def _last_key(database: SqliteDatabase, table: MovedTable) -> Key | None:
    keys = ", ".join(f"{name} COLLATE BINARY DESC" for name in table.key)
    found: list[Key] = database.execute(
        f"SELECT {', '.join(table.key)} FROM {table.name} ORDER BY {keys} LIMIT 1"
    ).fetchall()
    return found[0] if found else None


def _found(database: SqliteDatabase, table: MovedTable, keys: Sequence[Key]) -> list[Row]:
    wanted = " AND ".join(f"{name} = ?" for name in table.key)
    select = f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE {wanted}"
    return database.connection.executemany(select, keys).fetchall()


def _take(database: SqliteDatabase) -> Taken:
    changes: list[Change] = []
    has_more = False
    for table in NOTED:
        keys = _noted_keys(database, table)
        if not keys:
            continue
        wanted = " AND ".join(f"{name} = ?" for name in table.key)
        noted = f"changed_{table.name}"
        database.connection.executemany(f"DELETE FROM {noted} WHERE {wanted}", keys)
        left = f"SELECT 1 FROM {noted} LIMIT 1 OFFSET {table.little}"
        has_more = has_more or bool(database.execute(left).fetchall())
        rows = _found(database, table, keys)
        if table is not SEEN_ROWS:
            changes.append(Change(table, keys, rows))
        elif rows:
            # What was forgotten is too old to matter, and is forgotten there in its time.
            apart = _taken_apart(rows)
            changes.append(Change(SEEN, [SEEN.key_of(row) for row in apart], apart))
    return Taken(changes, has_more)


def _noted_keys(database: SqliteDatabase, table: MovedTable) -> list[Key]:
    names = ", ".join(table.key)
    if table is not BODY:
        found: list[Key] = database.execute(
            f"SELECT {names} FROM changed_{table.name} LIMIT ?", (table.notes_together,)
        ).fetchall()
        return found
    keys: list[Key] = []
    room = CONTENT_BYTES_TOGETHER
    sized = database.execute(
        "SELECT c.id, octet_length(b.content) FROM changed_body c LEFT JOIN body b USING (id)"
        " LIMIT ?",
        (table.notes_together,),
    )
    for number, size in sized.fetchall():
        keys.append((number,))
        room -= size or 0
        if room <= 0:
            break
    return keys


def _taken_apart(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each id; of several of the same the last."""
    apart: dict[tuple[int, bytes], int] = {}
    for _, queue, seen_at, digests in rows:
        for at in range(0, len(digests), DIGEST_SIZE):
            apart[queue, digests[at : at + DIGEST_SIZE]] = seen_at
    return [(queue, digest, seen_at) for (queue, digest), seen_at in apart.items()]


def _numbers(database: SqliteDatabase) -> dict[str, int]:
    given = dict(database.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    [(litter,)] = database.execute("SELECT ifnull(max(id), 0) FROM litter").fetchall()
    given["litter"] = litter
    return {name: int(given.get(name, 0)) for name in NUMBERED}
