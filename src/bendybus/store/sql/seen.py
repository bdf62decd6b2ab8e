"""Duplicate detection: which messages are new, and which ids may be forgotten."""

from collections.abc import Sequence
from hashlib import blake2b

from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.operations import ForgetSeen
from bendybus.model.partitioning import key_of
from bendybus.store.sql.database import SqlDatabase
from bendybus.store.sql.seen_ids import DIGEST_SIZE


def new_messages(
    database: SqlDatabase, queue: int, messages: Sequence[Message], since: Instant, now: Instant
) -> Sequence[int]:
    """Return the indexes of messages whose id was not seen after an instant, and remember it.

    Of several with the same id the first is new. One without an id is never a duplicate.
    """
    digests = [digest_of(message) for message in messages]
    return database.seen.new_among(queue, digests, since, now)


def forget(database: SqlDatabase, operation: ForgetSeen, now: Instant) -> int:
    """Forget old ids; return when the oldest that is left was seen."""
    del now  # How old is too old is the caller's to say.
    return database.seen.forget(operation.queue, operation.seen_until)


def digest_of(message: Message) -> bytes | None:
    """Return what stands for the message's id together with its key, if it has an id."""
    message_id = message.message_id
    if not message_id:
        return None
    if message.session_id is None and message.partition_key is None:
        whole = "-" + message_id
    else:
        key = key_of(message, has_duplicate_detection=False)
        assert key is not None, "it has one of the two"
        # The length tells where the one ends; no key is told from an empty one.
        whole = f"{len(key)}:{key}{message_id}"
    try:
        encoded = whole.encode()
    except UnicodeEncodeError:
        # Only then: to ask for it takes longer than the digest.
        encoded = whole.encode("utf-8", "surrogatepass")
    return blake2b(encoded, digest_size=DIGEST_SIZE).digest()
