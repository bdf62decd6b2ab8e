"""From the wire to the model: a transfer's payload becomes a `Message`, or a clear refusal."""

import uuid
from typing import Final

from bendybus.amqp.decode import decode_value, skip_value
from bendybus.amqp.sections import (
    Section,
    SectionCode,
    decode_list,
    decode_map,
    decode_section,
    encode_properties,
    encode_section,
    find_sections,
    list_fields,
)
from bendybus.amqp.values import DecodeError, Timestamp, Uint
from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange
from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.partitioning import check_keys
from bendybus.server.stored_content import join_content

BATCH_FORMAT: Final = 0x80013700
KEY_LENGTH_MAX: Final = 128
PROPERTY_BYTES_MAX: Final = 32 * 1024
PROPERTIES_BYTES_MAX: Final = 64 * 1024
TIME_TO_LIVE_FOREVER: Final = 0xFFFFFFFF

# What the broker writes itself; a received message that is sent again still carries them.
BROKER_ANNOTATIONS: Final = frozenset(
    {
        "x-opt-sequence-number",
        "x-opt-enqueue-sequence-number",
        "x-opt-enqueued-time",
        "x-opt-locked-until",
        "x-opt-lock-token",
        "x-opt-message-state",
        "x-opt-deadletter-source",
        "x-opt-partition-id",
    }
)

_MESSAGE_ID: Final = 0
_GROUP_ID: Final = 10
_REPLY_TO_GROUP_ID: Final = 12
_HEADER_DURABLE: Final = b"\x00\x53\x70\xc0\x02\x01\x41"


def read_message(payload: bytes) -> Message:
    """Translate one message. Raises `ArgumentInvalid` or a sibling, never anything else."""
    try:
        return _read_message(payload)
    except DecodeError as error:
        raise ArgumentInvalid(f"The message cannot be read: {error}.") from error


def read_batch(payload: bytes) -> list[Message]:
    """Translate a batch: every data section of the envelope holds one whole message."""
    try:
        inner = [
            _bytes_of(payload, section)
            for section in find_sections(payload)
            if section.code == SectionCode.DATA
        ]
        if not inner:
            raise ArgumentInvalid("The batch holds no messages.")
        return [_read_message(each) for each in inner]
    except DecodeError as error:
        raise ArgumentInvalid(f"The batch cannot be read: {error}.") from error


def _bytes_of(payload: bytes, section: Section) -> bytes:
    value = decode_section(payload, section)
    if not isinstance(value, bytes):
        raise DecodeError("a data section of the batch is not binary")
    return value


def _read_message(payload: bytes) -> Message:
    sections = find_sections(payload)
    head = b""
    message = Message(b"")
    bare_start = -1
    last_code = 0
    is_ordered = True
    has_id = False
    for section in sections:
        code, start, _, end = section
        if code < last_code:
            is_ordered = False
        last_code = code
        if code >= SectionCode.PROPERTIES:
            if bare_start < 0:
                bare_start = start
            if code == SectionCode.PROPERTIES:
                has_id = _read_properties(payload, section, message)
            elif code == SectionCode.APPLICATION_PROPERTIES and end - start > PROPERTY_BYTES_MAX:
                _check_property_sizes(payload, section)
        elif code == SectionCode.HEADER:
            head += _read_header(payload, section, message)
        elif code == SectionCode.MESSAGE_ANNOTATIONS:
            head += _read_annotations(payload, section, message)
        else:
            head += _without_broker_annotations(payload, section)
    if is_ordered:
        bare = payload[bare_start:] if bare_start >= 0 else b""
    else:
        bare = _bare_in_order(payload, sections)
    if not has_id:
        bare = _with_id(bare)
    if message.partition_key is not None:
        check_keys(message)
    message.content = join_content(head, bare)
    return message


def _read_header(payload: bytes, section: Section, message: Message) -> bytes:
    """Take the time to live, and return the header to keep."""
    raw = payload[section.start : section.end]
    if raw == _HEADER_DURABLE:
        return raw
    fields = decode_list(payload, section)
    fields += [None] * (5 - len(fields))
    time_to_live = fields[2]
    if isinstance(time_to_live, Uint) and time_to_live != TIME_TO_LIVE_FOREVER:
        message.time_to_live_ms = int(time_to_live)
    else:
        fields[2] = None
    if fields[:3] == [None, None, None] or fields[:3] == [False, None, None]:
        return b""
    return encode_section(SectionCode.HEADER, fields[:3])


def _read_properties(payload: bytes, section: Section, message: Message) -> bool:
    """Take the session id and check lengths; say whether there is a message id."""
    count, at = list_fields(payload, section)
    has_id = False
    for index in range(min(count, _REPLY_TO_GROUP_ID + 1)):
        if at >= section.end:
            raise DecodeError("the section PROPERTIES ends within a field")
        constructor = payload[at]
        if constructor == 0x40:
            at += 1
            continue
        if constructor in (0xA1, 0xA3, 0xA0) and index not in (_GROUP_ID, _REPLY_TO_GROUP_ID):
            end = at + 2 + payload[at + 1]
        else:
            end = skip_value(payload, at)
        if end > section.end:
            raise DecodeError("the section PROPERTIES ends within a field")
        if index == _MESSAGE_ID:
            has_id = True
            if end - at > KEY_LENGTH_MAX:
                _checked_key(_text_of_id(decode_value(payload, at)[0]), "MessageId")
        elif index == _GROUP_ID:
            message.session_id = _key_at(payload, at, "SessionId")
        elif index == _REPLY_TO_GROUP_ID:
            _key_at(payload, at, "ReplyToSessionId")
        at = end
    return has_id


def _read_annotations(payload: bytes, section: Section, message: Message) -> bytes:
    """Take the keys and the schedule, and return the annotations to keep."""
    annotations = decode_map(payload, section)
    key = annotations.get("x-opt-partition-key")
    if key is not None:
        message.partition_key = _checked_key(key, "PartitionKey")
    via_key = annotations.get("x-opt-via-partition-key")
    if via_key is not None:
        _checked_key(via_key, "TransactionPartitionKey")
    scheduled_at = annotations.get("x-opt-scheduled-enqueue-time")
    if isinstance(scheduled_at, Timestamp):
        message.scheduled_at = Instant(int(scheduled_at))
    return _without_broker_annotations(payload, section, annotations)


def _without_broker_annotations(
    payload: bytes, section: Section, annotations: dict[object, object] | None = None
) -> bytes:
    if annotations is None:
        annotations = decode_map(payload, section)
    kept = {key: value for key, value in annotations.items() if key not in BROKER_ANNOTATIONS}
    if not kept:
        return b""
    if len(kept) == len(annotations):
        return payload[section.start : section.end]
    return encode_section(SectionCode(section.code), kept)


def _check_property_sizes(payload: bytes, section: Section) -> None:
    """Hold the application properties to their limits, when they are large enough to matter."""
    if section.end - section.start > PROPERTIES_BYTES_MAX:
        raise ArgumentOutOfRange(
            f"The application properties have {section.end - section.start} bytes; all together"
            f" they may have {PROPERTIES_BYTES_MAX}."
        )
    for key, value in decode_map(payload, section).items():
        if isinstance(value, str | bytes) and len(value) > PROPERTY_BYTES_MAX:
            raise ArgumentOutOfRange(
                f"The application property '{key}' is larger than {PROPERTY_BYTES_MAX} bytes."
            )


def _bare_in_order(payload: bytes, sections: list[Section]) -> bytes:
    """Put the bare sections in their order; pyamqp sends delivery annotations behind the body."""
    bare = [each for each in sections if each.code >= SectionCode.PROPERTIES]
    bare.sort(key=lambda section: section.code)
    return b"".join(payload[each.start : each.end] for each in bare)


def _with_id(bare: bytes) -> bytes:
    """Give the message the id that its sender did not: clients rely on there being one."""
    invented: object = uuid.uuid4().hex
    sections = find_sections(bare)
    if sections and sections[0].code == SectionCode.PROPERTIES:
        fields = decode_list(bare, sections[0])
        return encode_properties([invented, *fields[1:]]) + bare[sections[0].end :]
    return encode_properties([invented]) + bare


def _key_at(payload: bytes, at: int, name: str) -> str:
    return _checked_key(decode_value(payload, at)[0], name)


def _checked_key(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ArgumentInvalid(f"The {name} of the message is not a string.")
    if len(value) > KEY_LENGTH_MAX:
        raise ArgumentOutOfRange(
            f"The {name} of the message has {len(value)} characters; it may have {KEY_LENGTH_MAX}."
        )
    return str(value)


def _text_of_id(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
