"""What a ticket's filters come to: what the store leaves out, and what is left out afterwards."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bendybus.columns.arrow_types import ARROW_TYPES
from bendybus.columns.schema import COLUMNS, ColumnType
from bendybus.flight.ticket import Filter
from bendybus.model.ids import Instant

_MICROSECONDS: Final = 1000
_END: Final = (1 << 63) - 1
_COMPARED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class Bounds(NamedTuple):
    """Numbers from the first on, and before the other."""

    first: int = 0
    until: int = _END

    def within(self, given: Filter) -> "Bounds | None":
        """Return what is left of them by a filter; None if that cannot be told by bounds."""
        if given.operator == "in":
            return None
        [value] = given.values
        assert isinstance(value, int), "numbers and times are compared with numbers"
        first, until = self
        if given.operator in ("=", ">", ">="):
            first = max(first, value + (given.operator == ">"))
        if given.operator in ("=", "<", "<="):
            until = min(until, value + (given.operator != "<"))
        return Bounds(first, until)


class Sieve(NamedTuple):
    """What the store is asked to leave out, and which filters are still to be asked."""

    sequences: Bounds
    enqueued: Bounds
    session_ids: tuple[str, ...] | None
    partition_keys: tuple[str, ...] | None
    others: tuple[Filter, ...]

    @property
    def enqueued_from(self) -> Instant | None:
        """Since when messages came."""
        return Instant(self.enqueued.first) if self.enqueued.first > 0 else None

    @property
    def enqueued_until(self) -> Instant | None:
        """Until when they came, that moment excluded."""
        return Instant(self.enqueued.until) if self.enqueued.until < _END else None

    def columns(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that must be read: those wanted, and those that are asked about."""
        return tuple(dict.fromkeys((*wanted, *(each.column for each in self.others))))

    def sifted(self, batch: pa.RecordBatch, wanted: Sequence[str]) -> pa.RecordBatch:
        """Leave out the rows that the other filters do not let through, and their columns."""
        for each in self.others:
            batch = batch.filter(_mask(batch.column(each.column), each))
        return batch.select(list(wanted)) if self.others else batch


def sieve(filters: Sequence[Filter], *, is_partitioned: bool = False) -> Sieve:
    """Sort filters by who can ask them.

    In a partitioned entity the id of a session is the key, too, which the store does not know.
    """
    listed = {"session_id"} if is_partitioned else {"session_id", "partition_key"}
    found = {"sequence_number": Bounds(), "enqueued_time": Bounds()}
    texts: dict[str, set[str]] = {}
    others: list[Filter] = []
    for each in filters:
        bounds = found[each.column].within(each) if each.column in found else None
        if bounds is not None:
            found[each.column] = bounds
        elif each.column in listed and each.operator in ("=", "in"):
            values = {value for value in each.values if isinstance(value, str)}
            texts[each.column] = texts.get(each.column, values) & values
        else:
            others.append(each)
    return Sieve(
        found["sequence_number"],
        found["enqueued_time"],
        _listed(texts.get("session_id")),
        _listed(texts.get("partition_key")),
        tuple(others),
    )


def _listed(values: set[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(sorted(values))


def _mask(column: pa.ChunkedArray, given: Filter) -> pa.Array:
    kind = COLUMNS[given.column]
    values = [
        value * _MICROSECONDS if kind is ColumnType.TIMESTAMP else value for value in given.values
    ]
    if given.operator == "in":
        return pc.is_in(column, value_set=pa.array(values, ARROW_TYPES[kind]))
    return _COMPARED[given.operator](column, pa.scalar(values[0], ARROW_TYPES[kind]))
