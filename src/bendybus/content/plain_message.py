"""Messages in plain values, for doors that do not speak AMQP.

What such a door takes in is written as the AMQP message that a client of the other kind would have
sent, and then read by the same rules (`incoming_message`): both are held to the same limits.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from bendybus.amqp.sections import (
    SectionCode,
    decode_list,
    decode_map,
    decode_section,
    encode_properties,
    encode_section,
    find_sections,
)
from bendybus.amqp.values import (
    AmqpArray,
    AmqpCodecError,
    Described,
    EncodeError,
    Symbol,
    Timestamp,
    Uint,
)
from bendybus.content.incoming_message import read_message, text_of_id
from bendybus.content.outgoing_message import properties_of_marks
from bendybus.content.stored_content import decode_head, split_content
from bendybus.model.errors import ArgumentInvalid, MessageDamaged
from bendybus.model.ids import Instant
from bendybus.model.limits import TIME_TO_LIVE_FOREVER
from bendybus.model.message import Message, StoredMessage

# What a plain value of a property or a body can be, beside lists and maps of them.
Scalar = str | int | float | bool | datetime | None

_PARTITION_KEY: Final = Symbol("x-opt-partition-key")
_VIA_PARTITION_KEY: Final = Symbol("x-opt-via-partition-key")
_SCHEDULED: Final = Symbol("x-opt-scheduled-enqueue-time")
_FIELDS_COUNT: Final = 13
# An id that its sender did not give is a GUID of 32 digits.
_ID_DIGITS: Final = 32
_IDS_AT_ONCE: Final = 256
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_ONE_TICKS: Final = 621_355_968_000_000_000


def _made_ids() -> Iterator[str]:
    """Make ids; the system is asked for many at once, which costs as much as for one."""
    while True:
        digits = secrets.token_hex(_ID_DIGITS // 2 * _IDS_AT_ONCE)
        yield from (digits[at : at + _ID_DIGITS] for at in range(0, len(digits), _ID_DIGITS))


_ids: Final = _made_ids()


@dataclass(slots=True, kw_only=True)
class PlainMessage:
    """What a sender can say of a message."""

    body: bytes = b""
    message_id: str | None = None
    to: str | None = None
    label: str | None = None
    reply_to: str | None = None
    correlation_id: str | None = None
    content_type: str | None = None
    session_id: str | None = None
    reply_to_session_id: str | None = None
    partition_key: str | None = None
    via_partition_key: str | None = None
    time_to_live_ms: int | None = None
    scheduled_at: Instant | None = None
    user: dict[str, Scalar] = field(default_factory=dict)


def encode_plain(plain: PlainMessage) -> bytes:
    """Return the message as an AMQP client would have sent it. Raises `ArgumentInvalid`."""
    try:
        return _encode(plain)
    except EncodeError as error:
        raise ArgumentInvalid(f"The message cannot be written: {error}.") from error


def read_plain(plain: PlainMessage, payload: bytes, *, is_id_wanted: bool) -> Message:
    """Read what `encode_plain` made of it, by the rules for all messages."""
    message = read_message(payload, is_id_wanted=is_id_wanted)
    # The header has room for 49 days.
    message.time_to_live_ms = plain.time_to_live_ms
    return message


def _encode(plain: PlainMessage) -> bytes:
    parts: list[bytes] = []
    if plain.time_to_live_ms is not None:
        shown = Uint(min(plain.time_to_live_ms, TIME_TO_LIVE_FOREVER - 1))
        parts.append(encode_section(SectionCode.HEADER, [None, None, shown]))
    annotations: dict[object, object] = {}
    if plain.partition_key is not None:
        annotations[_PARTITION_KEY] = plain.partition_key
    if plain.via_partition_key is not None:
        annotations[_VIA_PARTITION_KEY] = plain.via_partition_key
    if plain.scheduled_at is not None:
        annotations[_SCHEDULED] = Timestamp(plain.scheduled_at)
    if annotations:
        parts.append(encode_section(SectionCode.MESSAGE_ANNOTATIONS, annotations))
    content_type = plain.content_type
    parts.append(
        encode_properties(
            [
                plain.message_id or next(_ids),
                None,
                plain.to,
                plain.label,
                plain.reply_to,
                plain.correlation_id,
                None if content_type is None else Symbol(content_type),
                None,
                None,
                None,
                plain.session_id,
                None,
                plain.reply_to_session_id,
            ]
        )
    )
    if plain.user:
        user = {name: _amqp_value(value) for name, value in plain.user.items()}
        parts.append(encode_section(SectionCode.APPLICATION_PROPERTIES, user))
    parts.append(encode_section(SectionCode.DATA, plain.body))
    return b"".join(parts)


def _amqp_value(value: Scalar) -> object:
    if isinstance(value, datetime):
        return Timestamp((value - _EPOCH) // timedelta(milliseconds=1))
    return value


@dataclass(slots=True)
class PlainContent:
    """A stored message in plain values."""

    message: PlainMessage
    # What the body is when it is no bytes: a value, or the items of a sequence.
    value: object = None
    is_value: bool = False


def decode_plain(stored: StoredMessage) -> PlainContent:
    """Take a stored message apart. Raises `MessageDamaged` if it cannot be."""
    try:
        return _decode(stored)
    except AmqpCodecError as error:
        raise MessageDamaged(f"The stored message cannot be read: {error}.") from error


def _decode(stored: StoredMessage) -> PlainContent:
    head_bytes, start = split_content(stored.content)
    head = decode_head(head_bytes)
    bare = stored.content[start:]
    fields: list[object] = []
    user: dict[object, object] = {}
    body: list[bytes] = []
    items: list[object] = []
    plain = PlainMessage()
    content = PlainContent(plain)
    for section in find_sections(bare):
        match section.code:
            case SectionCode.PROPERTIES:
                fields = decode_list(bare, section)
            case SectionCode.APPLICATION_PROPERTIES:
                user = decode_map(bare, section)
            case SectionCode.DATA:
                data = decode_section(bare, section)
                body.append(data if isinstance(data, bytes) else b"")
            case SectionCode.AMQP_VALUE:
                content.value, content.is_value = decode_section(bare, section), True
            case SectionCode.AMQP_SEQUENCE:
                items += decode_list(bare, section)
                content.value, content.is_value = items, True
            case _:
                pass
    if stored.marks is not None:
        user |= properties_of_marks(stored.marks)
    plain.body = b"".join(body)
    plain.user = {_text(name): _scalar(value) for name, value in user.items()}
    _set_fields(plain, fields)
    own = head.message_annotations
    plain.partition_key = stored.partition_key or _optional_text(own.get(_PARTITION_KEY))
    plain.via_partition_key = _optional_text(own.get(_VIA_PARTITION_KEY))
    scheduled = own.get(_SCHEDULED)
    plain.scheduled_at = Instant(int(scheduled)) if isinstance(scheduled, Timestamp) else None
    plain.time_to_live_ms = head.time_to_live_ms
    if stored.expires_at is not None:
        plain.time_to_live_ms = stored.expires_at - stored.enqueued_at
    if content.is_value:
        _settle_value(content)
    return content


def _set_fields(plain: PlainMessage, fields: list[object]) -> None:
    texts = [_optional_text(each) for each in fields] + [None] * (_FIELDS_COUNT - len(fields))
    plain.message_id, _, plain.to, plain.label, plain.reply_to = texts[:5]
    plain.correlation_id, plain.content_type = texts[5:7]
    plain.session_id, plain.reply_to_session_id = texts[10], texts[12]


def _settle_value(content: PlainContent) -> None:
    """Take a value that is nothing but text or bytes for the body; make others plain."""
    value = content.value
    if isinstance(value, bytes | str):
        content.message.body = value if isinstance(value, bytes) else value.encode()
        content.is_value = False
        content.value = None if isinstance(value, bytes) else str(value)
    else:
        content.value = plain_value(value)


def plain_value(value: object) -> object:
    """Make any AMQP value one of `Scalar`, or lists and maps of them."""
    if isinstance(value, dict):
        return {_text(name): plain_value(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain_value(each) for each in value]
    if isinstance(value, AmqpArray):
        return [plain_value(each) for each in value.items]
    return _scalar(value)


def _scalar(value: object) -> Scalar:
    if isinstance(value, Described):
        if value.descriptor == "com.microsoft:datetime-offset" and isinstance(value.value, int):
            return _moment((value.value - _YEAR_ONE_TICKS) // 10_000)
        return _scalar(value.value)
    if isinstance(value, Timestamp):
        return _moment(int(value))
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if value is None:
        return None
    return value.hex() if isinstance(value, bytes) else str(value)


def _moment(milliseconds: int) -> datetime | str:
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _optional_text(value: object) -> str | None:
    return None if value is None else text_of_id(value)
