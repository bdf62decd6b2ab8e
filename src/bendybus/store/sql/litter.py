"""Contents whose messages are gone, deleted many at a time.

Messages of one session lie far from each other. Deleting the contents of a few would write a page
for each; those of many sessions share their pages. So what a holder of a session is done with is
only noted, in the same commit, and deleted when there is enough of it, or at the next sweep.
"""

import json
import logging
from array import array
from collections.abc import Sequence
from typing import Final

from bendybus.store.checksum import CHECKSUM_SIZE, is_intact, sealed
from bendybus.store.sql.database import SqlDatabase

# So much makes it worth while, and is what one turn deletes.
LITTER_BODIES_MAX: Final = 4000
LITTER_BYTES_MAX: Final = 4 * 1024 * 1024
# Contents longer than this on average have pages to themselves, and gain nothing.
BODY_BYTES_MAX: Final = 1024

_ID_BYTES: Final = 8
_SEED: Final = 0x11771E5

_log = logging.getLogger(__name__)


def throw_away(database: SqlDatabase, bodies: Sequence[int], size: int) -> None:
    """Note contents, at least one, that nobody holds any more; `size` is how long all are."""
    if size > BODY_BYTES_MAX * len(bodies):
        database.run("remove_bodies", (database.array(bodies),))
        return
    for start in range(0, len(bodies), LITTER_BODIES_MAX):
        ids = array("q", bodies[start : start + LITTER_BODIES_MAX]).tobytes()
        database.run("throw_away", sealed([ids], [_SEED]))
    # How much there is at most: what is undone is counted as well.
    database.litter_bodies += len(bodies)
    database.litter_bytes += size


def is_much(database: SqlDatabase) -> bool:
    """Say whether it is time to delete what was thrown away."""
    return database.litter_bodies >= LITTER_BODIES_MAX or database.litter_bytes >= LITTER_BYTES_MAX


def collect(database: SqlDatabase) -> None:
    """Delete what was thrown away, the oldest first, up to a bound."""
    if not database.litter_bodies:
        return
    found = database.row("oldest_litter", (LITTER_BODIES_MAX * _ID_BYTES,))
    assert found is not None, "an aggregate always has one row"
    rows: list[int] = json.loads(found[0])
    bodies = array("q")
    at = 0
    for length in json.loads(found[1]):
        noted = found[2][at : at + length]
        at += length
        if is_intact(noted, _SEED):
            bodies.frombytes(noted[:-CHECKSUM_SIZE])
        else:
            _log.error("a list of contents to delete is damaged on disk; they stay")
    if bodies:
        database.run("remove_bodies", (database.array(bodies),))
    if rows:
        database.run("forget_litter", (database.array(rows),))
    # There may be more; the next turn finds none.
    database.litter_bodies = max(1, database.litter_bodies - len(bodies)) if rows else 0
    database.litter_bytes = 0
