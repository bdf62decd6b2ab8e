"""The ids that duplicate detection looks up: in memory, made of the store's log when it opens.

On disk an index of digests, which come in no order, would cost a changed page for every message;
even one in SQLite's memory took longer than all the rest of a send. What a commit or one of its
callers has added is taken back when that is rolled back.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from bendybus.model.digests import DIGEST_SIZE
from bendybus.model.ids import Instant
from bendybus.store.sql.database import SqlDatabase
from bendybus.store.sql.seen_ids import SeenIds

# What is forgotten in one turn: rows of the log, and about so many ids.
FORGOTTEN_ROWS_MAX: Final = 500
FORGOTTEN_IDS_MAX: Final = 2000


class SeenIndex(SeenIds):
    """See `SeenIds`."""

    def __init__(self, database: SqlDatabase, log: Callable[[int, int, bytes], None]) -> None:
        self._database: Final = database
        # Writes a row of the log: a queue, a time, digests.
        self._log: Final = log
        self._queues: dict[int, dict[bytes, int]] = {}
        # If the work under way is undone: of which queue to take out what, and what to write back.
        self._before: list[tuple[int, Collection[bytes], Mapping[bytes, int]]] = []

    def load(self, log: Iterable[tuple[Any, ...]]) -> None:
        """Read the log, row by row."""
        for queue, seen_at, digests in log:
            self.of(queue).update(dict.fromkeys(split(digests), seen_at))

    def new_among(
        self, queue: int, digests: Sequence[bytes | None], since: Instant, now: Instant
    ) -> Sequence[int]:
        """Return which are new, and remember them."""
        known = self.of(queue)
        fresh: dict[Any, int] = dict.fromkeys(digests, now)
        if None not in fresh and len(fresh) == len(digests) and known.keys().isdisjoint(fresh):
            # Mostly: all have an id, each another one, and none of these was ever seen.
            known.update(fresh)
            self._note(queue, fresh, {}, now)
            return range(len(digests))
        new, before = _new_among_known(known, digests, since, now)
        unseen = [digest for digest, seen_at in before.items() if seen_at is None]
        seen = {digest: at for digest, at in before.items() if at is not None}
        self._note(queue, unseen, seen, now)
        return new

    def _note(
        self, queue: int, unseen: Collection[bytes], seen: Mapping[bytes, int], now: Instant
    ) -> None:
        """Note and log ids that are known now, some of which had been seen long before."""
        if unseen or seen:
            self._before.append((queue, unseen, seen))
            self._log(queue, now, b"".join((*unseen, *seen)))

    def forget(self, queue: int, until: Instant) -> int:
        """Forget rows of the log, and their ids."""
        database = self._database
        limits = (FORGOTTEN_ROWS_MAX, FORGOTTEN_IDS_MAX * DIGEST_SIZE)
        found = database.row("oldest_seen", (queue, until, *limits))
        assert found is not None, "an aggregate always has one row"
        rows: list[int] = json.loads(found[0])
        if rows:
            self._unindex(queue, split(found[1]), until)
            database.run("unlog_seen", (database.array(rows),))
        oldest = database.row("first_seen", (queue,))
        assert oldest is not None, "an aggregate always has one row"
        seen_at: int = oldest[0]
        return seen_at

    def settle(self) -> None:
        """Note that what was done so far can no longer be undone alone."""
        self._before.clear()

    def undo(self) -> None:
        """Undo what was done since it was last settled."""
        for queue, added, before in reversed(self._before):
            known = self.of(queue)
            for digest in added:
                del known[digest]
            known.update(before)
        self._before.clear()

    def of(self, queue: int) -> dict[bytes, int]:
        """Return the ids of one queue. Who changes them notes what they were before."""
        return self._queues.setdefault(queue, {})

    def _unindex(self, queue: int, digests: Sequence[bytes], until: Instant) -> None:
        """Take ids out of the index, unless they were seen again later."""
        known = self.of(queue)
        old = {digest: known[digest] for digest in digests if known.get(digest, until + 1) <= until}
        self._before.append((queue, (), old))
        for digest in old:
            del known[digest]


def _new_among_known(
    known: dict[bytes, int], digests: Sequence[bytes | None], since: Instant, now: Instant
) -> tuple[list[int], dict[bytes, int | None]]:
    """Look at each by itself; return which are new, and what is to be known of their ids before."""
    before: dict[bytes, int | None] = {}
    new: list[int] = []
    for at, digest in enumerate(digests):
        if digest is not None:
            seen_at = known.get(digest)
            if seen_at is not None and seen_at > since:
                continue
            before[digest] = seen_at
            known[digest] = now
        new.append(at)
    return new, before


def split(digests: bytes) -> tuple[bytes, ...]:
    """Take apart what was joined."""
    return tuple([digests[at : at + DIGEST_SIZE] for at in range(0, len(digests), DIGEST_SIZE)])
