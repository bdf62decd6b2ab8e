"""Gives messages of a topic to its subscriptions, keeping each content once (D6)."""

from bendybus.model.ids import Instant
from bendybus.model.operations import Publish
from bendybus.store.sqlite.database import Database


def publish(database: Database, operation: Publish, now: Instant) -> int:
    """Publish; return the first number at the topic."""
    raise NotImplementedError
