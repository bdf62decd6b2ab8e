"""Readers: who may use one, how far it has come, what it has reserved."""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from bendybus.model.errors import QuotaExceeded, ReaderInUse, ReaderLost
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.operations import CloseReader, OpenReader, ReaderPlace
from bendybus.store.readers import ReaderRecord, Reservation
from bendybus.store.sql.database import SqlDatabase

# That a reader is active is written no more often than this.
NOTED_EVERY_MS: Final = 5000
ALL: Final = 1 << 62


class ReaderKey(NamedTuple):
    """Names a reader of a queue, and proves the right to use it."""

    queue: QueueNumber
    name: str
    token: str


def open_reader(database: SqlDatabase, operation: OpenReader, now: Instant) -> ReaderPlace:
    """Give a reader to whoever has the token."""
    queue, name = operation.queue, operation.reader
    database.offset(queue)
    found = database.row("find_reader", (queue, name))
    place, opened_at = ReaderPlace(0, 0), operation.opened_at
    if found is None:
        row = database.row("count_readers", (queue,))
        assert row is not None, "an aggregate always has one row"
        if row[0] >= operation.readers_max:
            raise QuotaExceeded(
                f"The entity has {row[0]} readers already; release those that are not used."
            )
    else:
        token, position, committed, opened_before, active_at = found
        if token != operation.token:
            _check_free(operation, opened_before, active_at, now)
            # Also if the clock went back: of two openings the later one counts.
            opened_at = max(opened_at, Instant(opened_before + 1))
        place = ReaderPlace(position, committed)
    database.run("open_reader", (queue, name, operation.token, opened_at, now))
    return place


def _check_free(operation: OpenReader, opened_at: int, active_at: int, now: Instant) -> None:
    """Refuse to take a reader from somebody who uses it, or who opened it later."""
    if operation.idle_since is None:
        if opened_at > operation.opened_at:
            raise ReaderLost.taken_over(operation.reader)
    elif active_at > operation.idle_since:
        raise ReaderInUse.named(operation.reader, max(now - active_at, 0) // 1000)


def close_reader(database: SqlDatabase, operation: CloseReader, now: Instant) -> ReaderPlace:
    """Let anybody open a reader."""
    key = ReaderKey(operation.queue, operation.reader, operation.token)
    place = held_place(database, key, now)
    database.run("note_active", (key.queue, key.name, 0))
    return place


def held_place(database: SqlDatabase, key: ReaderKey, now: Instant) -> ReaderPlace:
    """Return how far a reader has come, and note that it is active. Raises `ReaderLost`."""
    queue, name, token = key
    database.offset(queue)
    found = database.row("find_reader", (queue, name))
    if found is None:
        raise ReaderLost.unknown(name)
    present, position, committed, _, active_at = found
    if present != token:
        raise ReaderLost.taken_over(name)
    if now - active_at >= NOTED_EVERY_MS:
        database.run("note_active", (queue, name, now))
    return ReaderPlace(position, committed)


def check_within(key: ReaderKey, place: ReaderPlace, position: int) -> None:
    """Refuse a position that the reader is done with, or never came to."""
    if not place.committed <= position <= place.position:
        raise ReaderLost.elsewhere(key.name, position, place.committed, place.position)


def reservations(
    database: SqlDatabase, key: tuple[QueueNumber, str, str], after: int, until: int, now: Instant
) -> list[Reservation]:
    """Return a reader's reservations within positions. Raises `ReaderLost`."""
    reader = ReaderKey(*key)
    place = held_place(database, reader, now)
    check_within(reader, place, after)
    check_within(reader, place, until)
    return find_reservations(database, reader, after, until, ALL)


def find_reservations(
    database: SqlDatabase, key: ReaderKey, after: int, until: int, count_max: int
) -> list[Reservation]:
    """Return the first of a reader's reservations within positions."""
    found = database.row("reservations", (key.queue, key.name, after, until, count_max))
    assert found is not None, "an aggregate always has one row"
    return [Reservation(*row) for row in json.loads(found[0])]


def records(database: SqlDatabase, queues: Sequence[QueueNumber] | None) -> list[ReaderRecord]:
    """Return the readers of queues, or all that are here."""
    numbers = database.queue_numbers if queues is None else queues
    if not numbers:
        return []
    row = database.row("readers", (database.array(numbers),))
    assert row is not None, "an aggregate always has one row"
    return [ReaderRecord(*fields) for fields in json.loads(row[0])]
