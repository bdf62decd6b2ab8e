"""From the text of an application property to its AMQP encoding, by the type that it names.

The types and their texts are those of `schema`; what is refused says what would be right.
"""

import base64
import binascii
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Final

from bendybus.amqp.decode import decode_value
from bendybus.amqp.encode import encode_value
from bendybus.amqp.values import (
    AmqpCodecError,
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

NULL: Final = b"\x40"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_TRUTHS: Final = {"true": True, "false": False}
_URI: Final = "com.microsoft:uri"


class PropertyInvalid(ValueError):
    """The text is not one of its type, or there is no such type."""


def encode_property(kind: str | None, text: str | None) -> bytes:
    """Encode one value. Raises `PropertyInvalid`."""
    if kind is None or kind == "null":
        if text is not None:
            raise PropertyInvalid(f"has the value {text!r} and no type")
        return NULL
    reader = _READERS.get(kind)
    if reader is None:
        near = get_close_matches(kind, [*_READERS, "null"], 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(_READERS)}"
        raise PropertyInvalid(f"has the unknown type {kind!r}{hint}")
    if text is None:
        return NULL
    try:
        return reader(text)
    except (ValueError, OverflowError) as error:
        raise PropertyInvalid(f"has the value {text!r}, which is no {kind}: {error}") from error


def _plain(make: Callable[[str], object]) -> Callable[[str], bytes]:
    return lambda text: encode_value(make(text))


def _integer(kind: Callable[[int], object]) -> Callable[[str], bytes]:
    def encode(text: str) -> bytes:
        if not _INTEGER.fullmatch(text):
            raise ValueError("write it in digits")
        return encode_value(kind(int(text)))

    return encode


def _boolean(text: str) -> object:
    if text not in _TRUTHS:
        raise ValueError("write true or false")
    return _TRUTHS[text]


def _timestamp(text: str) -> object:
    if _INTEGER.fullmatch(text):
        return Timestamp(int(text))
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Timestamp((moment - _EPOCH) // timedelta(milliseconds=1))


def _binary(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"write it in base64 ({error})") from error


def _described(kind: str) -> Callable[[str], bytes]:
    def encode(text: str) -> bytes:
        if kind != _URI and not _INTEGER.fullmatch(text):
            raise ValueError("write its ticks in digits")
        value: object = text if kind == _URI else Long(int(text))
        return encode_value(Described(Symbol(kind), value))

    return encode


def _as_encoded(text: str) -> bytes:
    encoded = _binary(text)
    try:
        _, end = decode_value(encoded, 0)
    except (AmqpCodecError, IndexError) as error:
        raise ValueError(f"it cannot be read ({error})") from error
    if end != len(encoded):
        raise ValueError(f"{len(encoded) - end} bytes are too many")
    return encoded


_READERS: Final[dict[str, Callable[[str], bytes]]] = {
    "string": _plain(str),
    "symbol": _plain(Symbol),
    "char": _plain(Char),
    "ubyte": _integer(Ubyte),
    "ushort": _integer(Ushort),
    "uint": _integer(Uint),
    "ulong": _integer(Ulong),
    "byte": _integer(Byte),
    "short": _integer(Short),
    "int": _integer(Int),
    "long": _integer(Long),
    "float": _plain(Float),
    "double": _plain(float),
    "boolean": _plain(_boolean),
    "timestamp": _plain(_timestamp),
    "uuid": _plain(uuid.UUID),
    "binary": _plain(_binary),
    "decimal32": _plain(lambda text: Decimal32(bytes.fromhex(text))),
    "decimal64": _plain(lambda text: Decimal64(bytes.fromhex(text))),
    "decimal128": _plain(lambda text: Decimal128(bytes.fromhex(text))),
    **{kind: _described(kind) for kind in DESCRIBED_TYPES},
    "amqp": _as_encoded,
}
