"""Finds the parts of contents of the common shapes, for very many at a time.

    size of head · head · properties · application properties or none · one body, which ends it

Whatever is different is not regular, and `one_by_one` reads it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bendybus.columns.one_by_one import PROPERTY_FIELDS
from bendybus.columns.walking import NULL, Field, Flags, Numbers, Walk
from bendybus.model.scanned import NO_INSTANT, Slices

_LONG_HEAD: Final = 255
_FIELDS_MAX: Final = 13
# More would take a step each, for all messages.
_PROPERTIES_MAX: Final = 64
# Codes of sections, and constructors of their values.
_HEADER, _MESSAGE_ANNOTATIONS, _PROPERTIES, _APPLICATION_PROPERTIES = 0x70, 0x72, 0x73, 0x74
_DATA, _VALUE = 0x75, 0x77
_LISTS, _MAPS = (0xC0, 0xD0), (0xC1, 0xD1)
_BINARIES, _STRINGS = (0xA0, 0xB0), (0xA1, 0xB1)
# How many bytes a section has before its value.
_DESCRIPTOR_SIZE: Final = 3
# The constructors of texts.
TEXTS: Final = np.zeros(256, bool)
TEXTS[[0xA1, 0xA3, 0xB1, 0xB3]] = True
_UINT0: Final = 0x43
_TIMESTAMP: Final = 0x83
_TIME_TO_LIVE: Final = 2
# How long the name of the annotation is, and how it begins; no other begins so.
_SCHEDULED_LENGTH: Final = len("x-opt-scheduled-enqueue-time")
_SCHEDULED_START: Final = int.from_bytes(b"x-opt-sc", "big")
# Values of application properties that `property_columns` can read.
READABLE: Final = np.zeros(256, bool)
READABLE[[0x40, 0x41, 0x42, 0x43, 0x44, 0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56]] = True
READABLE[[0x60, 0x61, 0x70, 0x71, 0x80, 0x81, 0x82, 0x83, 0x98, 0xA1, 0xA3, 0xB1, 0xB3]] = True


@dataclass(slots=True)
class Properties:
    """The application properties of all messages, one behind the other in order."""

    counts: Numbers
    names: Field
    values: Field


@dataclass(slots=True)
class Parts:
    """Where the parts of the contents are. Says nothing true of those that are not regular."""

    is_regular: Flags
    walk: Walk
    texts: dict[str, Field] = field(default_factory=dict)
    # -1 where the header says nothing; `NO_INSTANT` where no annotation does.
    time_to_live: Numbers | None = None
    scheduled_at: Numbers | None = None
    properties: Properties | None = None
    body: Field | None = None
    # Places in `BODY_TYPES`.
    body_types: NDArray[np.int8] | None = None


def find_parts(contents: Slices, names: Collection[str]) -> Parts:
    """Walk through all contents, and look at what is needed for some columns."""
    starts, ends = np.asarray(contents.starts), np.asarray(contents.ends)
    walk = Walk(contents.joined, starts, ends)
    parts = Parts(walk.is_regular, walk)
    _read_head(walk, parts, contents.joined)
    _read_properties(walk, parts, names)
    _read_application_properties(walk, parts, is_wanted="application_properties" in names)
    if "body" in names or "body_type" in names:
        _read_body(walk, parts)
    parts.is_regular = walk.is_regular
    return parts


def _read_head(walk: Walk, parts: Parts, joined: bytes) -> None:
    """Pass the head; of what it says, the time to live and the schedule are read."""
    sizes = walk.byte().astype(np.int64)
    walk.expect(sizes != _LONG_HEAD)
    if sizes.any():
        head = Walk(joined, walk.at + 1, walk.at + 1 + sizes)
        _read_header(head, parts)
        _read_annotations(head, parts)
        head.expect(head.is_at_end)
        walk.expect(head.is_regular)
    walk.move(sizes + 1)


def _read_header(head: Walk, parts: Parts) -> None:
    code, constructor = head.section()
    has_header = (code == _HEADER) & (constructor == _LISTS[0]) & ~head.is_at_end
    if not has_header.any():
        return
    ends = head.at + 5 + head.byte(4)
    counts = head.byte(5) * has_header
    head.move(has_header * 6)
    for index in range(int(counts.max())):
        found = head.field(counts > index)
        if index == _TIME_TO_LIVE:
            parts.time_to_live = _small_numbers(head, found)
    head.expect(~has_header | (head.at == ends))


def _read_annotations(head: Walk, parts: Parts) -> None:
    if head.is_at_end.all():
        return
    _, counts, ends = _compound(head, _MESSAGE_ANNOTATIONS, _MAPS)
    head.expect(counts <= 2 * _PROPERTIES_MAX)
    counts = np.where(head.is_regular, counts >> 1, 0)
    for index in range(int(counts.max())):
        is_counted = counts > index
        name, value = head.field(is_counted), head.field(is_counted)
        is_long_enough = is_counted & (name.ends - name.starts == _SCHEDULED_LENGTH)
        here = np.nonzero(is_long_enough & head.is_regular & (value.codes == _TIMESTAMP))[0]
        if not len(here):
            continue
        here = here[head.numbers_at(name.starts[here], ">u8") == np.uint64(_SCHEDULED_START)]
        if parts.scheduled_at is None:
            parts.scheduled_at = np.full(len(counts), NO_INSTANT, np.int64)
        parts.scheduled_at[here] = head.numbers_at(value.starts[here], ">i8")
    head.expect(head.at == ends)


def _small_numbers(walk: Walk, found: Field) -> Numbers:
    """Read unsigned integers of any width; -1 where there is null."""
    values = np.full(len(found.starts), -1, np.int64)
    values[found.codes == _UINT0] = 0
    for code, width in ((0x52, 1), (0x70, 4)):
        here = np.nonzero((found.codes == code) & walk.is_regular)[0]
        if len(here):
            values[here] = walk.numbers_at(found.starts[here], f">u{width}")
    return values


def _compound(
    walk: Walk, section: int, constructors: tuple[int, int]
) -> tuple[Flags, Numbers, Numbers]:
    """Enter a list or a map: who has it, how many items it has, and where it ends."""
    code, constructor = walk.section()
    is_here = code == section
    is_short, is_long = (
        is_here & (constructor == constructors[0]),
        is_here & (constructor == constructors[1]),
    )
    counts = walk.byte(5).astype(np.int64)
    ends = walk.at + 5 + walk.byte(4)
    heads = is_short * 6
    if is_long.any():
        heads = heads + is_long * 12
        counts = np.where(is_long, walk.word(8), counts)
        ends = np.where(is_long, walk.at + 8 + walk.word(4), ends)
    is_there = is_short | is_long
    if not is_there.all():
        counts = counts * is_there
        ends = np.where(is_there, ends, walk.at)
    walk.move(heads)
    return is_there, counts, ends


def _read_properties(walk: Walk, parts: Parts, names: Collection[str]) -> None:
    is_there, counts, ends = _compound(walk, _PROPERTIES, _LISTS)
    walk.expect(is_there & (counts <= _FIELDS_MAX))
    last = max((at for at, name in PROPERTY_FIELDS.items() if name in names), default=-1)
    most = int(counts.max(initial=0, where=walk.is_regular))
    least = int(counts.min(initial=_FIELDS_MAX))
    for index in range(min(most, last + 1)):
        is_counted = None if index < least else counts > index
        if walk.skip_null(is_counted):
            continue
        found = walk.field(is_counted)
        if PROPERTY_FIELDS.get(index) in names:
            walk.expect(TEXTS[found.codes] | (found.codes == NULL))
            parts.texts[PROPERTY_FIELDS[index]] = found
    walk.move_to(ends)


def _read_application_properties(walk: Walk, parts: Parts, *, is_wanted: bool) -> None:
    _, counts, ends = _compound(walk, _APPLICATION_PROPERTIES, _MAPS)
    if is_wanted:
        walk.expect((counts % 2 == 0) & (counts <= 2 * _PROPERTIES_MAX))
        counts = np.where(walk.is_regular, counts >> 1, 0)
        most = int(counts.max(initial=0))
        if most:
            parts.properties = _pairs(walk, counts, most)
    walk.move_to(ends)


def _pairs(walk: Walk, counts: Numbers, most: int) -> Properties:
    """Read as many names and values as each message has."""
    total = int(counts.sum())
    names, values = _empty_field(total), _empty_field(total)
    least = int(counts.min())
    firsts = np.cumsum(counts) - counts
    for index in range(most):
        is_counted = None if index < least else counts > index
        name, value = walk.field(is_counted), walk.field(is_counted)
        is_good = TEXTS[name.codes] & READABLE[value.codes]
        places: Numbers | slice
        if least == most:
            places = slice(index, None, most)
            walk.expect(is_good)
        elif is_counted is None:
            places = firsts + index
            walk.expect(is_good)
        else:
            walk.expect(is_good | ~is_counted)
            rows = np.nonzero(is_counted)[0]
            places = firsts[rows] + index
            name, value = name.of(rows), value.of(rows)
        for whole, part in ((names, name), (values, value)):
            whole.codes[places] = part.codes
            whole.starts[places] = part.starts
            whole.ends[places] = part.ends
    return Properties(counts, names, values)


def _empty_field(count: int) -> Field:
    return Field(np.zeros(count, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64))


def _read_body(walk: Walk, parts: Parts) -> None:
    code, constructor = walk.section()
    is_binary = (constructor == _BINARIES[0]) | (constructor == _BINARIES[1])
    is_data = (code == _DATA) & is_binary
    if not is_data.all():
        is_value = code == _VALUE
        is_text = is_value & ((constructor == _STRINGS[0]) | (constructor == _STRINGS[1]))
        is_binary &= is_value
        walk.expect(is_data | is_text | is_binary)
        parts.body_types = (is_text + 2 * is_binary).astype(np.int8)
    walk.move(np.full(1, _DESCRIPTOR_SIZE, np.int64))
    parts.body = walk.field()
    walk.expect(walk.is_at_end)
