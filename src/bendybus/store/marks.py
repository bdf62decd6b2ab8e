"""How marks are written in a row: JSON, or nothing for the many messages that have none."""

import base64
import json
from dataclasses import asdict

from bendybus.model.message import Marks


def marks_to_text(marks: Marks | None) -> str | None:
    """Encode marks for a column."""
    if marks is None:
        return None
    fields = {name: value for name, value in asdict(marks).items() if value is not None}
    if marks.property_changes is not None:
        fields["property_changes"] = base64.b64encode(marks.property_changes).decode()
    return json.dumps(fields)


def marks_from_text(text: str | None) -> Marks | None:
    """Decode what `marks_to_text` made."""
    if text is None:
        return None
    fields = json.loads(text)
    if "property_changes" in fields:
        fields["property_changes"] = base64.b64decode(fields["property_changes"])
    return Marks(**fields)
