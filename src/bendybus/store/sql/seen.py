"""Duplicate detection: which messages are new, and which ids may be forgotten."""

from collections.abc import Sequence

from bendybus.model.digests import digest_of
from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.operations import ForgetSeen
from bendybus.model.plain_messages import PlainMessages
from bendybus.store.sql.database import SqlDatabase


def new_messages(
    database: SqlDatabase, queue: int, messages: Sequence[Message], since: Instant, now: Instant
) -> Sequence[int]:
    """Return the indexes of messages whose id was not seen after an instant, and remember it.

    Of several with the same id the first is new. One without an id is never a duplicate.
    """
    digests: Sequence[bytes | None]
    if isinstance(messages, PlainMessages):
        assert messages.digests is not None, "they are for a queue that looks at ids"
        digests = messages.digests
    else:
        digests = [digest_of(message) for message in messages]
    return database.seen.new_among(queue, digests, since, now)


def forget(database: SqlDatabase, operation: ForgetSeen, now: Instant) -> int:
    """Forget old ids; return when the oldest that is left was seen."""
    del now  # How old is too old is the caller's to say.
    return database.seen.forget(operation.queue, operation.seen_until)
