"""How marks are written in a row: JSON and its checksum, or nothing for the many that have none.

9d3f02c1{"dead_letter_reason": "Rejected"}
"""

import base64
import json
from dataclasses import fields as fields_of
from typing import Final
from zlib import crc32

from bendybus.model.message import Marks

_CHECKSUM_DIGITS: Final = 8
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
    content = text[_CHECKSUM_DIGITS:]
    if text[:_CHECKSUM_DIGITS] != _checksum(content):
        raise MarksDamaged(text)
    fields = json.loads(content)
    if "property_changes" in fields:
        fields["property_changes"] = base64.b64decode(fields["property_changes"])
    return Marks(**fields)


def _checksum(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'surrogatepass')):0{_CHECKSUM_DIGITS}x}"
