"""Gives numbers out before the messages that will have them, inside the lane's transaction."""

from bendybus.model.ids import Instant
from bendybus.model.operations import TakeNumbers
from bendybus.store.sql.database import SqlDatabase, rows_of_queue


def take_numbers(database: SqlDatabase, operation: TakeNumbers, now: Instant) -> int:
    """Give numbers out; return the first."""
    del now
    queue = operation.queue
    offset = database.offset(queue)
    row = database.row("take_numbers", (queue, operation.count))
    assert row is not None, "its offset is known, so the queue is here"
    first: int = rows_of_queue(queue)[0] + row[0]
    return first - offset
