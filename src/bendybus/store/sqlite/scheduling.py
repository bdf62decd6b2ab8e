"""Messages whose time has not come, and those whose time has."""

from bendybus.model.ids import Instant
from bendybus.model.operations import Activate
from bendybus.store.sqlite.database import Database


def activate(database: Database, operation: Activate, now: Instant) -> list[int]:
    """Put messages at the end of their queue; return those that were not there or not due."""
    raise NotImplementedError
