"""How marks are written in a row: JSON and its checksum, or nothing for the many that have none.

9d3f02c1{"dead_letter_reason": "Rejected"}
"""

import base64
import json
from dataclasses import fields as fields_of
from functools import lru_cache
from typing import Final

from zlib_ng.zlib_ng import crc32

from bendybus.model.message import Marks

_CHECKSUM_DIGITS: Final = 8
_REMEMBERED_MAX: Final = 256
_REMEMBERED_LENGTH_MAX: Final = 1000
_NAMES: Final = tuple(field.name for field in fields_of(Marks))


class MarksDamaged(ValueError):
    """The text is not what was written."""


def marks_to_text(marks: Marks) -> str:
    """Encode marks for a column."""
    fields = {name: value for name in _NAMES if (value := getattr(marks, name)) is not None}
    if marks.property_changes is not None:
        fields["property_changes"] = base64.b64encode(marks.property_changes).decode()
    text = json.dumps(fields)
    return _checksum(text) + text


def marks_from_text(text: str) -> Marks:
    """Decode what `marks_to_text` made. Raises `MarksDamaged` for anything else."""
    return _remembered(text) if len(text) <= _REMEMBERED_LENGTH_MAX else _decode(text)


def _decode(text: str) -> Marks:
    content = text[_CHECKSUM_DIGITS:]
    if text[:_CHECKSUM_DIGITS] != _checksum(content):
        raise MarksDamaged(text)
    fields = json.loads(content)
    if "property_changes" in fields:
        fields["property_changes"] = base64.b64decode(fields["property_changes"])
    return Marks(**fields)


# Dead letters of one kind have the same marks, and whoever goes through them reads many.
_remembered: Final = lru_cache(maxsize=_REMEMBERED_MAX)(_decode)


def _checksum(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'surrogatepass')):0{_CHECKSUM_DIGITS}x}"
