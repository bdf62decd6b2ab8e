"""Messages as bytes: which AMQP section holds what (AMQP 1.0 §3.2)."""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from bendybus.amqp.sections import (
    SectionCode,
    decode_list,
    decode_map,
    decode_section,
    encode_section,
    find_sections,
)
from bendybus.amqp.values import Timestamp, Ulong

BATCH_FORMAT: Final = 0x80013700
"""message-format of a delivery whose data sections are whole messages."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_SHORT_SIZE_MAX: Final = 200
"""Of a message id that surely leaves the properties a short list."""
_SMALL_DATA: Final = b"\x00\x53\x75\xa0"
_LARGE_DATA: Final = b"\x00\x53\x75\xb0"
_SMALL_DATA_SIZE_MAX: Final = 255


def instant(at: datetime) -> Timestamp:
    """Return a moment as AMQP counts; one without a time zone is refused, it could be any."""
    if at.tzinfo is None:
        raise ValueError("a time needs a time zone, such as datetime.now(UTC)")
    return Timestamp((at - _EPOCH) // _MILLISECOND)


def moment(at: object) -> datetime | None:
    """Return the time of a timestamp, or None for what is not one or beyond the calendar."""
    if not isinstance(at, int):
        return None
    try:
        return _EPOCH + int(at) * _MILLISECOND
    except OverflowError:
        return None


def id_value(given: object) -> object:
    """Return an id in a type that ids may have: a number is sent as ulong."""
    return Ulong(given) if type(given) is int else given


def encode_body(body: object) -> bytes:
    """Encode the body: bytes as data, anything else as the value it is."""
    if type(body) is not bytes:
        return encode_section(SectionCode.AMQP_VALUE, body)
    size = len(body)
    if size <= _SMALL_DATA_SIZE_MAX:
        return _SMALL_DATA + bytes((size,)) + body
    return _LARGE_DATA + size.to_bytes(4, "big") + body


def encode_id_alone(message_id: str) -> bytes | None:
    """Encode properties that are nothing but an id, or return None if the id is a long one."""
    encoded = message_id.encode()
    size = len(encoded)
    if size > _SHORT_SIZE_MAX:
        return None
    return b"\x00\x53\x73\xc0" + bytes((size + 3, 1, 0xA1, size)) + encoded


def encode_batch(messages: list[bytes], envelope: bytes) -> bytes:
    """Join whole messages into the payload of a batch; the envelope holds what routes them."""
    return envelope + b"".join(map(encode_body, messages))


@dataclass(slots=True)
class MessageParts:
    """A received message, taken apart."""

    header: list[object] = field(default_factory=list)
    delivery_annotations: dict[object, object] = field(default_factory=dict)
    annotations: dict[object, object] = field(default_factory=dict)
    properties: list[object] = field(default_factory=list)
    application_properties: dict[object, object] = field(default_factory=dict)
    body: object = None

    def property_at(self, index: int) -> object:
        """Return a field of the properties; those behind the last one sent are absent."""
        return self.properties[index] if index < len(self.properties) else None

    def text_at(self, index: int) -> str | None:
        """Return a field of the properties that is a text."""
        value = self.property_at(index)
        return str(value) if isinstance(value, str) else None

    def text(self, annotation: str) -> str | None:
        """Return an annotation that is a text."""
        value = self.annotations.get(annotation)
        return str(value) if isinstance(value, str) else None

    def number(self, annotation: str) -> int | None:
        """Return an annotation that is a number."""
        value = self.annotations.get(annotation)
        return int(value) if isinstance(value, int) else None

    def token(self) -> uuid.UUID | None:
        """Return the lock token, if the message has one inside."""
        value = self.delivery_annotations.get("x-opt-lock-token")
        return value if isinstance(value, uuid.UUID) else None


def read_parts(payload: bytes) -> MessageParts:
    """Take a message apart. Raises `DecodeError`."""
    parts = MessageParts()
    for section in find_sections(payload):
        match section.code:
            case SectionCode.HEADER:
                parts.header = decode_list(payload, section)
            case SectionCode.DELIVERY_ANNOTATIONS:
                parts.delivery_annotations = decode_map(payload, section)
            case SectionCode.MESSAGE_ANNOTATIONS:
                parts.annotations = decode_map(payload, section)
            case SectionCode.PROPERTIES:
                parts.properties = decode_list(payload, section)
            case SectionCode.APPLICATION_PROPERTIES:
                parts.application_properties = decode_map(payload, section)
            case SectionCode.FOOTER:
                pass
            case _:
                parts.body = _joined(parts.body, decode_section(payload, section), section.code)
    return parts


def _joined(before: object, value: object, code: int) -> object:
    """Join the sections of a body: bytes to bytes, items to items; a value stands alone."""
    if code == SectionCode.DATA and isinstance(before, bytes) and isinstance(value, bytes):
        return before + value
    if code == SectionCode.AMQP_SEQUENCE and isinstance(before, list) and isinstance(value, list):
        return before + value
    return value
