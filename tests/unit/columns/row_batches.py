"""Rows of any kind for tests of encoding, and what a target is like."""

import base64
import uuid
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from bendybus.columns.arrow_types import ARROW_TYPES
from bendybus.columns.encoding import RejectedRow, check_rows
from bendybus.columns.schema import COLUMNS, WRITABLE
from bendybus.columns.target import Target
from bendybus.model.packed_messages import PackedMessages

TARGET: Final = Target(
    entity="orders",
    message_bytes_max=256 * 1024,
    requires_session=False,
    has_duplicate_detection=False,
    is_partitioned=False,
    fragment_count=1,
    is_topic=False,
)
PARTS: Final = TARGET._replace(entity="parts", is_partitioned=True, fragment_count=16)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
long_texts = st.integers(250, 260).map(lambda size: "x" * size)
some_texts = st.none() | texts | long_texts
keys = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=128)

_INTEGERS: Final = {
    "ubyte": (0, 2**8 - 1),
    "ushort": (0, 2**16 - 1),
    "uint": (0, 2**32 - 1),
    "ulong": (0, 2**64 - 1),
    "byte": (-(2**7), 2**7 - 1),
    "short": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
    "timestamp": (-(2**40), 2**40),
    "com.microsoft:timespan": (-(2**63), 2**63 - 1),
}
_TEXTS: Final[dict[str, st.SearchStrategy[str]]] = {
    **{kind: st.integers(*bounds).map(str) for kind, bounds in _INTEGERS.items()},
    "string": texts | long_texts,
    "symbol": st.text(st.characters(max_codepoint=127), max_size=9),
    "char": st.characters(exclude_categories=["Cs"]),
    "float": st.floats(width=32).map(repr),
    "double": st.floats().map(repr),
    "boolean": st.sampled_from(["true", "false"]),
    "uuid": st.uuids().map(str),
    "binary": st.binary(max_size=300).map(lambda each: base64.b64encode(each).decode()),
    "decimal32": st.binary(min_size=4, max_size=4).map(bytes.hex),
    "decimal64": st.binary(min_size=8, max_size=8).map(bytes.hex),
    "decimal128": st.binary(min_size=16, max_size=16).map(bytes.hex),
    "com.microsoft:uri": texts,
    "amqp": st.just(base64.b64encode(b"\xc0\x03\x02\x41\x42").decode()),
}
KINDS: Final = tuple(_TEXTS)

properties = st.sampled_from(KINDS).flatmap(
    lambda kind: st.fixed_dictionaries({"type": st.just(kind), "value": st.none() | _TEXTS[kind]})
)
property_maps = st.dictionaries(texts, st.none() | properties, max_size=4)

_VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "message_id": keys,
    "session_id": keys,
    "correlation_id": some_texts,
    "subject": some_texts,
    "content_type": st.none() | _TEXTS["symbol"],
    "to": some_texts,
    "reply_to": some_texts,
    "reply_to_session_id": keys,
    "time_to_live": st.none() | st.integers(0, 2**33) | st.just(60_000),
    # Microseconds.
    "scheduled_enqueue_time": st.none() | st.integers(0, 2**50),
    "application_properties": st.none() | property_maps.map(lambda each: list(each.items())),
    "body": st.none() | st.binary(max_size=20) | st.integers(250, 260).map(bytes),
}


def row_values() -> st.SearchStrategy[dict[str, Any]]:
    """Make the values of one row that is a message: session and key never contradict."""

    def with_key(row: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
        key = keys if row["session_id"] is None else st.sampled_from([None, row["session_id"]])
        return key.map(lambda each: {**row, "partition_key": each})

    return st.fixed_dictionaries(_VALUES).flatmap(with_key)


def batch_of(rows: list[dict[str, Any]], names: tuple[str, ...] = WRITABLE) -> pa.RecordBatch:
    """Make a batch of rows, in the columns that are named."""
    return pa.record_batch(
        [_column(name, [row.get(name) for row in rows]) for name in names], names=list(names)
    )


@dataclass(frozen=True)
class EncodedRows:
    """Messages made of rows by the fragment that they are for, and the rows that cannot be any."""

    groups: dict[int | None, PackedMessages]
    rejected: list[RejectedRow]

    @property
    def rows(self) -> int:
        """How many rows have become messages."""
        return sum(map(len, self.groups.values()))


def encode_rows(
    batch: pa.RecordBatch, target: Target, *, first_row: int = 0, rejects: bool = False
) -> EncodedRows:
    """Make messages of rows at once, none of them staying columns."""
    checked = check_rows(batch, target, first_row=first_row, rejects=rejects)
    return EncodedRows(checked.encoded(target), checked.rejected)


def _column(name: str, values: list[Any]) -> pa.Array:
    return pa.array(values, ARROW_TYPES[COLUMNS[name]])


def new_id() -> str:
    """Make an id that no other row has."""
    return uuid.uuid4().hex
