"""From rows of Arrow columns to messages, as a client would have sent them.

    row ──► header, annotations │ properties, application properties, body ──► content

All rows of a batch at once. What a row says that no message can say is found, with its reason; the
rules are those for messages that come over AMQP (`content.incoming_message`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bendybus.columns.encoding_body import add_bodies
from bendybus.columns.encoding_head import add_head
from bendybus.columns.encoding_properties import Fault, add_properties
from bendybus.columns.packing import Mask, pack, packed_by_fragment
from bendybus.columns.pieces import (
    NULL,
    STRING,
    SYMBOL,
    Pieces,
    Sizes,
    compound_head,
)
from bendybus.columns.rows import Rows, shown_short
from bendybus.columns.target import Target
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.limits import KEY_LENGTH_MAX, SCHEDULED_MAX
from bendybus.model.packed_messages import PackedMessages

_PROPERTIES: Final = compound_head(b"\x00\x53\x73", 0xC0, 0xD0, 13)
# Of the properties section, in their order; None are those that cannot be written.
_FIELDS: Final = (
    "message_id",
    None,
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    None,
    None,
    None,
    "session_id",
    None,
    "reply_to_session_id",
)
_KEYS: Final = ("message_id", "session_id", "partition_key", "reply_to_session_id")
_MILLISECOND: Final = 1000


class RejectedRow(NamedTuple):
    """A row that cannot be a message: its number, counted from 0, and why."""

    row: int
    why: str


@dataclass(slots=True)
class CheckedRows:
    """Rows that can be messages, and what their contents are made of; nothing is made yet."""

    rows: Rows
    pieces: Pieces
    # Those that can be messages; None if all can.
    good: Mask | None = None
    rejected: list[RejectedRow] = field(default_factory=list)

    def encoded(self, target: Target) -> dict[int | None, PackedMessages]:
        """Make the messages, by the fragment that they are for; None: any."""
        return packed_by_fragment(self.rows, self.pieces.joined(), target, self.good)


def encoded_rows(batch: pa.RecordBatch) -> PackedMessages:
    """Make messages of rows that were checked before."""
    rows = Rows(batch)
    pieces, _ = _pieces(rows)
    return pack(rows, pieces.joined(), None, with_ids=False)


def content_sizes(batch: pa.RecordBatch) -> Sizes:
    """Return how large each row is as a content, without making any."""
    pieces, _ = _pieces(Rows(batch))
    return pieces.sizes


def check_rows(
    batch: pa.RecordBatch, target: Target, *, first_row: int = 0, rejects: bool = False
) -> CheckedRows:
    """Look whether rows, whose columns were checked (`target.check_columns`), can be messages.

    A row that cannot be a message is refused with `ArgumentInvalid`, or, if `rejects`, left out and
    named. Rows are numbered from `first_row` on.
    """
    rows = Rows(batch)
    pieces, faults = _pieces(rows)
    reasons: dict[int, str] = {}
    for row, why in [*faults, *_faults(rows, pieces.sizes, target)]:
        reasons.setdefault(row, why)
    if not reasons:
        return CheckedRows(rows, pieces)
    rejected = [
        RejectedRow(first_row + row, f"Row {first_row + row} ({rows.shown(row)}): {reasons[row]}.")
        for row in sorted(reasons)
    ]
    if not rejects:
        others = len(rejected) - 1
        more = f" {others} other rows cannot be messages, either." if others else ""
        raise ArgumentInvalid(f"{rejected[0].why}{more}")
    good = np.ones(rows.count, np.bool_)
    good[list(reasons)] = False
    return CheckedRows(rows, pieces, good, rejected)


def _pieces(rows: Rows) -> tuple[Pieces, list[Fault]]:
    """Say what all rows are encoded as; what is wrong with some of them comes beside."""
    whole = Pieces(rows.count)
    add_head(
        whole,
        rows.get("time_to_live"),
        rows.get("partition_key"),
        rows.get("scheduled_enqueue_time"),
    )
    fields = Pieces(rows.count)
    for name in _FIELDS:
        column = None if name is None else rows.get(name)
        if column is None:
            fields.add(NULL)
        else:
            head = SYMBOL if name == "content_type" else STRING
            fields.add_values(column.cast(pa.binary()), head)
    whole.add_sized(fields.sizes, _PROPERTIES)
    whole.add_all(fields)
    properties = rows.get("application_properties")
    faults = [] if properties is None else add_properties(whole, properties)
    faults += add_bodies(whole, rows.get("body"), rows.get("body_type"))
    return whole, faults


def _faults(rows: Rows, sizes: Sizes, target: Target) -> Iterator[Fault]:
    """Yield what is wrong with rows beside their application properties."""
    yield from _faults_of_keys(rows, target)
    for name, is_wrong, why in _RULES:
        column = rows.get(name)
        if column is not None:
            for row in _where(is_wrong(column)):
                yield Fault(row, f"its {name} {why}, not {shown_short(column[row].as_py())}")
    for large in np.flatnonzero(sizes > target.message_bytes_max):
        why = f"it has {sizes[large]} bytes; a message may have {target.message_bytes_max}"
        yield Fault(int(large), why)


def _faults_of_keys(rows: Rows, target: Target) -> Iterator[Fault]:
    for name in _KEYS:
        column = rows.get(name)
        if column is not None:
            length = pc.utf8_length(column)
            for row in _where(pc.greater(length, KEY_LENGTH_MAX)):
                why = f"its {name} has {length[row]} characters; it may have {KEY_LENGTH_MAX}"
                yield Fault(row, why)
    session_id, key = rows.get("session_id"), rows.get("partition_key")
    if session_id is not None and key is not None:
        for row in _where(pc.not_equal(session_id, key)):
            yield Fault(row, "its partition_key differs from its session_id; leave it out")
    if target.requires_session:
        missing = range(rows.count) if session_id is None else _where(pc.is_null(session_id))
        for row in missing:
            yield Fault(row, f"'{target.entity}' requires sessions, and it has no session_id")


# What a column must not be, and what to say of it.
_RULES: Final[tuple[tuple[str, Callable[[pa.Array], pa.Array], str], ...]] = (
    ("content_type", lambda each: pc.invert(pc.string_is_ascii(each)), "must be ASCII"),
    ("time_to_live", lambda each: pc.less(each, 0), "must be a number of milliseconds"),
    (
        "scheduled_enqueue_time",
        lambda each: pc.greater(each, SCHEDULED_MAX * _MILLISECOND),
        "must be before the year 10000",
    ),
)


def _where(mask: pa.Array) -> list[int]:
    found = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
    return [int(row) for row in found]
