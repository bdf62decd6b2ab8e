"""Gives messages of a topic to its subscriptions, keeping each content once (D6).

The row of a content is in the range of the topic's queue, so it also tells the number that the
message has at the topic. Takers that take the same messages under the same terms, which is what
most of them do, are served by one statement.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from bendybus.model.ids import Instant
from bendybus.model.message import Marks, Message, joined_marks
from bendybus.model.operations import ChangedCopy, Publish, Taker
from bendybus.store.checksum import CHECKSUM_SIZE
from bendybus.store.figures import Event
from bendybus.store.marks import marks_to_text
from bendybus.store.sql.appending import quota_exceeded, sealed_messages
from bendybus.store.sql.database import COUNTER_BITS_HERE, SqlDatabase, rows_of_queue
from bendybus.store.sql.runs import RUN_LENGTH_MIN, Run, cut, keep
from bendybus.store.sql.session_locks import note_arrivals
from bendybus.store.sql.shared_bodies import share
from bendybus.store.sql.thinning import new_indexes

# Of one message in one queue: body, size, expiry, session, key, and marks.
_Fields = tuple[int, int, int | None, str | None, str | None, str | None]


class _Group(NamedTuple):
    """Takers of the same messages under the same terms."""

    taker: Taker
    queues: list[int]


def publish(database: SqlDatabase, operation: Publish, now: Instant) -> int:
    """Publish; return the first number at the topic, 0 if nobody takes anything."""
    offset = database.offset(operation.topic)
    operation, dropped = _thinned(database, operation, now)
    arrived = Event.ACCEPTED if operation.transfers is None else Event.FORWARDED
    database.traffic.note(operation.topic, arrived, len(operation.messages) - dropped)
    database.traffic.note(operation.topic, Event.DROPPED, dropped)
    groups = _grouped(operation.takers)
    holders: Counter[int] = Counter()
    for group in groups:
        for at in group.taker.indexes:
            holders[at] += len(group.queues)
    numbered = sorted(holders.keys() | {changed.index for changed in operation.changed})
    if not numbered:
        return 0
    first = _reserve(database, operation, holders, len(numbered))
    rows = dict(zip(numbered, range(first, first + len(numbered)), strict=True))
    _keep_bodies(database, operation.messages, {at: rows[at] for at in sorted(holders)}, now)
    share(database, [(rows[at], count) for at, count in holders.items()])
    _give(database, operation.messages, groups, rows, now)
    _give_changed(database, operation.changed, rows, offset, now)
    return first - offset


def _thinned(database: SqlDatabase, operation: Publish, now: Instant) -> tuple[Publish, int]:
    """Leave out messages that came before; say how many they are."""
    new = new_indexes(database, operation.topic, operation, now)
    if new is None or len(new) == len(operation.messages):
        return operation, 0
    left = set(new)
    thinned = replace(
        operation,
        takers=[_thinned_taker(taker, left) for taker in operation.takers],
        changed=[each for each in operation.changed if each.index in left],
    )
    return thinned, len(operation.messages) - len(left)


def _thinned_taker(taker: Taker, left: set[int]) -> Taker:
    pairs = [
        (at, expires_at)
        for at, expires_at in zip(taker.indexes, taker.expiries, strict=True)
        if at in left
    ]
    return replace(taker, indexes=[at for at, _ in pairs], expiries=[each for _, each in pairs])


def _grouped(takers: Sequence[Taker]) -> list[_Group]:
    groups: dict[object, _Group] = {}
    for taker in takers:
        if taker.indexes:
            key = (tuple(taker.indexes), tuple(taker.expiries), taker.marks)
            groups.setdefault(key, _Group(taker, [])).queues.append(taker.queue)
    return list(groups.values())


def _reserve(
    database: SqlDatabase, operation: Publish, taken: Counter[int], number_count: int
) -> int:
    """Take numbers, and bytes for every content once; return the row of the first number."""
    contents = [operation.messages[at].content for at in taken]
    contents += [changed.message.content for changed in operation.changed]
    content_bytes = sum(map(len, contents))
    size = content_bytes + CHECKSUM_SIZE * len(contents)
    topic, bytes_max = operation.topic, operation.bytes_max
    database.traffic.note(topic, Event.ACCEPTED_BYTES, content_bytes)
    row = database.row("reserve_at_topic", (topic, number_count, size, bytes_max))
    if row is None:
        raise quota_exceeded(database, topic, size, bytes_max)
    counter: int = row[0]
    return rows_of_queue(topic)[0] + counter


def _keep_bodies(
    database: SqlDatabase, messages: Sequence[Message], rows: dict[int, int], now: Instant
) -> None:
    """Write contents under their rows, by runs of rows without a gap: mostly that is one."""
    for run in _stretches(list(rows.items())):
        first = run[0][1]
        bodies = sealed_messages(first, [messages[at] for at, _ in run], now)
        database.run("append_bodies", (first, database.blobs(bodies)))


def _stretches(pairs: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Cut pairs where the second number does not go on by one."""
    start = 0
    for end in range(1, len(pairs) + 1):
        if end == len(pairs) or pairs[end][1] != pairs[end - 1][1] + 1:
            yield pairs[start:end]
            start = end


def _give(
    database: SqlDatabase,
    messages: Sequence[Message],
    groups: Sequence[_Group],
    rows: dict[int, int],
    now: Instant,
) -> None:
    """Add messages to the queues of all takers: those of a group in one step.

    Takers that have no equal share one step, too: there may be a thousand of them.
    """
    counts = [(queue, len(group.taker.indexes)) for group in groups for queue in group.queues]
    starts = iter(_reserve_rows(database, counts))
    alone: list[tuple[int, list[_Fields]]] = []
    runs: list[Run] = []
    for taker, queues in groups:
        pieces = _pieces(taker, messages, rows)
        if pieces:
            for start in (next(starts) for _ in queues):
                runs += [
                    Run(start + at, count, body, now, taker.expiries[0])
                    for at, count, body in pieces
                ]
            continue
        given = [
            _fields(
                messages[at],
                rows[at],
                expires_at,
                joined_marks(messages[at].marks, taker.marks),
            )
            for at, expires_at in zip(taker.indexes, taker.expiries, strict=True)
        ]
        places = [(queue, next(starts), database.by_session(queue)) for queue in queues]
        if len(places) == 1:
            alone.append((places[0][1], given))
            continue
        database.run("give", (now, json.dumps(places), json.dumps(given)))
        for queue, start, _ in places:
            note_arrivals(database, queue, start, len(given), now)
    _give_each(database, alone, now)
    if runs:
        keep(database, runs)


def _pieces(
    taker: Taker, messages: Sequence[Message], rows: dict[int, int]
) -> list[tuple[int, int, int]]:
    """Cut what is taken into runs: place, count and first body of each. None: no runs.

    Runs are for messages of which there is nothing to say but that they are there.
    """
    indexes = taker.indexes
    if (
        len(indexes) < RUN_LENGTH_MIN
        or taker.marks is not None
        or any(map(_is_special, map(messages.__getitem__, indexes)))
        or len(set(taker.expiries)) > 1
    ):
        return []
    segments = [*_stretches([(place, rows[at]) for place, at in enumerate(indexes)])]
    if len(indexes) < RUN_LENGTH_MIN * len(segments):
        return []
    return [
        piece for segment in segments for piece in cut(segment[0][0], len(segment), segment[0][1])
    ]


def _is_special(message: Message) -> bool:
    return (
        message.session_id is not None
        or message.partition_key is not None
        or message.marks is not None
    )


def _give_changed(
    database: SqlDatabase,
    changed: Sequence[ChangedCopy],
    rows: dict[int, int],
    offset: int,
    now: Instant,
) -> None:
    """Add copies to their queues, each with a content of its own, those of a queue in one step."""
    by_queue: dict[int, list[ChangedCopy]] = {}
    for copy in changed:
        by_queue.setdefault(copy.queue, []).append(copy)
    starts = _reserve_rows(database, [(queue, len(each)) for queue, each in by_queue.items()])
    each: list[tuple[int, list[_Fields]]] = []
    for copies, start in zip(by_queue.values(), starts, strict=True):
        bodies = sealed_messages(start, [copy.message for copy in copies], now)
        database.run("append_bodies", (start, database.blobs(bodies)))
        given = [
            _fields(
                copy.message,
                row,
                copy.message.expires_at,
                # The content does not lie at the topic, so its row cannot tell the number there.
                replace(copy.message.marks or Marks(), enqueued_sequence=rows[copy.index] - offset),
            )
            for row, copy in enumerate(copies, start)
        ]
        each.append((start, given))
    _give_each(database, each, now)


def _give_each(
    database: SqlDatabase, runs: Sequence[tuple[int, list[_Fields]]], now: Instant
) -> None:
    """Add runs of messages, each from a row of its own on."""
    if not runs:
        return
    rows = [
        (row, queue, by_session, *fields)
        for start, given in runs
        for queue in (start >> COUNTER_BITS_HERE,)
        for by_session in (database.by_session(queue),)
        for row, fields in enumerate(given, start)
    ]
    database.run("give_each", (now, json.dumps(rows)))
    for start, given in runs:
        note_arrivals(database, start >> COUNTER_BITS_HERE, start, len(given), now)


def _reserve_rows(database: SqlDatabase, counts: Sequence[tuple[int, int]]) -> list[int]:
    """Take a run of rows in each of the queues; return the first of each."""
    added: Counter[int] = Counter()
    for queue, count in counts:
        database.offset(queue)
        added[queue] += count
        database.traffic.note(queue, Event.ACCEPTED, count)
    if not added:
        return []
    found = database.row("next_counters", (database.array(added),))
    assert found is not None, "an aggregate always has one row"
    next_rows = {
        queue: rows_of_queue(queue)[0] + counter
        for queue, counter in zip(added, json.loads(found[0]), strict=True)
    }
    database.run("add_to_queues", (json.dumps(added),))
    starts: list[int] = []
    for queue, count in counts:
        starts.append(next_rows[queue])
        next_rows[queue] += count
    return starts


def _fields(
    message: Message, body: int, expires_at: Instant | None, marks: Marks | None
) -> _Fields:
    return (
        body,
        len(message.content) + CHECKSUM_SIZE,
        expires_at,
        message.session_id,
        message.partition_key,
        None if marks is None else marks_to_text(marks),
    )
