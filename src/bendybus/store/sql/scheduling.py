"""Messages whose time has come are put at the end of their queue."""

from bendybus.model.ids import Instant
from bendybus.model.operations import Activate, Guard
from bendybus.store.sql.counting import count_in
from bendybus.store.sql.database import SqlDatabase, rows_of_queue
from bendybus.store.sql.session_locks import note_arrivals
from bendybus.store.sql.settling import find_guarded


def activate(database: SqlDatabase, operation: Activate, now: Instant) -> list[int]:
    """Put messages at the end of their queue; return those that were not there or not due."""
    queue = operation.queue
    found = find_guarded(database, queue, operation.sequences, 0, Guard.DUE, now)
    if found.ids:
        reserved = database.row("take_numbers", (queue, len(found.ids)))
        assert reserved is not None, "its offset is known, so the queue is here"
        ids = database.array(found.ids)
        first = rows_of_queue(queue)[0] + reserved[0]
        count_in(database, queue, scheduled=-len(found.ids))
        database.run("activate_messages", (first, ids))
        database.run("remove_messages", (ids,))
        note_arrivals(database, queue, first, len(found.ids), now)
    return found.lost
