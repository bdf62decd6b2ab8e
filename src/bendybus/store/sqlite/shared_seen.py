"""The ids that duplicate detection looks up, where several processes write the store's log of them.

Each has all of them in memory. Who has its turn reads what others have logged since: rows of the
log behind the last one it knows. Rows go from the beginning of the log, and when all are gone their
numbers begin anew; so the last row must still be what it was, else all is read again.
"""

from collections.abc import Iterable
from typing import Any

from bendybus.store.sql.database import SqlDatabase
from bendybus.store.sqlite.seen_index import SeenIndex, split

# A row of the log: its number, queue, time and digests.
_LogRow = tuple[int, int, int, bytes]


class SharedSeenIndex(SeenIndex):
    """See `SeenIds`."""

    def __init__(self, database: SqlDatabase) -> None:
        super().__init__(database, self._log_as)
        self._last: _LogRow | None = None
        # The last row as it was before the work that may be undone.
        self._last_before: _LogRow | None = None

    @property
    def last(self) -> tuple[int, int]:
        """The number of the last row of the log that is known, and of when it is."""
        return (0, 0) if self._last is None else (self._last[0], self._last[2])

    def follow(self) -> None:
        """Read what others have logged."""
        found = self._database.rows("logged_from", (self.last[0],))
        if self._last is not None:
            if not found or found[0] != self._last:
                self._queues.clear()
                found = self._database.rows("logged_from", (0,))
            else:
                del found[0]
        self._note_logged(found)
        self._last_before = self._last

    def forget_gone(self) -> None:
        """Forget the ids whose rows others have taken out of the log."""
        for queue, known in self._queues.items():
            oldest = self._database.row("first_seen", (queue,))
            assert oldest is not None, "an aggregate always has one row"
            gone = []
            # They lie in the order in which they were seen, but for those seen again later.
            for digest, seen_at in known.items():
                if oldest[0] and seen_at >= oldest[0]:
                    break
                gone.append(digest)
            for digest in gone:
                del known[digest]

    def settle(self) -> None:
        """Note that what was done so far can no longer be undone alone."""
        super().settle()
        self._last_before = self._last

    def undo(self) -> None:
        """Undo what was done since it was last settled."""
        super().undo()
        self._last = self._last_before

    def _log_as(self, queue: int, seen_at: int, digests: bytes) -> None:
        row = self._database.row("log_seen_as", (queue, seen_at, digests))
        assert row is not None, "its number"
        self._last = (row[0], queue, seen_at, digests)

    def _note_logged(self, log: Iterable[tuple[Any, ...]]) -> None:
        for number, queue, seen_at, digests in log:
            self.of(queue).update(dict.fromkeys(split(digests), seen_at))
            self._last = (number, queue, seen_at, digests)
