"""Duplicate detection: which messages are new, and which ids may be forgotten."""

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import apsw

from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.operations import ForgetSeen
from bendybus.model.partitioning import key_of
from bendybus.store.sqlite.database import Database, ids_array
from bendybus.store.sqlite.seen_index import DIGEST_SIZE, split

# What is forgotten in one turn: rows of the log, and about so many ids.
FORGOTTEN_ROWS_MAX: Final = 500
FORGOTTEN_IDS_MAX: Final = 2000


def new_messages(
    database: Database, queue: int, messages: Sequence[Message], since: Instant, now: Instant
) -> Sequence[int]:
    """Return the indexes of messages whose id was not seen after an instant, and remember it.

    Of several with the same id the first is new. One without an id is never a duplicate.
    """
    digests = [digest_of(message) for message in messages]
    wanted = {digest: None for digest in digests if digest is not None}
    if not wanted:
        return range(len(messages))
    if not _index_if_new(database, queue, tuple(wanted), since, now):
        for digest in _known(database, queue, tuple(wanted), since):
            del wanted[digest]
        if wanted:
            _index_if_new(database, queue, tuple(wanted), since, now)
    if wanted:
        database.run("log_seen", (queue, now, b"".join(wanted)))
    if len(wanted) == len(messages):
        return range(len(messages))
    # Taken out of the dictionary, so that the next of the same id is not found.
    return [
        at
        for at, digest in enumerate(digests)
        if digest is None or wanted.pop(digest, database) is None
    ]


def _index_if_new(
    database: Database, queue: int, digests: tuple[bytes, ...], since: Instant, now: Instant
) -> bool:
    """Add ids to the index if none of them is known: mostly so, and then looked up only once."""
    database.execute("SAVEPOINT seen")
    database.run("index_seen", (queue, apsw.carray(digests), now, since))
    is_new = database.connection.changes() == len(digests)
    if not is_new:
        database.execute("ROLLBACK TO seen")
    database.execute("RELEASE seen")
    return is_new


def _known(
    database: Database, queue: int, digests: tuple[bytes, ...], since: Instant
) -> list[bytes]:
    found = database.row("find_seen", (queue, apsw.carray(digests), since))
    assert found is not None, "an aggregate always has one row"
    return [digests[at] for at in json.loads(found[0])]


def forget(database: Database, operation: ForgetSeen, now: Instant) -> int:
    """Forget old ids; return when the oldest that is left was seen."""
    del now  # How old is too old is the caller's to say.
    queue, until = operation.queue, operation.seen_until
    limits = (FORGOTTEN_ROWS_MAX, FORGOTTEN_IDS_MAX * DIGEST_SIZE)
    found = database.row("oldest_seen", (queue, until, *limits))
    assert found is not None, "an aggregate always has one row"
    rows: list[int] = json.loads(found[0])
    if rows:
        database.run("unindex_seen", (queue, until, apsw.carray(split(found[1]))))
        database.run("unlog_seen", (ids_array(rows),))
    oldest = database.row("first_seen", (queue,))
    assert oldest is not None, "an aggregate always has one row"
    seen_at: int = oldest[0]
    return seen_at


def digest_of(message: Message) -> bytes | None:
    """Return what stands for the message's id together with its key, if it has an id."""
    if not message.message_id:
        return None
    key = key_of(message, has_duplicate_detection=False)
    # The length tells where the one ends; no key is told from an empty one.
    head = "-" if key is None else f"{len(key)}:{key}"
    whole = (head + message.message_id).encode("utf-8", "surrogatepass")
    return blake2b(whole, digest_size=DIGEST_SIZE).digest()
