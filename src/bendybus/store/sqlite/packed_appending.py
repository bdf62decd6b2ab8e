"""Appends messages that came packed and are alike, without an object for each.

Contents go into their rows out of the bytes in which they came, in one step: a number for each says
where it begins and how long it is.
"""

from array import array
from collections.abc import Iterator
from itertools import accumulate
from zlib import crc32

import apsw

from bendybus.model.ids import Instant
from bendybus.model.packed_messages import PackedMessages
from bendybus.store.checksum import seed_with_fields
from bendybus.store.sqlite.database import Database

# A place is where a content begins, and, in the lower bits, its size.
_SIZE_BITS = 32


def insert_packed(
    database: Database, queue: int, messages: PackedMessages, first: int, now: Instant
) -> None:
    """Write rows of messages, at least one, from the first on."""
    ends = list(accumulate(messages.sizes, initial=0))
    places = apsw.carray(
        array(
            "q",
            [start << _SIZE_BITS | size for start, size in zip(ends, messages.sizes, strict=False)],
        )
    )
    whole = memoryview(messages.contents)
    seeds = _seeds(messages, first, now)
    checksums = array(
        "I",
        [
            crc32(whole[start:end], seed)
            for start, end, seed in zip(ends, ends[1:], seeds, strict=False)
        ],
    )
    database.run("append_packed_bodies", (first, places, messages.contents, checksums.tobytes()))
    row = (first, queue, now, messages.expires_at, database.by_session(queue))
    keys = messages.session_ids or messages.partition_keys
    if keys is None:
        database.run("append_packed", (*row, places))
        return
    has_session, has_key = messages.session_ids is not None, messages.partition_keys is not None
    database.run("append_packed_keyed", (*row, apsw.carray(tuple(keys)), has_session, has_key))


def _seeds(messages: PackedMessages, first: int, now: Instant) -> Iterator[int]:
    """Yield the seed of each checksum, as `appending` makes it."""
    rows = range(first, first + len(messages))
    seeds = ((both := row ^ now) ^ both >> 32 for row in rows)
    if messages.session_ids is None and messages.partition_keys is None:
        return seeds
    nothing = (None,) * len(messages)
    sessions, keys = messages.session_ids or nothing, messages.partition_keys or nothing
    return map(seed_with_fields, seeds, sessions, keys)
