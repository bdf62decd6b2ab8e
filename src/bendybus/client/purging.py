"""Messages that are deleted unread: which."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bendybus.amqp.values import Int
from bendybus.client.connecting import Connector
from bendybus.client.going_through import Bounds, GoingThrough, selected
from bendybus.client.managing import ManagedEntity
from bendybus.client.message import MessageState

DELETE: Final = "bendybus:delete-selected-messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """A wish to have messages deleted: those of a state for which a condition is true.

    A scheduled message counts as enqueued at the time that it is scheduled for. With `dry_run`
    nothing is deleted, only counted.
    """

    state: MessageState = MessageState.ACTIVE
    filter: str | None = None
    enqueued_since: datetime | None = None
    enqueued_until: datetime | None = None
    count: int | None = None
    sequences: Sequence[int] | None = None
    """Only these messages, by their numbers."""
    dry_run: bool = False


class Purging(GoingThrough):
    """One run of a purge."""

    def __init__(self, connector: Connector, path: str, wish: Purge) -> None:
        fields = selected(
            wish.filter, wish.enqueued_since, wish.enqueued_until, is_dry_run=wish.dry_run
        )
        fields["message-state"] = Int(wish.state.value)
        bounds = Bounds(count=wish.count, sequences=wish.sequences)
        super().__init__(ManagedEntity(connector, path), DELETE, fields, bounds)
