"""Dead letters that are tried again: which, how changed, and where."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bendybus.client.connecting import Connector
from bendybus.client.going_through import Bounds, GoingThrough, selected
from bendybus.client.managing import ManagedEntity

REDRIVE: Final = "bendybus:redrive-messages"
_NAMESPACE: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """A wish to have dead letters tried again; by default all, as they are, where they were.

    `filter` is a condition and `edit` an action in the language of rules. `to` names another
    queue or topic; with `to_source` each goes to the entity that it became a dead letter of,
    which differs where dead letters are forwarded. `until_sequence` is the last number that is
    meant. With `dry_run` nothing is moved, only counted.
    """

    filter: str | None = None
    reason: str | None = None
    enqueued_since: datetime | None = None
    enqueued_until: datetime | None = None
    from_sequence: int = 0
    until_sequence: int | None = None
    count: int | None = None
    edit: str | None = None
    to: str | None = None
    to_source: bool = False
    rate: float | None = None
    """At most so many a second."""
    dry_run: bool = False

    def fields(self) -> dict[object, object]:
        """Return what every request of a run says."""
        fields = selected(
            self.filter, self.enqueued_since, self.enqueued_until, is_dry_run=self.dry_run
        )
        more = {"dead-letter-reason": self.reason, "edit": self.edit, "to": self.to}
        fields |= {name: value for name, value in more.items() if value is not None}
        return fields | {"to-source": self.to_source}


class Redriving(GoingThrough):
    """One run of a redrive."""

    def __init__(self, connector: Connector, path: str, wish: Redrive) -> None:
        bounds = Bounds(
            from_sequence=wish.from_sequence,
            until_sequence=wish.until_sequence,
            count=wish.count,
            rate=wish.rate,
        )
        # The broker wants to know that we may send to where messages go.
        others = [wish.to] if wish.to is not None else [_NAMESPACE] if wish.to_source else []
        super().__init__(ManagedEntity(connector, path, others), REDRIVE, wish.fields(), bounds)
