"""Appends messages, inside the lane's transaction.

The seed of a message's checksum is made of what never changes about it: the row of its body and
the time it was enqueued, with their upper halves folded into the lower, and the session and
partition key if it has any. `damage` makes it again from the stored row.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import repeat

import apsw

from bendybus.model.errors import QuotaExceeded
from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.operations import Append
from bendybus.store.checksum import CHECKSUM_SIZE, sealed, seed_with_fields
from bendybus.store.marks import marks_to_text
from bendybus.store.sqlite import transfers
from bendybus.store.sqlite.database import Database, rows_of_queue
from bendybus.store.sqlite.seen import without_duplicates


def append(database: Database, operation: Append, now: Instant) -> int:
    """Append; return the first sequence number."""
    queue, messages = operation.queue, operation.messages
    offset = database.offset(queue)
    if operation.transfers is not None:
        # First: a duplicate that is left out has arrived, too, and must not come again later.
        new = transfers.remember(database, operation.transfers, now)
        messages = [messages[at] for at in new]
    if operation.duplicates_since is not None:
        messages = without_duplicates(database, queue, messages, operation.duplicates_since, now)
    if operation.messages and not messages:
        return 0
    size = sum([len(message.content) for message in messages]) + CHECKSUM_SIZE * len(messages)
    main = database.main(queue)
    if main != queue:
        # The bytes of a sub-queue are counted, and refused, on the main one.
        _reserve(database, main, (0, size, operation.bytes_max))
        size = 0
    counter = _reserve(database, queue, (len(messages), size, operation.bytes_max))
    first = rows_of_queue(queue)[0] + counter
    if messages:
        _insert(database, operation, messages, first, now)
    return first - offset


def _insert(
    database: Database, operation: Append, messages: Sequence[Message], first: int, now: Instant
) -> None:
    queue = operation.queue
    # Marks have only those that come from another queue, or are on their way to one.
    is_travelling = operation.transfers is not None or database.main(queue) != queue
    has_fields = is_travelling or any(map(_has_fields, messages))
    rows = range(first, first + len(messages))
    seeds: Iterable[int]
    if has_fields:
        seeds = map(_seed_with_fields, rows, messages, repeat(now))
    else:
        seeds = [(both := body ^ now) ^ both >> 32 for body in rows]
    bodies = apsw.carray(sealed([message.content for message in messages], seeds))
    database.run("append_bodies", (first, bodies))
    if has_fields:
        fields = json.dumps([_fields(message, now) for message in messages])
        database.run("append_messages_with_fields", (first, queue, now, fields))
    else:
        database.run("append_messages", (first, queue, now, bodies))


def _reserve(database: Database, queue: int, wanted: tuple[int, int, int]) -> int:
    """Take so many counters and bytes, if there is room; return the first counter."""
    row = database.row("reserve_counters", (queue, *wanted))
    if row is None:
        _, size, bytes_max = wanted
        counts = database.row("counts", (queue,))
        assert counts is not None, "its offset is known, so the queue is here"
        raise QuotaExceeded(
            f"The fragment is full: it holds {counts[1]} bytes of {bytes_max}, and what was"
            f" sent has {size}."
        )
    counter: int = row[0]
    return counter


def _has_fields(message: Message) -> bool:
    return (
        message.expires_at is not None
        or message.session_id is not None
        or message.partition_key is not None
        or message.scheduled_at is not None
    )


def _delayed_until(message: Message, now: Instant) -> Instant | None:
    """Return when the message's time comes, unless it has come."""
    scheduled_at = message.scheduled_at
    return scheduled_at if scheduled_at is not None and scheduled_at > now else None


def _seed_with_fields(body: int, message: Message, now: Instant) -> int:
    both = body ^ (_delayed_until(message, now) or now)
    seed = both ^ both >> 32
    session_id, key = message.session_id, message.partition_key
    if session_id is not None or key is not None:
        return seed_with_fields(seed, session_id, key)
    return seed


def _fields(
    message: Message, now: Instant
) -> tuple[int, int | None, str | None, str | None, int | None, str | None]:
    return (
        len(message.content) + CHECKSUM_SIZE,
        message.expires_at,
        message.session_id,
        message.partition_key,
        _delayed_until(message, now),
        None if message.marks is None else marks_to_text(message.marks),
    )
