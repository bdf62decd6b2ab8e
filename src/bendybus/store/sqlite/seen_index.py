"""The ids that duplicate detection looks up: in memory, made of the store's log when it opens.

On disk an index of digests, which come in no order, would cost a changed page for every message;
even one in SQLite's memory took longer than all the rest of a send. What a commit or one of its
callers has added is taken back when that is rolled back.
"""

from collections.abc import Mapping
from typing import Final

import apsw

from bendybus.store.sqlite.statements import STATEMENTS

# 96 bits: that two of a thousand million ids are taken for one is less likely than that the disk
# loses both. Twelve bytes are also what fits into the smallest object that Python makes for them.
DIGEST_SIZE: Final = 12


class SeenIndex:
    """Of every queue the digests of ids, and when each was first seen."""

    def __init__(self) -> None:
        self._queues: dict[int, dict[bytes, int]] = {}
        # What to write back if the work under way is undone: None for what was not there.
        self._before: list[tuple[int, Mapping[bytes, int | None]]] = []

    def load(self, connection: apsw.Connection) -> None:
        """Read the log."""
        for queue, seen_at, digests in connection.execute(STATEMENTS["logged_ids"]):
            self.of(queue).update(dict.fromkeys(split(digests), seen_at))

    def of(self, queue: int) -> dict[bytes, int]:
        """Return the ids of one queue. Who changes them calls `note`."""
        return self._queues.setdefault(queue, {})

    def note(self, queue: int, before: Mapping[bytes, int | None]) -> None:
        """Note what ids were before a change, in case that it is undone."""
        self._before.append((queue, before))

    def settle(self) -> None:
        """Note that what was done so far can no longer be undone alone."""
        self._before.clear()

    def undo(self) -> None:
        """Undo what was done since it was last settled."""
        for queue, before in reversed(self._before):
            known = self.of(queue)
            for digest, seen_at in before.items():
                if seen_at is None:
                    del known[digest]
                else:
                    known[digest] = seen_at
        self._before.clear()


def split(digests: bytes) -> tuple[bytes, ...]:
    """Take apart what was joined."""
    return tuple([digests[at : at + DIGEST_SIZE] for at in range(0, len(digests), DIGEST_SIZE)])
