"""The file of a store that several processes of one machine have open.

SQLite lets one of them write at a time and asks the others to try again, which says nothing about
who comes next: who has just committed would mostly be the first. So whoever wants to write queues
up first (`queue`, in the folder beside the file), and leaves the queue when it writes. Who comes
back finds the next one there. It is a courtesy with a deadline: a process that is paused in the
queue does not stop the others.

With its turn a process follows what others have committed since its last one. When there was
nothing, that costs one look at a number. It also looks whether one of them has moved the store: who
does so has the turn until that is written down, so that nobody writes here afterwards.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import Final

import apsw

from bendybus.store.sql.failures import Elsewhere
from bendybus.store.sqlite.data_folder import url_file_of
from bendybus.store.sqlite.database import (
    Pacing,
    SqliteDatabase,
    check_ownership,
    make_ready,
    opened_file,
    set_modes,
)
from bendybus.store.sqlite.notes import MOVER, are_notes_left, drop_notes
from bendybus.store.sqlite.shared_seen import SharedSeenIndex
from bendybus.store.sqlite.users import FileTurn, Users, pause, side_folder

# How long somebody queues up behind another.
QUEUED_SECONDS_MAX: Final = 0.1
# How often ids are forgotten that others took out of the log.
FORGOTTEN_EVERY_SECONDS: Final = 10.0
_MOVED: Final = "the store was moved, and is about to be opened at its new place"


class _Meeting:
    """What those who share a file hold in the folder beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        folder = side_folder(path)
        with ExitStack() as made:
            self.users = made.enter_context(closing(Users(folder)))
            self.queue = made.enter_context(closing(FileTurn(folder / "queue")))
            self.caretaker = made.enter_context(closing(FileTurn(folder / "caretaker")))
            self.mover = made.enter_context(closing(FileTurn(folder / MOVER)))
            self._made = made.pop_all()

    def close(self) -> None:
        """Give all of it up."""
        self._made.close()


class SharedSqliteDatabase(SqliteDatabase):
    """One of several processes' open file."""

    seen: SharedSeenIndex

    def __init__(self, connection: apsw.Connection, pacing: Pacing, meeting: _Meeting) -> None:
        self._meeting = meeting
        self._url_file = str(url_file_of(meeting.path))
        self._users = meeting.users
        self._queue = meeting.queue
        self._busy_seconds = pacing.busy_timeout_ms / 1000
        self._busy_until = 0.0
        self._forgotten_at = monotonic()
        # Whether closing in haste has another reason than the disk.
        self._is_disk_blameless = False
        self.attend_seconds = pacing.attend_seconds
        connection.set_busy_handler(self._wait)
        self._data_version = 0
        super().__init__(connection, pacing, is_shared=True)
        self.attend()

    def load(self) -> None:
        """Read what is known of the file while it is open."""
        # First, so that what comes meanwhile is followed.
        self._data_version = self._version_of_data()
        self.generation = self._generation_there()
        self.load_queues()
        self.note_packs()
        self.seen = SharedSeenIndex(self)
        self.seen.follow()

    def begin(self, *, is_synced: bool) -> None:
        """Wait for the turn, start a commit, and follow what others did."""
        self._is_disk_blameless = False
        self._check_users()
        self._set_synced(is_synced=is_synced)
        is_queued = self._queue.take(within_seconds=QUEUED_SECONDS_MAX)
        try:
            self.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            self._is_disk_blameless = True
            raise
        finally:
            if is_queued:
                self._queue.give()
        if os.access(self._url_file, os.F_OK):
            self.execute("ROLLBACK")
            raise Elsewhere(_MOVED)
        self._follow()
        self.begin_work()

    def begin_one(self, *, is_synced: bool) -> None:
        """Begin at once: between a look and the commit another may write."""
        self.begin(is_synced=is_synced)

    def commit(self) -> None:
        """Commit; what is on a disk that failed meanwhile nobody can say."""
        generation = self.generation
        if self._is_catalog_changed and self.connection.in_transaction:
            self.run("raise_generation")
            # Read before the commit: afterwards another's may be there, which was not followed yet.
            generation = self._generation_there()
        super().commit()
        self._check_users()
        self.generation, self._is_catalog_changed = generation, False

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Have the turn, so that none of the others writes."""
        self.begin(is_synced=False)
        try:
            yield
        finally:
            self.undo()

    def undo(self) -> None:
        """Undo the commit that was begun, unless its turn never came."""
        if self.connection.in_transaction:
            super().undo()

    def attend(self) -> bool:
        """Follow the others; take the place of who looked after the store if that one is gone."""
        self._check_users()
        is_new = not self.is_caretaker and self._meeting.caretaker.take()
        if is_new or self._version_of_data() != self._data_version:
            self.begin(is_synced=False)
            if is_new:
                self.end_holds()
                self.note_litter()
            self.commit()
            self.is_caretaker = self.is_caretaker or is_new
        if self.is_caretaker and are_notes_left(self.connection):
            self._drop_notes_of_nobody()
        if monotonic() - self._forgotten_at > FORGOTTEN_EVERY_SECONDS:
            self._forgotten_at = monotonic()
            self.seen.forget_gone()
        return is_new

    def _drop_notes_of_nobody(self) -> None:
        """Remove the notes of somebody who moved the store, and ended in the middle."""
        if not self._meeting.mover.take():
            return
        try:
            self.begin(is_synced=False)
            drop_notes(self.connection)
            self.commit()
        finally:
            self._meeting.mover.give()

    def close(self) -> None:
        """Close; the last of all writes the log back."""
        try:
            super().close()
        finally:
            self._leave()

    def abandon(self) -> None:
        """Close after a failure; if it was the disk's, all others must let go as well."""
        if not self._is_disk_blameless:
            self._users.note_failing()
        try:
            super().abandon()
        finally:
            self._leave()

    def _leave(self) -> None:
        self.is_caretaker = False
        self._meeting.close()

    def _check_users(self) -> None:
        if self._users.must_let_go:
            self._is_disk_blameless = True
            raise apsw.IOError("another process found the disk failing")

    def _follow(self) -> None:
        """Learn what others have committed since."""
        version = self._version_of_data()
        if version == self._data_version:
            return
        self._data_version = version
        known = self.seen.last
        found = self.row("what_others_did", (known[0],))
        assert found is not None, "a row of values, always"
        generation, *last_seen = found
        if tuple(last_seen) != known:
            self.seen.follow()
        if generation != self.generation:
            try:
                self.load_queues()
            except (KeyError, TypeError):
                raise apsw.CorruptError("the list of queues is damaged") from None
            self.generation = generation

    def _version_of_data(self) -> int:
        [(version,)] = self.execute("PRAGMA data_version")
        return int(version)

    def _generation_there(self) -> int:
        found = self.row("what_others_did", (0,))
        assert found is not None, "a row of values, always"
        return int(found[0])

    def _wait(self, tries: int) -> bool:
        """Pause, when another writes; say whether to try again."""
        now = monotonic()
        if tries == 0:
            self._busy_until = now + self._busy_seconds
        elif now >= self._busy_until:
            return False
        pause(tries)
        return True


def open_shared(path: Path, pacing: Pacing, *, vfs: str | None = None) -> SharedSqliteDatabase:
    """Open or create the store in the file, beside others who have it open.

    The first to come is alone, and makes it ready for all. Raises as `open_database` does, and
    `OthersInTheWay`.
    """
    if url_file_of(path).exists():
        raise Elsewhere(_MOVED)
    meeting = _Meeting(path)
    users = meeting.users
    try:
        if users.be_alone():
            with opened_file(path, pacing, vfs=vfs) as connection:
                make_ready(connection, path, vfs=vfs)
                connection.close()
            users.note_mended()
        users.join(within_seconds=pacing.busy_timeout_ms / 1000)
        with opened_file(path, pacing, vfs=vfs) as connection:
            check_ownership(connection, path)
            set_modes(connection, path)
            return SharedSqliteDatabase(connection, pacing, meeting)
    except BaseException:
        meeting.close()
        raise
