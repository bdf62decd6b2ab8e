"""Values of application properties as a type and a text; see `schema` for the table."""

import base64
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from bendybus.amqp.encode import encode_value
from bendybus.amqp.values import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)
from bendybus.columns.schema import DESCRIBED_TYPES

# What .NET's own types describe: ticks, or a text.
DESCRIBED: Final[dict[str, type]] = dict(zip(DESCRIBED_TYPES, (Long, Long, str), strict=True))

TypedText = tuple[str, str | None]

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the Z is written behind it
# The year 1 and the year 9999.
FIRST_DATE: Final = -62_135_596_800_000
LAST_DATE: Final = 253_402_300_799_999


def time_text(milliseconds: int) -> str:
    """Write a moment as a date; one that has none, as its milliseconds."""
    if not FIRST_DATE <= milliseconds <= LAST_DATE:
        return str(int(milliseconds))
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds") + "Z"


def _digits(value: int) -> str:
    return str(int(value))


def _fraction(value: float) -> str:
    return repr(float(value))


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


_FORMS: Final[dict[type, tuple[str, Callable[[Any], str | None]]]] = {
    type(None): ("null", lambda _: None),
    str: ("string", str),
    Symbol: ("symbol", str),
    Char: ("char", str),
    bool: ("boolean", lambda value: "true" if value else "false"),
    Ubyte: ("ubyte", _digits),
    Ushort: ("ushort", _digits),
    Uint: ("uint", _digits),
    Ulong: ("ulong", _digits),
    Byte: ("byte", _digits),
    Short: ("short", _digits),
    Int: ("int", _digits),
    Long: ("long", _digits),
    int: ("long", _digits),
    Float: ("float", _fraction),
    float: ("double", _fraction),
    Timestamp: ("timestamp", time_text),
    uuid.UUID: ("uuid", str),
    bytes: ("binary", _base64),
    Decimal32: ("decimal32", bytes.hex),
    Decimal64: ("decimal64", bytes.hex),
    Decimal128: ("decimal128", bytes.hex),
}


def typed_text(value: object) -> TypedText:
    """Return the type and the text of any value."""
    form = _FORMS.get(type(value))
    if form is not None:
        return form[0], form[1](value)
    if isinstance(value, Described) and isinstance(value.descriptor, Symbol):
        inner = DESCRIBED.get(value.descriptor)
        if inner is not None and type(value.value) is inner:
            return str(value.descriptor), str(value.value)
    return "amqp", _base64(encode_value(value))
