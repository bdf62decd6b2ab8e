"""What happened to messages, shown among their properties: why they were dead-lettered, and what
receivers changed.
"""  # noqa: D205 - one sentence

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from bendybus.columns.arrow_types import PROPERTIES
from bendybus.columns.gathering import Numbers
from bendybus.columns.property_texts import TypedText, typed_text
from bendybus.content.outgoing_message import properties_of_marks
from bendybus.model.message import Marks


def marked_rows(marks: Sequence[Marks | None]) -> Numbers:
    """Return which messages have something to show."""
    rows = [at for at, each in enumerate(marks) if each and not each.tell_only_the_way]
    return np.array(rows, np.int64)


def with_marks(maps: pa.Array, marks: Sequence[Marks | None]) -> pa.Array | None:
    """Add what marks amount to behind the properties of each message.

    None if a name is among both, and some must be replaced: that is done one by one.
    """
    # Few different ones, mostly, stand beside many messages.
    places: dict[int, int] = {}
    different: list[Marks] = []
    which = np.zeros(len(marks), np.int64)
    for at in marked_rows(marks).tolist():
        mark = marks[at]
        assert mark is not None
        place = places.setdefault(id(mark), len(different) + 1)
        if place > len(different):
            different.append(mark)
        which[at] = place
    more = map_column([{}, *(_shown(each) for each in different)])
    if not set(more.keys.to_pylist()).isdisjoint(maps.keys.unique().to_pylist()):
        return None
    return _joined(maps, more.take(pa.array(which)))


def map_column(rows: Sequence[dict[str, TypedText]]) -> pa.Array:
    """Make a column of properties that are known one by one."""
    return pa.array(
        [
            [(name, {"type": kind, "value": text}) for name, (kind, text) in row.items()]
            for row in rows
        ],
        PROPERTIES,
    )


def _shown(marks: Marks) -> dict[str, TypedText]:
    return {str(name): typed_text(value) for name, value in properties_of_marks(marks).items()}


def _joined(first: pa.Array, second: pa.Array) -> pa.Array:
    """Put the entries of two columns of maps behind each other, message by message."""
    bounds_1, bounds_2 = first.offsets.to_numpy(), second.offsets.to_numpy()
    total_1, total_2 = len(first.keys), len(second.keys)
    order = np.empty(total_1 + total_2, np.int64)
    at_1 = np.arange(total_1) + np.repeat(bounds_2[:-1], np.diff(bounds_1))
    at_2 = np.arange(total_2) + np.repeat(bounds_1[1:], np.diff(bounds_2))
    order[at_1] = np.arange(total_1)
    order[at_2] = np.arange(total_1, total_1 + total_2)
    places = pa.array(order)
    keys = pa.concat_arrays([first.keys, second.keys]).take(places)
    items = pa.concat_arrays([first.items, second.items]).take(places)
    offsets = (bounds_1 + bounds_2).astype(np.int32)
    entries = pa.StructArray.from_arrays(
        [keys, items], fields=[PROPERTIES.key_field, PROPERTIES.item_field]
    )
    return pa.Array.from_buffers(
        PROPERTIES, len(first), [None, pa.py_buffer(offsets)], children=[entries]
    )
