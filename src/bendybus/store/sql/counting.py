"""Counts what queues hold, by state, without looking at their messages one by one.

All, scheduled and deferred ones are counted on the queue's row as they come and go; those that are
active are the rest. What is neither scheduled nor deferred is counted nowhere else, so that the
plain traffic has nothing to do with it.
"""

import json
from collections.abc import Sequence
from typing import Final

from bendybus.model.ids import Instant, QueueNumber
from bendybus.store.port import Tally
from bendybus.store.sql.database import COUNTER_BITS_HERE, SqlDatabase

LOCKED_COUNTED_MAX: Final = 20_000
NEVER: Final = (-1, -1)


def tallies(
    database: SqlDatabase, queues: Sequence[QueueNumber] | None
) -> dict[QueueNumber, Tally]:
    """Count what these queues hold, or all that are here."""
    numbers = database.queue_numbers if queues is None else queues
    if not numbers:
        return {}
    row = database.row("tally", (COUNTER_BITS_HERE, database.array(numbers)))
    assert row is not None, "an aggregate always has one row"
    return {
        QueueNumber(number): Tally(
            active, scheduled, deferred, _older(free, unread), size, reserved
        )
        for number, active, scheduled, deferred, free, unread, size, reserved in json.loads(row[0])
    }


def locked(database: SqlDatabase) -> dict[QueueNumber, int]:
    """Count locked messages by queue, up to a bound in all."""
    row = database.row("count_locked", (COUNTER_BITS_HERE, LOCKED_COUNTED_MAX))
    assert row is not None, "an aggregate always has one row"
    return {QueueNumber(queue): count for queue, count in json.loads(row[0])}


def count_in(database: SqlDatabase, queue: int, *, scheduled: int = 0, deferred: int = 0) -> None:
    """Count messages that are now scheduled or deferred, or, below zero, no longer."""
    database.run("count_in", (queue, scheduled, deferred))


def count_out(database: SqlDatabase, queue: int, ids: Sequence[int]) -> None:
    """Count those of the messages no longer that are scheduled or deferred; they will not be."""
    database.run("count_out", (queue, database.array(ids)))


def _older(free: int | None, unread: int | None) -> Instant | None:
    found = [Instant(each) for each in (free, unread) if each is not None]
    return min(found, default=None)


class TallyMemo:
    """Tallies that are right as long as nothing changes, so that nobody has to wait for a thread.

    Written by the lane's thread, read by the loop's; what it holds is replaced as a whole.
    """

    def __init__(self) -> None:
        self._known: tuple[tuple[int, int], dict[QueueNumber, Tally]] = (NEVER, {})

    def find(
        self, queues: Sequence[QueueNumber], stamp: tuple[int, int]
    ) -> dict[QueueNumber, Tally] | None:
        """Return all of them, if they are known as of now: how often opened, how much changed."""
        known_at, known = self._known
        if known_at != stamp:
            return None
        found = {queue: known[queue] for queue in queues if queue in known}
        return found if len(found) == len(queues) else None

    def note(self, tallies: dict[QueueNumber, Tally], stamp: tuple[int, int]) -> None:
        """Remember what was counted."""
        known_at, known = self._known
        self._known = stamp, {**known, **tallies} if known_at == stamp else tallies
