"""Single values, as the elements of descriptions hold them."""

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, unquote
from uuid import UUID

from bendybus.atom.xml_reading import Element
from bendybus.atom.xml_writing import SCHEMA, SERIALIZATION, escape
from bendybus.model.durations import parse_duration
from bendybus.model.entity import EntityStatus
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.rule import PropertyValue
from bendybus.model.sql_values import INT64_MAX, INT64_MIN
from bendybus.model.time_values import Moment, Span

# What the service writes for a time that never was.
NEVER: Final = "0001-01-01T00:00:00Z"
# From here on a duration is one without end. The Python client rounds the service's greatest
# duration, which does not fit its own type, and sends back a little less than it got.
_ENDLESS: Final = timedelta(days=10_675_199)
_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://(?P<host>[^/?#]*)/?(?P<path>[^?#]*)")
# The clients cut five characters off the type of a value in order to know it.
_PREFIX: Final = "d6p1"


def read_flag(element: Element) -> bool:
    """Read `true` or `false`."""
    text = element.text.strip().lower()
    if text not in {"true", "false", "1", "0"}:
        raise ArgumentInvalid(f"{element.text!r} is neither true nor false")
    return text in {"true", "1"}


def read_number(element: Element) -> int:
    """Read a whole number of 64 bits."""
    text = element.text.strip()
    if not _INTEGER.fullmatch(text) or not INT64_MIN <= int(text) <= INT64_MAX:
        raise ArgumentInvalid(f"{element.text!r} is not a whole number")
    return int(text)


def read_duration(element: Element) -> timedelta:
    """Read a duration that must end."""
    return parse_duration(element.text.strip())


def read_duration_or_forever(element: Element) -> timedelta | None:
    """Read a duration; None is one without end."""
    duration = read_duration(element)
    return None if duration >= _ENDLESS else duration


def read_status(element: Element) -> EntityStatus:
    """Read the status of an entity."""
    text = element.text.strip()
    try:
        return EntityStatus(text)
    except ValueError:
        words = ", ".join(status.value for status in EntityStatus)
        raise ArgumentInvalid(f"{text!r} is not a status that can be set; use {words}") from None


def read_text_or_none(element: Element) -> str | None:
    """Read a text; an empty one is none."""
    return element.text or None


def read_entity_path(element: Element) -> str | None:
    """Read the name of an entity, given alone or as the end of a URL."""
    text = element.text.strip()
    absolute = _ABSOLUTE.fullmatch(text)
    path = text if absolute is None else unquote(absolute["path"])
    return path.strip("/") or None


def host_in_entity_url(element: Element) -> str | None:
    """Return the host of a URL that names an entity; None where the name stands alone."""
    absolute = _ABSOLUTE.fullmatch(element.text.strip())
    return None if absolute is None else absolute["host"]


def write_entity_url(host: str, path: str) -> str:
    """Write the name of an entity as a URL, as clients expect to find it in answers."""
    return f"sb://{host}/{quote(path, safe='/$')}"


def write_flag(value: bool) -> str:  # noqa: FBT001 - the value is what is written
    """Write `true` or `false`."""
    return "true" if value else "false"


def write_date_time(at: datetime | None) -> str:
    """Write a time in UTC with the seven digits that .NET writes; None is one that never was."""
    if at is None:
        return NEVER
    # Ten times as fast as strftime, and each answer has several.
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}0Z"


def read_any(element: Element) -> PropertyValue:
    """Read a value that says its type; without one it is a text."""
    kind = element.type_name
    read = _READERS.get(kind)
    if read is None:
        raise ArgumentInvalid(f"values of the type {kind[:50]!r} are not known")
    try:
        return read(element)
    except (ValueError, binascii.Error):
        raise ArgumentInvalid(f"{element.text!r} is not a value of type {kind}") from None


def write_any(name: str, value: PropertyValue) -> str:
    """Write an element that says its value's type."""
    kind, text, namespace = _typed(value)
    return (
        f'<{name} i:type="{_PREFIX}:{kind}" xmlns:{_PREFIX}="{namespace}">{escape(text)}</{name}>'
    )


def _typed(value: PropertyValue) -> tuple[str, str, str]:  # noqa: PLR0911 - one for each type
    """Return the type's name, the text, and the namespace of the type."""
    match value:
        case Moment():
            return "dateTime", value.text, SCHEMA
        case Span():
            return "duration", value.text, SERIALIZATION
        case bool():
            return "boolean", write_flag(value), SCHEMA
        case int():
            is_short = _INT32_MIN <= value <= _INT32_MAX
            return "int" if is_short else "long", str(int(value)), SCHEMA
        case float():
            return "double", _double(value), SCHEMA
        case str():
            return "string", value, SCHEMA
        case UUID():
            return "guid", str(value), SERIALIZATION
        case bytes():
            return "base64Binary", base64.b64encode(value).decode("ascii"), SCHEMA


def _double(value: float) -> str:
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return repr(float(value))


def _read_text(element: Element) -> str:
    return element.text


def _read_double(element: Element) -> float:
    text = element.text.strip()
    if "_" in text:  # which Python would take
        raise ValueError
    return float(text)


_READERS: Final[Mapping[str, Callable[[Element], PropertyValue]]] = {
    **dict.fromkeys(("", "string", "anyURI", "char"), _read_text),
    **dict.fromkeys(("byte", "short", "int", "long", "integer"), read_number),
    **dict.fromkeys(("unsignedByte", "unsignedShort", "unsignedInt", "unsignedLong"), read_number),
    **dict.fromkeys(("double", "float", "decimal"), _read_double),
    "boolean": read_flag,
    "dateTime": lambda element: Moment.from_text(element.text.strip()),
    "duration": lambda element: Span.from_text(element.text.strip()),
    "guid": lambda element: UUID(element.text.strip()),
    "base64Binary": lambda element: base64.b64decode(element.text, validate=True),
}
