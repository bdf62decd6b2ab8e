"""Moves many messages to another queue, where they begin anew."""

import json
from collections.abc import Sequence

from bendybus.model.ids import Instant
from bendybus.model.operations import Guard, Requeue, Requeued
from bendybus.store.marks import marks_to_text
from bendybus.store.sql.database import SqlDatabase, rows_of_queue
from bendybus.store.sql.session_locks import note_arrivals
from bendybus.store.sql.settling import find_guarded, grouped


def requeue(database: SqlDatabase, operation: Requeue, now: Instant) -> list[int]:
    """Move messages; return those that were touched or are gone."""
    here, there = operation.queue, operation.to_queue
    database.offset(there)
    passed: set[int] = set()
    lost: list[int] = []
    size = 0
    locks = [message.lock for message in operation.messages]
    for count, sequences in grouped(locks, Guard.UNTOUCHED):
        found = find_guarded(database, here, sequences, count, Guard.UNTOUCHED, now)
        passed.update(found.ids)
        lost += found.lost
        size += found.size
    if not passed:
        return lost
    _move(database, operation, passed, now)
    if database.main(here) != database.main(there):
        database.run("bytes_down", (database.main(here), size))
        database.run("bytes_down", (database.main(there), -size))
    return lost


def _move(database: SqlDatabase, operation: Requeue, passed: set[int], now: Instant) -> None:
    """Give messages their places in the other queue. Their bodies stay where they are."""
    here, there = operation.queue, operation.to_queue
    rows = database.message_ids(here, [message.lock.sequence for message in operation.messages])
    chosen = {
        row: message for row, message in zip(rows, operation.messages, strict=True) if row in passed
    }
    ids = database.array(chosen)
    reserved = database.row("reserve_places", (there, len(chosen)))
    assert reserved is not None, "its offset is known, so the queue is here"
    first = rows_of_queue(there)[0] + reserved[0]
    by_session = database.by_session(there)
    if _are_plain(list(chosen.values())):
        database.run("requeue_plain_messages", (first, there, ids, by_session))
    else:
        fields = json.dumps([(row, *_fields(message)) for row, message in chosen.items()])
        database.run("requeue_messages", (first, there, fields, by_session))
    database.run("remove_messages", (ids,))
    database.run("count_down", (here, len(chosen)))
    note_arrivals(database, there, first, len(chosen), now)


def _are_plain(messages: Sequence[Requeued]) -> bool:
    return all(each.marks is None and each.expires_at is None for each in messages)


def _fields(message: Requeued) -> tuple[Instant | None, str | None]:
    marks = message.marks
    return message.expires_at, None if marks is None else marks_to_text(marks)
