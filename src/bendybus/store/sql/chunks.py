"""Chunks of staged messages as rows of a table: what is written of one, and read again.

Of contents, one checksum covers all of a chunk. Of columns, those beside the bodies and the bodies
have one each, kept among what is said of the chunk, so that one part can be read without the other.
"""

import json
from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from zlib_ng.zlib_ng import crc32

from bendybus.model.packed_messages import (
    PackedMessages,
    PackedRows,
    fields_to_text,
    unpack,
)
from bendybus.store.checksum import encoded_fields
from bendybus.store.sql.database import SqlDatabase

# Said of chunks of columns alone.
_CHECKSUMS: Final = "column_checksums"
_LIFE: Final = "time_to_live_ms"
_BYTES: Final = "content_bytes"

# Queue, stage, ordinal and count of messages.
Place = tuple[int, int, int, int]


class WrittenChunk(NamedTuple):
    """A chunk as the columns of its row."""

    checksum: int
    fields: str
    # Of contents, how large each is; of columns, those beside the bodies.
    sizes: bytes
    contents: bytes


def written(place: Place, messages: PackedMessages | PackedRows) -> WrittenChunk:
    """Return what is written of a chunk."""
    if isinstance(messages, PackedRows):
        said = {
            _CHECKSUMS: [crc32(messages.beside), crc32(messages.bodies)],
            _LIFE: messages.time_to_live_ms,
            _BYTES: messages.content_bytes,
        }
        fields = json.dumps(said)
        return WrittenChunk(_seal(place, fields), fields, messages.beside, messages.bodies)
    fields = fields_to_text(messages)
    sizes = messages.sizes.tobytes()
    checksum = crc32(messages.contents, crc32(sizes, _seal(place, fields)))
    return WrittenChunk(checksum, fields, sizes, messages.contents)


def said_of_columns(place: Place, checksum: int, fields: Any) -> dict[str, Any] | None:  # noqa: ANN401 - of any type, if it is damaged
    """Return what is said of a chunk of columns; None of another, or if it is damaged."""
    try:
        # First, because what is said of contents may be long.
        if _CHECKSUMS not in fields or _seal(place, fields) != checksum:
            return None
        said: dict[str, Any] = json.loads(fields)
    except (TypeError, ValueError, AttributeError):
        return None
    return said if _CHECKSUMS in said else None


def life_of(said: dict[str, Any]) -> int | None:
    """Return how long each message of a chunk of columns lives."""
    life: int | None = said[_LIFE]
    return life


def checksums_of(said: dict[str, Any]) -> tuple[int, int]:
    """Return the checksums of the columns beside the bodies, and of the bodies."""
    beside, bodies = said[_CHECKSUMS]
    return beside, bodies


def read(place: Place, chunk: Sequence[Any]) -> PackedMessages | PackedRows | None:
    """Return the messages of a chunk; None if it is not as it was written."""
    checksum, fields, sizes, contents = chunk
    said = said_of_columns(place, checksum, fields)
    try:
        if said is not None:
            if checksums_of(said) != (crc32(sizes), crc32(contents)):
                return None
            return PackedRows(place[3], said[_BYTES], said[_LIFE], sizes, contents)
        if checksum != crc32(contents, crc32(sizes, _seal(place, fields))):
            return None
    except (TypeError, AttributeError):
        return None  # Changed bytes may also change a value's type.
    return unpack(contents, array("I", sizes), fields)


def read_published(database: SqlDatabase, number: int) -> PackedRows | None:
    """Return a chunk of columns that is part of its queue; None if it is damaged, or gone."""
    row = database.row("published_chunk", (number,))
    if row is None:
        return None
    queue, stage, ordinal, count, *parts = row
    rows = read((queue, stage, ordinal, count), parts)
    return rows if isinstance(rows, PackedRows) else None


def _seal(place: Place, fields: str) -> int:
    """Cover where a chunk belongs, and what is said of it."""
    return crc32(fields.encode(), crc32(encoded_fields(*place)))
