"""Messages whose time has come are put at the end of their queue."""

from bendybus.model.ids import Instant
from bendybus.model.operations import Activate, Guard
from bendybus.store.sqlite.counting import count_in
from bendybus.store.sqlite.database import Database, ids_array, rows_of_queue
from bendybus.store.sqlite.session_locks import note_arrivals
from bendybus.store.sqlite.settling import find_guarded


def activate(database: Database, operation: Activate, now: Instant) -> list[int]:
    """Put messages at the end of their queue; return those that were not there or not due."""
    queue = operation.queue
    found = find_guarded(database, queue, operation.sequences, 0, Guard.DUE, now)
    if found.ids:
        reserved = database.row("take_numbers", (queue, len(found.ids)))
        assert reserved is not None, "its offset is known, so the queue is here"
        ids = ids_array(found.ids)
        first = rows_of_queue(queue)[0] + reserved[0]
        count_in(database, queue, scheduled=-len(found.ids))
        database.run("activate_messages", (first, ids))
        database.run("remove_messages", (ids,))
        note_arrivals(database, queue, first, len(found.ids), now)
    return found.lost
