"""Makes rows of what is kept folded, for whoever reads a queue's messages: see `runs`, `packs`."""

from collections.abc import Iterable

from bendybus.model.ids import Instant
from bendybus.store.sql import packs, runs
from bendybus.store.sql.database import SqlDatabase


def unfold_oldest(database: SqlDatabase, queue: int, count_max: int, now: Instant) -> None:
    """Make rows for a reader of so many of the oldest messages."""
    runs.unfold_oldest(database, queue, count_max, now)
    packs.unfold_oldest(database, queue, count_max, now)


def unfold_from(database: SqlDatabase, queue: int, row: int, count_max: int) -> None:
    """Make rows for a reader of so many messages from a row on."""
    runs.unfold_from(database, queue, row, count_max)
    packs.unfold_from(database, queue, row, count_max)


def unfold_around(database: SqlDatabase, queue: int, rows: Iterable[int]) -> None:
    """Make rows for a reader of some messages."""
    rows = list(rows)
    runs.unfold_around(database, queue, rows)
    packs.unfold_around(database, queue, rows)


def unfold_expired(database: SqlDatabase, now: Instant) -> None:
    """Make rows of some messages whose time to live has ended, so that they are found to be due."""
    runs.unfold_expired(database, now)
    packs.unfold_expired(database, now)
