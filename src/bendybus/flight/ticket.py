"""What a DoGet asks for: which messages of which entity, and which of their columns."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bendybus.columns.schema import COLUMNS, STATES
from bendybus.flight.body import ADDRESS_FIELDS, FRAGMENTS_MAX, Body, read_body
from bendybus.model.addresses import Address
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.stretches import Positions, Range
from bendybus.model.suggestion import suggest

TICKET_FIELDS: Final = (
    *ADDRESS_FIELDS,
    *("columns", "ranges", "reader", "token", "positions", "states", "filters"),
    *("skip_offline", "batch_rows"),
)
BATCH_ROWS_MAX: Final = 65_536
FILTERS_MAX: Final = 64
FILTER_VALUES_MAX: Final = 1000
RANGES_MAX: Final = 4096
OPERATORS: Final = ("=", "<", "<=", ">", ">=", "in")
# Which columns can be asked about, and what they are compared with.
FILTERED: Final[Mapping[str, type]] = {
    "sequence_number": int,
    "enqueued_time": datetime,
    "session_id": str,
    "partition_key": str,
    "subject": str,
}


@dataclass(frozen=True, slots=True)
class Reserved:
    """What a reader has reserved, for the one who holds its token."""

    reader: str
    token: str
    positions: tuple[Positions, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """One comparison that a message must stand; times are in milliseconds."""

    column: str
    operator: str
    values: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Ticket:
    """A wish to read. Without ranges and without a reader: all that is there now."""

    address: Address
    columns: tuple[str, ...]
    ranges: tuple[Range, ...] | None
    reserved: Reserved | None
    states: frozenset[str] | None
    filters: tuple[Filter, ...]
    skips_offline: bool
    batch_rows: int


def read_ticket(content: bytes) -> Ticket:
    """Read a ticket. Raises `ArgumentInvalid` with what is wrong and what would be right."""
    body = read_body(content, TICKET_FIELDS, "ticket")
    reserved = _reserved(body) if body.has("reader") else None
    if reserved is None and (body.has("token") or body.has("positions")):
        raise ArgumentInvalid("'token' and 'positions' go with a 'reader'; name it.")
    if reserved is not None and body.has("ranges"):
        raise ArgumentInvalid("Read 'ranges', or what a 'reader' has reserved; not both.")
    return Ticket(
        address=body.address(),
        columns=_columns(body),
        ranges=_ranges(body) if body.has("ranges") else None,
        reserved=reserved,
        states=_states(body),
        filters=_filters(body),
        skips_offline=body.flag("skip_offline"),
        batch_rows=body.number("batch_rows", 1, BATCH_ROWS_MAX)
        if body.has("batch_rows")
        else BATCH_ROWS_MAX,
    )


def _columns(body: Body) -> tuple[str, ...]:
    if not body.has("columns"):
        return tuple(COLUMNS)
    names = body.texts("columns", len(COLUMNS))
    for name in names:
        if name not in COLUMNS:
            raise ArgumentInvalid(
                f"There is no column '{name}'; {suggest(name, COLUMNS)}", argument="columns"
            )
    if len(set(names)) < len(names):
        raise ArgumentInvalid("'columns' names one twice.", argument="columns")
    return tuple(names)


def _ranges(body: Body) -> tuple[Range, ...]:
    fields = ("fragment", "from", "until")
    return tuple(
        Range(
            each.number("fragment", most=FRAGMENTS_MAX - 1),
            each.number("from"),
            each.number("until"),
        )
        for each in body.objects("ranges", fields, RANGES_MAX)
    )


def _reserved(body: Body) -> Reserved:
    fields = ("fragment", "after", "until", "from")
    positions = tuple(
        Positions(
            each.number("fragment", most=FRAGMENTS_MAX - 1),
            each.number("after"),
            each.number("until"),
            each.number("from") if each.has("from") else 0,
        )
        for each in body.objects("positions", fields, RANGES_MAX)
    )
    return Reserved(body.text("reader"), body.text("token"), positions)


def _states(body: Body) -> frozenset[str] | None:
    if not body.has("states"):
        return None
    states = body.texts("states", len(STATES))
    for state in states:
        if state not in STATES:
            raise ArgumentInvalid(
                f"There is no state '{state}'; {suggest(state, STATES)}", argument="states"
            )
    return frozenset(states)


def _filters(body: Body) -> tuple[Filter, ...]:
    if not body.has("filters"):
        return ()
    return tuple(map(_filter, body.values("filters", FILTERS_MAX)))


def _filter(given: object) -> Filter:
    match given:
        case [str(column), str(operator), value]:
            pass
        case _:
            raise ArgumentInvalid(
                "A filter is a list of a column, an operator and a value, such as"
                ' ["session_id", "=", "a"].',
                argument="filters",
            )
    if column not in FILTERED:
        raise ArgumentInvalid(
            f"'{column}' cannot be filtered by; {suggest(column, FILTERED)}", argument="filters"
        )
    if operator not in OPERATORS:
        raise ArgumentInvalid(
            f"'{operator}' is no operator of filters; {suggest(operator, OPERATORS)}",
            argument="filters",
        )
    if operator != "in":
        return Filter(column, operator, (_value(column, value),))
    if not isinstance(value, list) or len(value) > FILTER_VALUES_MAX:
        raise ArgumentInvalid(
            f"'in' takes a list of at most {FILTER_VALUES_MAX} values.", argument="filters"
        )
    return Filter(column, operator, tuple(_value(column, each) for each in value))


def _value(column: str, value: object) -> int | str:
    kind = FILTERED[column]
    if isinstance(value, int) and not isinstance(value, bool) and kind is not str:
        return value
    if isinstance(value, str) and kind is str:
        return value
    if isinstance(value, str) and kind is datetime:
        with suppress(ValueError):
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is not None:
                return round(moment.timestamp() * 1000)
    wanted = {int: "a whole number", str: "a text"}.get(
        kind, "a time with its zone, such as 2026-11-16T08:30:00Z, or milliseconds since 1970"
    )
    raise ArgumentInvalid(f"'{column}' is compared with {wanted}.", argument="filters")
