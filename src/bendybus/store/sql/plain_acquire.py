"""acquire, for messages with nothing but a content, and a session perhaps: the many.

The careful way (`reading`) makes a row of eleven values for every message. Here the values come in
columns, one JSON array each, and become messages without a line of Python per value. Whatever is
out of the ordinary (fields, marks, damage, more bytes than asked for) is left to the careful way,
untouched.
"""

import json
from functools import partial
from itertools import repeat
from typing import Final

from zlib_ng.zlib_ng import crc32

from bendybus.model.ids import Instant
from bendybus.model.message import MessageState, StoredMessage
from bendybus.store.checksum import CHECKSUM_SIZE, RESIDUE, encoded_fields
from bendybus.store.port import Acquire
from bendybus.store.sql.database import SqlDatabase
from bendybus.store.sql.session_locks import give_out

# A tuple's own constructor, past the one that a named tuple wraps around it.
_make_message: Final = partial(tuple.__new__, StoredMessage)


def acquire_plain(
    database: SqlDatabase, request: Acquire, delivered_until: int, now: Instant
) -> list[StoredMessage] | None:
    """Lock the oldest free messages if all of them are plain; None if not, and nothing is done.

    `delivered_until` is the row up to which those of the session were given out, if there is one.
    """
    offset = database.offset(request.queue)
    session_id, fields = request.session_id, b""
    bindings = (request.queue, now, request.count_max)
    if session_id is None:
        found = database.row("find_free_plain", bindings)
    else:
        bindings_there = (*bindings, session_id, request.nonce, delivered_until)
        found = database.row("find_free_plain_in_session", bindings_there)
        fields = encoded_fields(session_id, None)
    assert found is not None, "an aggregate always has one row"
    ids_text, enqueued_text, counts_text, bodies_text, size, field_count = found
    if field_count or size > request.bytes_max:
        return None
    ids: list[int] = json.loads(ids_text)
    if not ids:
        return []
    enqueued: list[int] = json.loads(enqueued_text)
    bodies: list[int] = json.loads(bodies_text)
    contents = _intact_contents(database, bodies, enqueued, fields)
    if contents is None:
        return None
    locked_until, nonce = request.locked_until, request.nonce
    if session_id is None:
        database.run("lock_messages", (database.array(ids), locked_until, nonce))
    else:
        give_out(database, ids, delivered_until, nonce)
    columns = zip(
        [row_id - offset for row_id in ids],
        enqueued,
        json.loads(counts_text),
        contents,
        repeat(None),
        repeat(session_id),
        repeat(None),
        repeat(None),
        repeat(int(MessageState.ACTIVE)),
        repeat(locked_until),
        repeat(nonce),
        repeat(None) if bodies == ids else map(database.sequence_of, bodies),
        # The repeats have no end.
        strict=False,
    )
    return list(map(_make_message, columns))


def _intact_contents(
    database: SqlDatabase, bodies: list[int], enqueued: list[int], fields: bytes
) -> list[bytes] | None:
    """Return the contents, or None if there is anything wrong with any.

    `fields` are what the checksums of all cover beside the content, if anything.
    """
    try:
        found = database.row("read_bodies", (database.array(bodies),))
    except database.corrupt:
        return None
    assert found is not None, "an aggregate always has one row"
    lengths: list[int] = json.loads(found[0])
    if len(lengths) != len(bodies) or None in lengths:
        return None
    together: bytes = found[1] or b""
    contents: list[bytes] = []
    at = 0
    for body, enqueued_at, length in zip(bodies, enqueued, lengths, strict=True):
        end = at + length
        # `seed_of` and `is_intact`, in line: this runs for every message received.
        both = body ^ enqueued_at
        seed = both ^ both >> 32
        if fields:
            seed = crc32(fields, seed)
        if crc32(together[at:end], seed) != RESIDUE:
            return None
        contents.append(together[at : end - CHECKSUM_SIZE])
        at = end
    return contents
