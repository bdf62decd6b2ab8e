"""Which messages have come from another queue, so that none comes twice (D7)."""

from bendybus.model.ids import Instant
from bendybus.model.operations import Forget
from bendybus.store.sqlite.database import Database


def forget(database: Database, operation: Forget, now: Instant) -> list[int]:
    """Remember transfers no longer."""
    raise NotImplementedError
