"""Application properties of all rows of a batch to AMQP, many rows at once.

Texts are joined in C. Values of another type are encoded once for each that differs: there are many
rows with few states, sizes or flags.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bendybus.columns.pieces import (
    NULL,
    STRING,
    Pieces,
    Sizes,
    by_size,
    compound_head,
    lengths,
)
from bendybus.columns.property_bytes import PropertyInvalid, encode_property
from bendybus.model.limits import PROPERTIES_BYTES_MAX, PROPERTY_BYTES_MAX

_SECTION: Final = b"\x00\x53\x74"
# Of a long text: a constructor and a size.
_LONG_VALUE_OVERHEAD: Final = 5
_COUNT_BITS: Final = 20
_COUNT_MAX: Final = (1 << _COUNT_BITS) - 1


class Fault(NamedTuple):
    """What is wrong with a row of a batch."""

    row: int
    why: str


class _Entries(NamedTuple):
    """The entries of all rows one after the other, and where those of each row begin."""

    starts: Sizes
    names: pa.Array
    kinds: pa.Array | None
    values: pa.Array

    def row_of(self, entry: int) -> int:
        """Return the row that has an entry."""
        return int(np.searchsorted(self.starts, entry, side="right")) - 1


def add_properties(pieces: Pieces, column: pa.Array) -> list[Fault]:
    """Add the section of application properties, in rows that have any; return what is wrong."""
    entries = _entries(column)
    if not len(entries.names):
        return []
    values, faults = _encoded_values(entries)
    faults += _too_large(entries, values)
    pairs = Pieces(len(entries.names))
    pairs.add_values(entries.names.cast(pa.binary()), STRING)
    pairs.add_column(values, lengths(values))
    rows = _joined_rows(pairs.joined(), entries.starts)
    counts = np.diff(entries.starts)
    sizes = lengths(rows)
    heads = by_size(sizes << _COUNT_BITS | np.minimum(counts, _COUNT_MAX), _head)
    if isinstance(heads, bytes):
        pieces.add(heads)
    else:
        pieces.add_column(heads, lengths(heads))
    pieces.add_column(rows, sizes)
    whole = sizes + np.where(counts > 0, len(_SECTION) + _LONG_VALUE_OVERHEAD, 0)
    for row in np.flatnonzero(whole > PROPERTIES_BYTES_MAX):
        why = (
            f"its application properties have {whole[row]} bytes; all together they may have"
            f" {PROPERTIES_BYTES_MAX}"
        )
        faults.append(Fault(int(row), why))
    return faults


def _head(size_and_count: int) -> bytes:
    count = size_and_count & _COUNT_MAX
    if not count:
        return b""
    return compound_head(_SECTION, 0xC1, 0xD1, 2 * count)(size_and_count >> _COUNT_BITS)


def _entries(column: pa.MapArray) -> _Entries:
    if column.null_count and np.any(np.diff(column.offsets)[np.asarray(pc.is_null(column))]):
        # Rows without a map may still have entries behind them.
        column = pa.array(column.to_pylist(), column.type)
    starts: Sizes = np.asarray(column.offsets).astype(np.int64)
    first, end = int(starts[0]), int(starts[-1])
    names = column.keys[first:end]
    items = column.items[first:end]
    if pa.types.is_struct(items.type):
        kinds, values = items.field("type"), items.field("value")
        if items.null_count:
            is_there = pc.is_valid(items)
            kinds, values = (pc.if_else(is_there, each, None) for each in (kinds, values))
        return _Entries(starts - first, names, kinds.cast(pa.string()), values.cast(pa.string()))
    return _Entries(starts - first, names, None, items.cast(pa.string()))


def _encoded_values(entries: _Entries) -> tuple[pa.Array, list[Fault]]:
    """Return the encoding of every value; null in place of those that have none."""
    kinds, values = entries.kinds, entries.values
    if kinds is None:
        return _texts(values), []
    faults: list[Fault] = []
    encoded: list[pa.Array] = []
    places: list[Sizes] = []
    coded = kinds.dictionary_encode()
    codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
    names: list[str | None] = [*coded.dictionary.to_pylist(), None]
    for code in np.unique(codes):
        at = np.flatnonzero(codes == code)
        some = values if len(at) == len(values) else values.take(pa.array(at))
        kind = names[code]
        if kind == "string":
            encoded.append(_texts(some))
        else:
            table, wrong = _encoded_once(kind, some)
            encoded.append(table)
            for index, why in wrong:
                entry = int(at[index])
                name = entries.names[entry].as_py()
                faults.append(Fault(entries.row_of(entry), f"its property {name!r} {why}"))
        places.append(at)
    if len(encoded) == 1:
        return encoded[0], faults
    order = np.argsort(np.concatenate(places), kind="stable")
    return pa.concat_arrays(encoded).take(pa.array(order)), faults


def _texts(values: pa.Array) -> pa.Array:
    pieces = Pieces(len(values))
    if values.null_count == len(values):
        pieces.add(NULL)
    else:
        pieces.add_values(values.cast(pa.binary()), STRING)
    return pieces.joined()


def _encoded_once(kind: str | None, values: pa.Array) -> tuple[pa.Array, Iterator[Fault]]:
    """Encode values of one type, each that differs once; also say which are wrong, and why."""
    coded = values.dictionary_encode("encode")
    table: list[bytes] = []
    reasons: dict[int, str] = {}
    for code, text in enumerate(coded.dictionary.to_pylist()):
        try:
            table.append(encode_property(kind, text))
        except PropertyInvalid as error:
            table.append(NULL)
            reasons[code] = str(error)
    indices = coded.indices
    wrong = (
        Fault(int(at), reasons[code])
        for at, code in enumerate(indices.to_pylist() if reasons else ())
        if code in reasons
    )
    return pa.array(table, pa.binary()).take(indices), wrong


def _too_large(entries: _Entries, values: pa.Array) -> list[Fault]:
    sizes = lengths(values)
    return [
        Fault(
            entries.row_of(int(entry)),
            f"its property {entries.names[int(entry)].as_py()!r} is larger than"
            f" {PROPERTY_BYTES_MAX} bytes",
        )
        for entry in np.flatnonzero(sizes > PROPERTY_BYTES_MAX + _LONG_VALUE_OVERHEAD)
    ]


def _joined_rows(entries: pa.Array, starts: Sizes) -> pa.Array:
    """Make one value of the entries of each row; they lie behind each other already."""
    _, offsets, contents = entries.buffers()
    ends = np.frombuffer(offsets, np.int32)[entries.offset : entries.offset + len(entries) + 1]
    chosen = pa.py_buffer(np.ascontiguousarray(ends[starts]))
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, [None, chosen, contents])
