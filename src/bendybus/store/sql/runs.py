"""Messages that nobody has looked at yet, many in one row.

Most subscriptions take what is published as it comes: message after message, contents one behind
the other, all enqueued together. Such a run is kept as one row, and becomes rows of messages when
somebody first asks for what is in its place. Sending to a topic then costs little more than
sending to a queue, and what is never read takes hardly any room.

Whoever reads a queue's messages calls one of the functions here first.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from zlib_ng.zlib_ng import crc32

from bendybus.model.ids import Instant
from bendybus.store.sql.database import COUNTER_BITS_HERE, SqlDatabase, rows_of_queue

# Shorter ones are not worth it. Longer ones are cut, so that a look at one message is cheap.
RUN_LENGTH_MIN: Final = 4
RUN_LENGTH_MAX: Final = 250
# How many are unfolded in one turn because their time to live has ended.
EXPIRED_RUNS_MAX: Final = 4

_log = logging.getLogger(__name__)


class Run(NamedTuple):
    """Rows of messages from the first on, each with the body that is as far behind the first."""

    first: int
    length: int
    body: int
    enqueued_at: int
    expires_at: int | None

    @property
    def checksum(self) -> int:
        """What must be stored beside it, so that a changed byte of the row is noticed."""
        return crc32(repr(tuple(self)).encode())


def cut(first: int, count: int, body: int) -> Iterator[tuple[int, int, int]]:
    """Cut a run of messages into pieces that are not too long."""
    for at in range(0, count, RUN_LENGTH_MAX):
        yield first + at, min(RUN_LENGTH_MAX, count - at), body + at


def keep(database: SqlDatabase, runs: Sequence[Run]) -> None:
    """Write runs, at least one."""
    database.run("keep_runs", (json.dumps([(*run, run.checksum) for run in runs]),))
    database.queues_with_runs.update(run.first >> COUNTER_BITS_HERE for run in runs)


def unfold_oldest(database: SqlDatabase, queue: int, count_max: int, now: Instant) -> None:
    """Make rows of the oldest runs of a queue, as many as a reader of so many messages needs.

    What has expired by `now` is not what it needs, and does not count.
    """
    if count_max > 0 and queue in database.queues_with_runs:
        first, end = rows_of_queue(queue)
        if not _unfold(database, "oldest_runs", (first, end, count_max, now)):
            database.note_no_runs(queue)


def unfold_from(database: SqlDatabase, queue: int, row: int, count_max: int) -> None:
    """Make rows of the runs that a reader of so many messages from a row on comes across."""
    if queue in database.queues_with_runs:
        first, end = rows_of_queue(queue)
        # A run that began before the row may reach beyond it.
        start = max(first, row - RUN_LENGTH_MAX)
        _unfold(database, "oldest_runs", (start, end, count_max + RUN_LENGTH_MAX, 0))


def unfold_around(database: SqlDatabase, queue: int, rows: Iterable[int]) -> None:
    """Make rows of the runs that some rows are in."""
    if queue in database.queues_with_runs:
        _unfold(database, "runs_around", (database.array(rows),))


def unfold_expired(database: SqlDatabase, now: Instant) -> None:
    """Make rows of some runs whose time to live has ended, so that they are found to be due."""
    if database.queues_with_runs:
        _unfold(database, "expired_runs", (now, EXPIRED_RUNS_MAX))


def _unfold(database: SqlDatabase, find: str, bindings: tuple[object, ...]) -> bool:
    """Make rows of the runs found; say whether there were any."""
    found = database.row(find, bindings)
    assert found is not None, "an aggregate always has one row"
    # The same run may be found for several of its messages.
    runs = {Run(*row[:-1]): row[-1] for row in json.loads(found[0])}
    good = [run.first for run, checksum in runs.items() if run.checksum == checksum]
    if len(good) != len(runs):
        _set_aside(database, {run.first for run in runs} - set(good))
        return _unfold(database, find, bindings)
    if good:
        database.run("unfold_runs", (database.array(good), COUNTER_BITS_HERE))
        database.run("forget_runs", (database.array(good),))
    return bool(runs)


def _set_aside(database: SqlDatabase, damaged: set[int]) -> None:
    """Never look at damaged runs again. Their messages are still counted, as they take room."""
    database.run("set_aside_runs", (database.array(damaged),))
    for first in damaged:
        queue = first >> COUNTER_BITS_HERE
        _log.error("a run of messages is damaged on disk, set aside: queue=%d row=%d", queue, first)
