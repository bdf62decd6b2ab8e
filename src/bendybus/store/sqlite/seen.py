"""Duplicate detection: which messages are new, and which ids may be forgotten."""

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

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
    known = database.seen.of(queue)
    digests = [digest_of(message) for message in messages]
    before: dict[bytes, int | None] = dict.fromkeys([each for each in digests if each is not None])
    if len(before) == len(digests) and known.keys().isdisjoint(before):
        # Mostly: all have an id, each another one, and none of these was ever seen.
        new: Sequence[int] = range(len(messages))
        known.update(dict.fromkeys(before, now))
    else:
        new, before = _new_among_known(known, digests, since, now)
    if before:
        database.seen.note(queue, before)
        database.run("log_seen", (queue, now, b"".join(before)))
    return new


def _new_among_known(
    known: dict[bytes, int], digests: Sequence[bytes | None], since: Instant, now: Instant
) -> tuple[list[int], dict[bytes, int | None]]:
    """Look at each by itself; return which are new, and what is to be known of their ids before."""
    before: dict[bytes, int | None] = {}
    new: list[int] = []
    for at, digest in enumerate(digests):
        if digest is not None:
            seen_at = known.get(digest)
            if seen_at is not None and seen_at > since:
                continue
            before[digest] = seen_at
            known[digest] = now
        new.append(at)
    return new, before


def forget(database: Database, operation: ForgetSeen, now: Instant) -> int:
    """Forget old ids; return when the oldest that is left was seen."""
    del now  # How old is too old is the caller's to say.
    queue, until = operation.queue, operation.seen_until
    limits = (FORGOTTEN_ROWS_MAX, FORGOTTEN_IDS_MAX * DIGEST_SIZE)
    found = database.row("oldest_seen", (queue, until, *limits))
    assert found is not None, "an aggregate always has one row"
    rows: list[int] = json.loads(found[0])
    if rows:
        _unindex(database, queue, split(found[1]), until)
        database.run("unlog_seen", (ids_array(rows),))
    oldest = database.row("first_seen", (queue,))
    assert oldest is not None, "an aggregate always has one row"
    seen_at: int = oldest[0]
    return seen_at


def _unindex(database: Database, queue: int, digests: Sequence[bytes], until: Instant) -> None:
    """Take ids out of the index, unless they were seen again later."""
    known = database.seen.of(queue)
    old = {digest: known[digest] for digest in digests if known.get(digest, until + 1) <= until}
    database.seen.note(queue, old)
    for digest in old:
        del known[digest]


def digest_of(message: Message) -> bytes | None:
    """Return what stands for the message's id together with its key, if it has an id."""
    if not message.message_id:
        return None
    key = key_of(message, has_duplicate_detection=False)
    # The length tells where the one ends; no key is told from an empty one.
    head = "-" if key is None else f"{len(key)}:{key}"
    whole = (head + message.message_id).encode("utf-8", "surrogatepass")
    return blake2b(whole, digest_size=DIGEST_SIZE).digest()
