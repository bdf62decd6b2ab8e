"""Dead letters that are tried again: which, how changed, and where."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from bendybus.client.connecting import Connector
from bendybus.client.going_through import Bounds, GoingThrough, Stretch, selected
from bendybus.client.managing import ManagedEntity

REDRIVE: Final = "bendybus:redrive-messages"
_NAMESPACE: Final = ""
_EDITED_BYTES_MAX: Final = 512 * 1024
"""Of new bodies in one request, unless one alone is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """How one message is to be changed; what is not named stays as it is.

    `system` is by the names of the language of rules, such as Label or SessionId; None takes a
    property away. A property keeps its type where the new value can be of that type.
    """

    system: Mapping[str, str | None] = field(default_factory=dict)
    properties: Mapping[str, object] = field(default_factory=dict)
    removed: Sequence[str] = ()
    body: bytes | None = None

    def fields(self) -> dict[object, object]:
        """Return it as a request says it."""
        said: dict[object, object] = {
            "system": dict(self.system),
            "properties": dict(self.properties),
            "removed": list(self.removed),
        }
        return said if self.body is None else said | {"body": self.body}


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
    sequences: Sequence[int] | None = None
    """Only these messages, by their numbers."""
    edits: Mapping[int, Edit] | None = None
    """Only these messages, each changed in its own way."""
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
            sequences=list(wish.edits) if wish.edits is not None else wish.sequences,
        )
        self._edits = wish.edits
        # The broker wants to know that we may send to where messages go.
        others = [wish.to] if wish.to is not None else [_NAMESPACE] if wish.to_source else []
        super().__init__(ManagedEntity(connector, path, others), REDRIVE, wish.fields(), bounds)

    def stretches_of(self, numbers: Sequence[int]) -> Iterator[Stretch]:
        """Cut stretches also where their edits would make a request too large."""
        for stretch in super().stretches_of(numbers):
            yield from self._small_enough(stretch)

    def fields_of(self, stretch: Stretch) -> dict[object, object]:
        """Add the edits of the messages of a stretch."""
        fields = super().fields_of(stretch)
        if self._edits is None or stretch.named is None:
            return fields
        return fields | {"edits": [self._edits[each].fields() for each in stretch.named]}

    def _small_enough(self, stretch: Stretch) -> Iterator[Stretch]:
        some: list[int] = []
        size = 0
        for number in stretch.named or ():
            more = 0 if self._edits is None else len(self._edits[number].body or b"")
            if some and size + more > _EDITED_BYTES_MAX:
                yield Stretch(some[0], some[-1], tuple(some))
                some, size = [], 0
            some.append(number)
            size += more
        yield Stretch(some[0], some[-1], tuple(some))
