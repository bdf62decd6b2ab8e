"""Reads packs as the columns that they are; see `packs`. For scans, which change nothing."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from zlib_ng.zlib_ng import crc32

from bendybus.model.message import MessageState
from bendybus.model.scanned import NO_INSTANT, KeptColumns, Scanned
from bendybus.store.scan import Scan
from bendybus.store.sql.chunks import checksums_of, said_of_columns
from bendybus.store.sql.packs import Found, Pack
from bendybus.store.sql.scanner import Uneven

Numbers = NDArray[np.int64]


def found_packs(text: str) -> list[Found]:
    """Return the packs that a statement has found. Raises `Uneven` for one that is damaged."""
    packs: list[Found] = []
    for *values, reservation, checksum in json.loads(text):
        pack = Pack(*values)
        if pack.checksum != checksum:
            raise Uneven
        packs.append(Found(pack, reservation))
    return packs


def is_chosen(found: Found, request: Scan) -> bool:
    """Say whether a scan may want messages of a pack. None of them has a session."""
    if request.reservation is not None:
        return True
    if request.session_ids is not None:
        return False
    if request.states is not None and _state(found) not in request.states:
        return False
    since, until = request.enqueued_from, request.enqueued_until
    came = found.pack.enqueued_at
    return (since is None or came >= since) and (until is None or came < until)


def _state(found: Found) -> MessageState:
    return MessageState.ACTIVE if found.reservation is None else MessageState.RESERVED


class Bounds(NamedTuple):
    """How many messages, and bytes of them, are still wanted at once."""

    messages: int
    bytes: int

    def has_room_for(self, pack: Pack) -> bool:
        """Say whether all of a pack is wanted."""
        return pack.length <= self.messages and pack.size <= self.bytes

    def stop_of(self, pack: Pack, start: int) -> int:
        """Return up to where a pack is read, from a row on: at least one message."""
        fitting = max(min(self.messages, self.bytes * pack.length // max(pack.size, 1)), 1)
        return min(pack.end, start + fitting)

    def less(self, pack: Pack, count: int) -> "Bounds":
        """Return what is left after so many messages of a pack."""
        return Bounds(self.messages - count, self.bytes - pack.size * count // pack.length)


class PackPart(NamedTuple):
    """Messages of a pack: which rows they are, and their columns."""

    found: Found
    rows: Numbers
    columns: KeptColumns


def part_of(
    row: tuple[Any, ...] | None, found: Found, start: int, stop: int, request: Scan
) -> PackPart:
    """Read some rows of a pack's chunk. Raises `Uneven`."""
    pack = found.pack
    if row is None:
        raise Uneven
    queue, stage, ordinal, count, checksum, fields, beside, bodies = row
    said = said_of_columns((queue, stage, ordinal, count), checksum, fields)
    if said is None or count < pack.start + pack.length:
        raise Uneven
    for part, written in zip((beside, bodies), checksums_of(said), strict=True):
        if part is not None and crc32(part) != written:
            raise Uneven
    # From here to there in the chunk.
    first, last = start - pack.first + pack.start, stop - pack.first + pack.start
    if request.partition_keys is None:
        columns = KeptColumns(beside, bodies, first, stop - start)
        return PackPart(found, np.arange(start, stop), columns)
    # Arrow comes with it, which is there where columns are.
    from bendybus.columns.kept_rows import places_of_keys

    places = places_of_keys(beside, request.partition_keys)
    places = places[(places >= first) & (places < last)]
    columns = KeptColumns(beside, bodies, 0, len(places), places.data)
    return PackPart(found, places - pack.start + pack.first, columns)


def scanned_of(parts: Sequence[PackPart], offset: int, next_sequence: int | None) -> Scanned:
    """Put messages of packs side by side."""
    rows = np.concatenate([part.rows for part in parts]) if parts else np.zeros(0, np.int64)

    def spread(value_of: Callable[[Found], int]) -> memoryview:
        """Say the same of all messages of a pack."""
        values = np.array([value_of(part.found) for part in parts], np.int64)
        return np.repeat(values, [len(part.rows) for part in parts]).data

    return Scanned(
        count=len(rows),
        next_sequence=next_sequence,
        sequences=(rows - offset).data,
        enqueued_at=spread(lambda found: found.pack.enqueued_at),
        delivery_counts=np.zeros(len(rows), np.int64).data,
        states=spread(_state),
        expires_at=spread(_expiry),
        session_ids=None,
        partition_keys=None,
        marks=None,
        contents=None,
        kept=[part.columns for part in parts],
    )


def _expiry(found: Found) -> int:
    return NO_INSTANT if found.pack.expires_at is None else found.pack.expires_at
