"""Appends messages that came packed and are alike, without an object for each.

Contents go into their rows out of the bytes in which they came, in one step: a number for each says
where it begins and how long it is.
"""

import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate

from zlib_ng.zlib_ng import crc32

from bendybus.model.ids import Instant
from bendybus.model.packed_messages import PackedMessages
from bendybus.store.checksum import seed_with_fields
from bendybus.store.sql.database import SqlDatabase

# The halves of a place, which is where a content begins and, in the lower bits, its size.
_SIZE, _START = (0, 1) if sys.byteorder == "little" else (1, 0)


def insert_packed(
    database: SqlDatabase, queue: int, messages: PackedMessages, first: int, now: Instant
) -> None:
    """Write rows of messages, at least one, from the first on."""
    ends = list(accumulate(messages.sizes, initial=0))
    places = database.array(_places(messages, ends))
    checksums = array("I", _checksums(messages, ends, first, now)).tobytes()
    database.run("append_packed_bodies", (first, places, messages.contents, checksums))
    row = (first, queue, now, messages.expires_at, database.by_session(queue))
    keys = messages.session_ids or messages.partition_keys
    if keys is None:
        database.run("append_packed", (*row, places))
        return
    has_session, has_key = messages.session_ids is not None, messages.partition_keys is not None
    database.run("append_packed_keyed", (*row, database.texts(keys), has_session, has_key))


def _places(messages: PackedMessages, ends: Sequence[int]) -> "array[int]":
    """Return of each content where it is, in one number."""
    halves = array("I", bytes(8 * len(messages)))
    halves[_SIZE::2] = messages.sizes
    halves[_START::2] = array("I", ends[:-1])
    places = array("q")
    places.frombytes(halves.tobytes())
    return places


def _checksums(
    messages: PackedMessages, ends: Sequence[int], first: int, now: Instant
) -> list[int]:
    """Return the checksum of each content, from the seed that `appending` would make."""
    whole = memoryview(messages.contents)
    rows = range(first, first + len(messages))
    sessions, keys = messages.session_ids, messages.partition_keys
    if sessions is None and keys is None:
        # By hand, because calls would double what this costs.
        return [
            crc32(whole[start:end], (both := row ^ now) ^ both >> 32)
            for start, end, row in zip(ends, ends[1:], rows, strict=False)
        ]
    nothing = (None,) * len(messages)
    seeds = [(both := row ^ now) ^ both >> 32 for row in rows]
    seeds = list(map(seed_with_fields, seeds, sessions or nothing, keys or nothing))
    return [
        crc32(whole[start:end], seed)
        for start, end, seed in zip(ends, ends[1:], seeds, strict=False)
    ]
