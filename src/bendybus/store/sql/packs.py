"""Messages that were written in bulk and nobody has looked at yet: a chunk, where it was staged.

When a chunk of columns is published, its messages get their numbers, and one row says which: a
pack. The chunk stays where it is, as columns, so publishing writes next to nothing, and whoever
reads in bulk gets the columns back. It becomes rows of messages when somebody first asks for one.

Only where nobody else writes to the database: others would have to look for packs at every receive.

Whoever reads a queue's messages calls one of the functions of `unfolding` first.
"""

import json
import logging
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from zlib_ng.zlib_ng import crc32

from bendybus.model.ids import Instant
from bendybus.model.packed_messages import PackedMessages, PackedRows
from bendybus.model.staging import PublishChunk
from bendybus.store.checksum import CHECKSUM_SIZE
from bendybus.store.figures import Event
from bendybus.store.sql.appending import take_rows
from bendybus.store.sql.chunks import read_published
from bendybus.store.sql.database import COUNTER_BITS_HERE, SqlDatabase, rows_of_queue
from bendybus.store.sql.packed_appending import insert_packed

# How many are unfolded in one turn because their time to live has ended, or deleted with a queue.
EXPIRED_PACKS_MAX: Final = 1
REMOVED_PACKS_MAX: Final = 4

_log = logging.getLogger(__name__)


class Pack(NamedTuple):
    """Rows of messages from the first on, whose contents are a chunk, or a part of one."""

    first: int
    length: int
    chunk: int
    # Where they begin in the chunk.
    start: int
    # Of all contents with their checksums, as if every message had its row.
    size: int
    enqueued_at: int
    expires_at: int | None

    @property
    def checksum(self) -> int:
        """What must be stored beside it, so that a changed byte of the row is noticed."""
        return crc32(repr(tuple(self)).encode())

    @property
    def end(self) -> int:
        """The first row beyond."""
        return self.first + self.length

    @property
    def queue(self) -> int:
        """The queue that the messages are in."""
        return self.first >> COUNTER_BITS_HERE


class Found(NamedTuple):
    """A pack, and the number of the reservation that has it, if one has."""

    pack: Pack
    reservation: int | None


def publish(database: SqlDatabase, operation: PublishChunk, now: Instant) -> list[int]:
    """Make a chunk part of its queue; return its number if it is not here."""
    queue = operation.queue
    database.offset(queue)
    row = database.row("staged_chunk", (operation.chunk, queue))
    if row is None:
        return [operation.chunk]
    count, content_bytes = row
    first, size = take_rows(database, queue, count, content_bytes, operation.bytes_max)
    pack = Pack(first, count, operation.chunk, 0, size, now, operation.expires_at)
    database.run("keep_pack", (*pack, pack.checksum))
    database.run("publish_chunk", (operation.chunk,))
    database.queues_with_packs.add(queue)
    database.traffic.note(queue, Event.ACCEPTED, count)
    database.traffic.note(queue, Event.ACCEPTED_BYTES, content_bytes)
    return []


def unfold_oldest(database: SqlDatabase, queue: int, count_max: int, now: Instant) -> None:
    """Make rows of the oldest free packs of a queue, as many as a reader of so many needs."""
    pack = oldest_free(database, queue, now) if count_max > 0 else None
    if pack is not None and not are_free_before(database, pack, count_max):
        _unfold(database, "oldest_packs", (*rows_of_queue(queue), count_max, now))


def unfold_from(database: SqlDatabase, queue: int, row: int, count_max: int) -> None:
    """Make rows of the packs that a reader of so many messages from a row on comes across."""
    if queue in database.queues_with_packs:
        _unfold(database, "packs_from", (*rows_of_queue(queue), count_max, row))


def unfold_around(database: SqlDatabase, queue: int, rows: Iterable[int]) -> None:
    """Make rows of the packs that some rows are in."""
    if queue in database.queues_with_packs:
        _unfold(database, "packs_around", (database.array(rows),))


def unfold_expired(database: SqlDatabase, now: Instant) -> None:
    """Make rows of some packs whose time to live has ended, so that they are found to be due."""
    if database.queues_with_packs:
        _unfold(database, "expired_packs", (now, EXPIRED_PACKS_MAX))


def unfold_reserved(database: SqlDatabase, number: int) -> None:
    """Make rows of the pack that a reservation has, if it has one."""
    if database.queues_with_packs:
        _unfold(database, "scan_reserved_pack", (number,))


def unfold_some(database: SqlDatabase) -> bool:
    """Make rows of one pack of the store; say whether there was any."""
    return bool(database.queues_with_packs) and _unfold(database, "any_packs", (1,))


def oldest_free(database: SqlDatabase, queue: int, now: Instant) -> Pack | None:
    """Return the oldest pack of a queue that is nobody's."""
    if queue not in database.queues_with_packs:
        return None
    is_any_damaged, found = True, list[Found]()
    while is_any_damaged:
        found, is_any_damaged = _find(database, "oldest_packs", (*rows_of_queue(queue), 1, now))
    if not found:
        _note_if_none(database, queue)
        return None
    return found[0].pack


def are_free_before(database: SqlDatabase, pack: Pack, count: int) -> bool:
    """Say whether so many free messages that have rows come before a pack."""
    found = database.row("are_free_before", (pack.queue, pack.first, count))
    assert found is not None, "a row of one value, always"
    return bool(found[0])


def begin_of(database: SqlDatabase, pack: Pack, count_max: int, bytes_max: int) -> Pack | None:
    """Make a pack of the beginning of one, as long as it may be, and another of the rest.

    At least one message, and all if they fit. None if it is damaged; it is set aside then.
    """
    if pack.length <= count_max and pack.size <= bytes_max:
        return pack
    rows = _chunk_of(database, pack)
    if rows is None:
        _set_aside(database, pack)
        return None
    sizes = _sizes_of(rows)[pack.start : pack.start + pack.length]
    ends = list(accumulate(size + CHECKSUM_SIZE for size in sizes))
    count = min(max(bisect_right(ends, bytes_max), 1), max(count_max, 1))
    if count >= pack.length:
        return pack
    begin = pack._replace(length=count, size=ends[count - 1])
    rest = Pack(
        pack.first + count,
        pack.length - count,
        pack.chunk,
        pack.start + count,
        pack.size - begin.size,
        pack.enqueued_at,
        pack.expires_at,
    )
    database.run("shorten_pack", (begin.first, begin.length, begin.size, begin.checksum))
    database.run("keep_pack", (*rest, rest.checksum))
    return begin


def reserved(database: SqlDatabase, number: int) -> Pack | None:
    """Return the pack that a reservation has, if it has one."""
    if not database.queues_with_packs:
        return None
    # Also a damaged one: it is done with, or given back, like others.
    found = _read(database, "reserved_packs", (number,))
    return found[0][0].pack if found else None


def reserve(database: SqlDatabase, pack: Pack, number: int | None) -> None:
    """Keep a pack for a reservation, or for nobody any more."""
    database.run("reserve_pack", (pack.first, number))


def remove(database: SqlDatabase, packs: Sequence[Pack]) -> None:
    """Delete packs with their messages, at least one."""
    _forget(database, packs)
    for pack in packs:
        database.run("bytes_down", (database.main(pack.queue), pack.size))
        database.run("count_down", (pack.queue, pack.length))


def remove_some(database: SqlDatabase, queue: int) -> bool:
    """Delete packs of a queue that goes, up to a bound; say whether there was any."""
    if queue not in database.queues_with_packs:
        return False
    found = _read(database, "packs_of", (*rows_of_queue(queue), REMOVED_PACKS_MAX))
    if not found:
        database.queues_with_packs.discard(queue)
        return False
    remove(database, [each.pack for each, _ in found])
    return True


def _note_if_none(database: SqlDatabase, queue: int) -> None:
    """Look for no packs any more where there are none, not even reserved or damaged ones."""
    found = database.row("has_packs", rows_of_queue(queue))
    assert found is not None, "a row of one value, always"
    if not found[0]:
        database.queues_with_packs.discard(queue)


def _unfold(database: SqlDatabase, find: str, bindings: tuple[object, ...]) -> bool:
    """Make rows of the packs found; say whether there were any."""
    is_any = False
    while True:
        found, is_any_damaged = _find(database, find, bindings)
        is_any |= bool(found)
        for each in found:
            is_any_damaged |= not _unfold_pack(database, *each)
        if not is_any_damaged:
            return is_any
        # Others come in the place of those that were set aside.


def _unfold_pack(database: SqlDatabase, pack: Pack, reservation: int | None) -> bool:
    """Make rows of a pack; say whether it was as it was written, and set it aside otherwise."""
    rows = _chunk_of(database, pack)
    if rows is None:
        _set_aside(database, pack)
        return False
    messages = contents_of(rows).between(pack.start, pack.start + pack.length)
    messages.expires_at = None if pack.expires_at is None else Instant(pack.expires_at)
    insert_packed(database, pack.queue, messages, pack.first, Instant(pack.enqueued_at))
    if reservation is not None:
        database.run("reserve_stretch", (pack.first, pack.end, reservation))
    _forget(database, [pack])
    return True


def _chunk_of(database: SqlDatabase, pack: Pack) -> PackedRows | None:
    """Return the chunk that a pack is of; None if it is damaged, or not that one."""
    rows = read_published(database, pack.chunk)
    return None if rows is None or rows.count < pack.start + pack.length else rows


def _find(
    database: SqlDatabase, find: str, bindings: tuple[object, ...]
) -> tuple[list[Found], bool]:
    """Return the packs that a statement finds; set damaged ones aside, and say if any were."""
    good: list[Found] = []
    is_any_damaged = False
    for found, checksum in _read(database, find, bindings):
        if found.pack.checksum == checksum:
            good.append(found)
        else:
            _set_aside(database, found.pack)
            is_any_damaged = True
    return good, is_any_damaged


def _read(
    database: SqlDatabase, find: str, bindings: tuple[object, ...]
) -> list[tuple[Found, int]]:
    row = database.row(find, bindings)
    assert row is not None, "an aggregate always has one row"
    # The same pack may be found for several of its messages.
    return [
        (Found(Pack(*values), reservation), checksum)
        for *values, reservation, checksum in {tuple(each): None for each in json.loads(row[0])}
    ]


def contents_of(rows: PackedRows) -> PackedMessages:
    """Make contents of columns."""
    # Arrow comes with it, which only those need who write in bulk.
    from bendybus.columns.kept_rows import unpacked

    return unpacked(rows)


def _sizes_of(rows: PackedRows) -> list[int]:
    """Say how large contents would be."""
    from bendybus.columns.kept_rows import sizes_of

    sizes: list[int] = sizes_of(rows).tolist()
    return sizes


def _forget(database: SqlDatabase, packs: Sequence[Pack]) -> None:
    database.run("forget_packs", (database.array([pack.first for pack in packs]),))
    database.run("forget_chunks", (database.array([pack.chunk for pack in packs]),))


def _set_aside(database: SqlDatabase, pack: Pack) -> None:
    """Never look at a damaged pack again. Its messages are still counted, as they take room."""
    database.run("set_aside_pack", (pack.first,))
    _log.error(
        "%d messages are damaged on disk, set aside: queue=%d row=%d",
        *(pack.length, pack.queue, pack.first),
    )
