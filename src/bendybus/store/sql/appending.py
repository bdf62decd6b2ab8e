"""Appends messages, inside the lane's transaction.

The seed of a message's checksum is made of what never changes about it: the row of its body and
the time it was enqueued, with their upper halves folded into the lower, and the session and
partition key if it has any. `damage` makes it again from the stored row.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

from bendybus.model.errors import QuotaExceeded
from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.operations import Append
from bendybus.model.packed_messages import PackedMessages
from bendybus.model.plain_messages import PlainMessages, chosen_of
from bendybus.store.checksum import CHECKSUM_SIZE, sealed, seed_with_fields
from bendybus.store.figures import Event
from bendybus.store.marks import marks_to_text
from bendybus.store.sql.counting import count_in
from bendybus.store.sql.database import SqlDatabase, rows_of_queue
from bendybus.store.sql.packed_appending import insert_packed
from bendybus.store.sql.session_locks import note_arrivals, note_late_arrivals
from bendybus.store.sql.thinning import new_indexes

# The place of that among the fields of a message.
_DELAYED_UNTIL: Final = 4


def append(database: SqlDatabase, operation: Append, now: Instant) -> int:
    """Append; return the first sequence number."""
    queue, messages = operation.queue, operation.messages
    offset = database.offset(queue)
    new = new_indexes(database, queue, operation, now)
    if new is not None:
        messages = chosen_of(messages, new)
        if operation.messages and not messages:
            _note(database, operation, 0, 0)
            return 0
    content_bytes = _content_bytes(messages)
    if database.is_untouched and messages and _are_plain(database, operation, messages):
        size = content_bytes + CHECKSUM_SIZE * len(messages)
        first = _append_whole(database, operation, messages, size, now)
    else:
        first = _append_in_parts(database, operation, messages, content_bytes, now)
    _note(database, operation, len(messages), content_bytes)
    return first - offset


def _are_plain(database: SqlDatabase, operation: Append, messages: Sequence[Message]) -> bool:
    """Say whether messages come to the end of a queue with nothing but their contents."""
    return not (
        operation.transfers is not None
        or operation.numbered_from is not None
        or isinstance(messages, PackedMessages)
        or database.main(operation.queue) != operation.queue
        or _have_fields(messages)
    )


def _content_bytes(messages: Sequence[Message]) -> int:
    if isinstance(messages, PackedMessages):
        return len(messages.contents)
    return sum(map(len, _contents(messages)))


def _contents(messages: Sequence[Message]) -> list[bytes]:
    if isinstance(messages, PlainMessages):
        return messages.contents
    return [message.content for message in messages]


def _append_whole(
    database: SqlDatabase, operation: Append, messages: Sequence[Message], size: int, now: Instant
) -> int:
    """Append as a commit of one statement; return the first row."""
    queue = operation.queue
    counter, bytes_held = database.find_room(queue)
    if bytes_held + size > operation.bytes_max:
        raise quota_exceeded(database, queue, size, operation.bytes_max)
    first = rows_of_queue(queue)[0] + counter
    contents = _sealed(first, messages, now, has_fields=False)
    database.append_whole(queue, first, now, size, contents)
    return first


def _append_in_parts(
    database: SqlDatabase,
    operation: Append,
    messages: Sequence[Message],
    content_bytes: int,
    now: Instant,
) -> int:
    """Append with a statement for each part; return the first row."""
    queue, count, bytes_max = operation.queue, len(messages), operation.bytes_max
    if operation.numbered_from is None:
        first, _ = take_rows(database, queue, count, content_bytes, bytes_max)
    else:
        first = operation.numbered_from + database.offset(queue)
        size = _take_bytes(database, queue, count, content_bytes, bytes_max)
        if database.row("take_room", (queue, count, size, bytes_max)) is None:
            raise quota_exceeded(database, queue, size, bytes_max)
    if messages:
        _insert(database, operation, messages, first, now)
        note_arrivals(database, queue, first, len(messages), now)
        if operation.numbered_from is not None:
            note_late_arrivals(database, queue, first, len(messages))
    return first


def take_rows(
    database: SqlDatabase, queue: int, count: int, content_bytes: int, bytes_max: int
) -> tuple[int, int]:
    """Take rows at the end of a queue, if there is room for their contents.

    Returns the first, and how large contents are with their checksums.
    """
    size = _take_bytes(database, queue, count, content_bytes, bytes_max)
    first = rows_of_queue(queue)[0] + _reserve(database, queue, (count, size, bytes_max))
    return first, content_bytes + CHECKSUM_SIZE * count


def _take_bytes(
    database: SqlDatabase, queue: int, count: int, content_bytes: int, bytes_max: int
) -> int:
    """Return how many bytes are to be counted on the queue itself."""
    size = content_bytes + CHECKSUM_SIZE * count
    main = database.main(queue)
    if main == queue:
        return size
    # The bytes of a sub-queue are counted, and refused, on the main one.
    _reserve(database, main, (0, size, bytes_max))
    return 0


def _note(database: SqlDatabase, operation: Append, count: int, content_bytes: int) -> None:
    """Note what arrived, for those who count it."""
    queue, notes = operation.queue, database.traffic
    notes.note(queue, Event.ACCEPTED if operation.transfers is None else Event.FORWARDED, count)
    notes.note(queue, Event.ACCEPTED_BYTES, content_bytes)
    notes.note(queue, Event.DROPPED, len(operation.messages) - count)


def _insert(
    database: SqlDatabase, operation: Append, messages: Sequence[Message], first: int, now: Instant
) -> None:
    queue = operation.queue
    if isinstance(messages, PackedMessages):
        insert_packed(database, queue, messages, first, now)
        return
    # Marks have only those that come from another queue, or are on their way to one.
    is_travelling = operation.transfers is not None or database.main(queue) != queue
    has_fields = is_travelling or _have_fields(messages)
    bodies = database.blobs(_sealed(first, messages, now, has_fields=has_fields))
    database.run("append_bodies", (first, bodies))
    if has_fields:
        fields = [_fields(message, now) for message in messages]
        by_session = database.by_session(queue)
        bindings = (first, queue, now, json.dumps(fields), by_session)
        database.run("append_messages_with_fields", bindings)
        scheduled = sum([each[_DELAYED_UNTIL] is not None for each in fields])
        if scheduled:
            count_in(database, queue, scheduled=scheduled)
    else:
        database.run("append_messages", (first, queue, now, bodies))


def sealed_messages(first: int, messages: Sequence[Message], now: Instant) -> Sequence[bytes]:
    """Return contents with their checksums, as they lie in rows from the first on."""
    return _sealed(first, messages, now, has_fields=_have_fields(messages))


def _sealed(
    first: int, messages: Sequence[Message], now: Instant, *, has_fields: bool
) -> Sequence[bytes]:
    rows = range(first, first + len(messages))
    seeds: Iterable[int]
    if has_fields:
        seeds = map(_seed_with_fields, rows, messages, repeat(now))
    else:
        seeds = [(both := body ^ now) ^ both >> 32 for body in rows]
    return sealed(_contents(messages), seeds)


def quota_exceeded(database: SqlDatabase, queue: int, size: int, bytes_max: int) -> QuotaExceeded:
    """Make the refusal of so many bytes more."""
    counts = database.row("counts", (queue,))
    assert counts is not None, "its offset is known, so the queue is here"
    return QuotaExceeded(
        f"The fragment is full: it holds {counts[1]} bytes of {bytes_max}, and what was"
        f" sent has {size}."
    )


def _reserve(database: SqlDatabase, queue: int, wanted: tuple[int, int, int]) -> int:
    """Take so many counters and bytes, if there is room; return the first counter."""
    row = database.row("reserve_counters", (queue, *wanted))
    if row is None:
        _, size, bytes_max = wanted
        raise quota_exceeded(database, queue, size, bytes_max)
    counter: int = row[0]
    return counter


def _have_fields(messages: Sequence[Message]) -> bool:
    """Say whether any message has more than its content."""
    return not isinstance(messages, PlainMessages) and any(map(_has_fields, messages))


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
