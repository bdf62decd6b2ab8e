"""Deletes many messages at once."""

from bendybus.model.ids import Instant
from bendybus.model.operations import Purge
from bendybus.store.sqlite.database import Database


def purge(database: Database, operation: Purge, now: Instant) -> int:
    """Delete the oldest; return how many."""
    raise NotImplementedError
