"""The ids that duplicate detection looks up: in the database, where every front end finds them."""

from collections.abc import Sequence
from typing import Final

from bendybus.model.digests import DIGEST_SIZE
from bendybus.model.ids import Instant
from bendybus.store.sql.database import SqlDatabase
from bendybus.store.sql.seen_ids import SeenIds

# What is forgotten in one turn.
FORGOTTEN_IDS_MAX: Final = 2000


class StoredSeenIds(SeenIds):
    """Nothing is kept here, so there is nothing to undo: the database undoes its rows itself."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    def new_among(
        self, queue: int, digests: Sequence[bytes | None], since: Instant, now: Instant
    ) -> Sequence[int]:
        """See `SeenIds`. What is new is looked up and remembered in one step."""
        # Each once: a statement cannot see what it has just written itself.
        asked = list(dict.fromkeys([each for each in digests if each is not None]))
        if not asked:
            return range(len(digests))
        database = self._database
        found = database.row("note_seen", (queue, database.blobs(asked), now, since))
        assert found is not None, "an aggregate always has one row"
        together: bytes = found[0]
        if len(together) == len(digests) * DIGEST_SIZE:
            return range(len(digests))
        unseen = {together[at : at + DIGEST_SIZE] for at in range(0, len(together), DIGEST_SIZE)}
        new: list[int] = []
        for at, digest in enumerate(digests):
            if digest is not None:
                if digest not in unseen:
                    continue
                unseen.discard(digest)
            new.append(at)
        return new

    def forget(self, queue: int, until: Instant) -> int:
        """See `SeenIds`."""
        database = self._database
        database.run("forget_seen", (queue, until, FORGOTTEN_IDS_MAX))
        oldest = database.row("first_seen", (queue,))
        assert oldest is not None, "a row of one value, always"
        seen_at: int = oldest[0]
        return seen_at

    def settle(self) -> None:
        """See the class."""

    def undo(self) -> None:
        """See the class."""
