"""From the wire to the model: a transfer's payload becomes a `Message`, or a clear refusal."""

import uuid
from collections.abc import Iterable
from functools import lru_cache
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
    map_fields,
)
from bendybus.amqp.values import DecodeError, Timestamp, Uint
from bendybus.content.stored_content import join_content
from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange
from bendybus.model.ids import Instant
from bendybus.model.limits import (
    KEY_LENGTH_MAX,
    PROPERTIES_BYTES_MAX,
    PROPERTY_BYTES_MAX,
    SCHEDULED_MAX,
    TIME_TO_LIVE_FOREVER,
)
from bendybus.model.message import Message
from bendybus.model.partitioning import check_keys

BATCH_FORMAT: Final = 0x80013700

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

# Plain numbers: comparing with members of an enumeration costs more than all the rest here.
_HEADER: Final = int(SectionCode.HEADER)
_MESSAGE_ANNOTATIONS: Final = int(SectionCode.MESSAGE_ANNOTATIONS)
_PROPERTIES: Final = int(SectionCode.PROPERTIES)
_APPLICATION_PROPERTIES: Final = int(SectionCode.APPLICATION_PROPERTIES)

_NULL: Final = 0x40
_SHORT_STRING: Final = 0xA1
_SMALL_ULONG: Final = 0x53
# What a long string or binary has beside its bytes: a constructor and a size.
_LONG_VALUE_OVERHEAD: Final = 5
# Properties with an empty id, and an empty body: nothing shorter is looked at by offset.
_PLAIN_SIZE_MIN: Final = 13
_MESSAGE_ID: Final = 0
_GROUP_ID: Final = 10
_REPLY_TO_GROUP_ID: Final = 12

_HEADER_START: Final = b"\x00\x53\x70\xc0"
_PROPERTIES_START: Final = b"\x00\x53\x73\xc0"
# A data section, or a value that is binary or a string: how it begins, and the size of that
# together with the size that follows.
_BODY_HEAD_SIZES: Final = {
    b"\x00\x53\x75\xa0": 5,
    b"\x00\x53\x75\xb0": 8,
    b"\x00\x53\x77\xa0": 5,
    b"\x00\x53\x77\xb0": 8,
    b"\x00\x53\x77\xa1": 5,
    b"\x00\x53\x77\xb1": 8,
}
# What follows the id in properties of so many fields that have no other.
_NULLS: Final = [b"\xff", *(b"\x40" * (count - 1) for count in range(1, 14))] + [b"\xff"] * 242


def read_plain_messages(
    payloads: Iterable[bytes], *, are_ids_wanted: bool
) -> tuple[list[bytes], list[bytes], list[int | None]] | None:
    """Translate messages into columns if all have the most common shape: see `_plain_shape`.

    Returns contents, ids if they are wanted, in UTF-8 and none of them empty, and times to live; or
    None if they are for `read_message`.

    Messages that come together are alike up to their ids, and between these and their bodies. So
    these parts are compared with those of the message before, and looked at when they differ.
    """
    contents: list[bytes] = []
    ids: list[bytes] = []
    lives: list[int | None] = []
    # No message begins like this.
    before_id, after_id = b"\xff", b""
    prefix, life, at, id_end, body_at, body_start = b"", None, 0, 0, 0, 0
    for payload in payloads:
        if not (
            payload.startswith(before_id)
            and payload[id_end:body_at] == after_id
            and int.from_bytes(payload[body_at:body_start], "big") == len(payload) - body_start
        ):
            try:
                shape = _plain_shape(payload)
            except DecodeError:
                return None
            if shape is None:
                return None
            prefix, life, at, id_end, body_at, body_start = shape
            before_id, after_id = payload[: at + 8], payload[id_end:body_at]
        if are_ids_wanted:
            message_id = payload[at + 8 : id_end]
            if not message_id or not (message_id.isascii() or _is_text(message_id)):
                return None
            ids.append(message_id)
        contents.append(prefix + payload[at:])
        lives.append(life)
    return contents, ids, lives


def read_message(payload: bytes, *, is_id_wanted: bool = False) -> Message:
    """Translate one message. Raises `ArgumentInvalid` or a sibling, never anything else.

    Its id is left out unless it is wanted: only duplicate detection needs it.
    """
    try:
        return _read_plain_message(payload, is_id_wanted=is_id_wanted) or _read_message(
            payload, is_id_wanted=is_id_wanted
        )
    except DecodeError as error:
        raise ArgumentInvalid(f"The message cannot be read: {error}.") from error


def read_batch(payload: bytes, *, is_id_wanted: bool = False) -> list[Message]:
    """Translate a batch: every data section of the envelope holds one whole message."""
    try:
        inner = [
            _bytes_of(payload, section)
            for section in find_sections(payload)
            if section.code == SectionCode.DATA
        ]
        if not inner:
            raise ArgumentInvalid("The batch holds no messages.")
        return [_read_message(each, is_id_wanted=is_id_wanted) for each in inner]
    except DecodeError as error:
        raise ArgumentInvalid(f"The batch cannot be read: {error}.") from error


def _read_plain_message(payload: bytes, *, is_id_wanted: bool) -> Message | None:
    """Translate a message of the most common shape, or return None."""
    shape = _plain_shape(payload)
    if shape is None:
        return None
    prefix, time_to_live, at, id_end, _, _ = shape
    message = Message(prefix + payload[at:], "", None, None, time_to_live)
    if is_id_wanted:
        try:
            message.message_id = payload[at + 8 : id_end].decode()
        except UnicodeDecodeError:
            return None
    return message


def _plain_shape(payload: bytes) -> tuple[bytes, int | None, int, int, int, int] | None:
    """Look by offset alone whether a message has the most common shape.

    Header or none, properties with nothing but an id, and one body that is binary or a string
    and ends the message. It halves what a send costs the event loop; all other shapes take the
    careful way. Returns what stands for the header in a content, the time to live that it sets, and
    where properties begin (8 bytes before their id), the id ends, the size of the body begins and
    the body begins.
    """
    at = 0
    prefix, time_to_live = b"\x00", None
    size = len(payload)
    if payload[:4] == _HEADER_START and size > _PLAIN_SIZE_MIN:
        at = 5 + payload[4]
        prefix, time_to_live = _plain_header(payload[:at])
    # Properties as a short list whose first field is a short string.
    if size < at + _PLAIN_SIZE_MIN or payload[at : at + 4] != _PROPERTIES_START:
        return None
    id_end = at + 8 + payload[at + 7]
    end = at + 5 + payload[at + 4]
    if (
        payload[at + 6] != _SHORT_STRING
        or payload[at + 7] > KEY_LENGTH_MAX
        or id_end > end
        or payload[id_end:end] != _NULLS[payload[at + 5]]
    ):
        return None
    body_head_size = _BODY_HEAD_SIZES.get(payload[end : end + 4])
    if body_head_size is None:
        return None
    body_size = int.from_bytes(payload[end + 4 : end + body_head_size], "big")
    if end + body_head_size + body_size != size:
        return None
    return prefix, time_to_live, at, id_end, end + 4, end + body_head_size


def _is_text(encoded: bytes) -> bool:
    """Say whether bytes are UTF-8."""
    try:
        encoded.decode()
    except UnicodeDecodeError:
        return False
    return True


@lru_cache(maxsize=256)
def _plain_header(section: bytes) -> tuple[bytes, int | None]:
    """Return how the stored content begins for a header, and the time to live that it sets."""
    head, time_to_live = _read_header(section)
    return join_content(head, b""), time_to_live


def _bytes_of(payload: bytes, section: Section) -> bytes:
    value = decode_section(payload, section)
    if not isinstance(value, bytes):
        raise DecodeError("a data section of the batch is not binary")
    return value


def _read_message(payload: bytes, *, is_id_wanted: bool = False) -> Message:
    """Translate a message of any shape."""
    sections = find_sections(payload)
    message = Message(b"")
    head = b""
    bare_start = len(payload)
    has_id = False
    for section in sections:
        if section.code < _PROPERTIES:
            head += _read_head_section(payload, section, message)
            continue
        bare_start = min(bare_start, section.start)
        if section.code == _PROPERTIES:
            has_id = _read_properties(payload, section, message, is_id_wanted=is_id_wanted)
        elif section.code == _APPLICATION_PROPERTIES:
            _check_application_properties(payload, section)
    is_regular = sections == sorted(sections) and all(
        payload[section.start + 1] == _SMALL_ULONG for section in sections
    )
    bare = payload[bare_start:] if is_regular else _bare_made_regular(payload, sections)
    if not has_id:
        bare = _with_id(bare)
    if message.partition_key is not None:
        check_keys(message)
    message.content = join_content(head, bare)
    return message


def _read_head_section(payload: bytes, section: Section, message: Message) -> bytes:
    """Take what the broker needs of the header or annotations; return what is to be kept."""
    if section.code == _HEADER:
        head, message.time_to_live_ms = _read_header(payload[section.start : section.end])
        return head
    if section.code == _MESSAGE_ANNOTATIONS:
        return _read_annotations(payload, section, message)
    return _without_broker_annotations(payload, section)


@lru_cache(maxsize=256)
def _read_header(section: bytes) -> tuple[bytes, int | None]:
    """Return the header to keep, and the time to live that it sets. Headers repeat."""
    fields = decode_list(section, find_sections(section)[0])
    fields += [None] * (5 - len(fields))
    time_to_live = fields[2]
    if not isinstance(time_to_live, Uint) or time_to_live == TIME_TO_LIVE_FOREVER:
        time_to_live = fields[2] = None
    if not fields[0] and fields[1:3] == [None, None]:
        return b"", None
    return encode_section(SectionCode.HEADER, fields[:3]), time_to_live


def _read_properties(
    payload: bytes, section: Section, message: Message, *, is_id_wanted: bool
) -> bool:
    """Take the session id, and the message id if wanted, and check lengths.

    Says whether there is a message id.
    """
    count, at = list_fields(payload, section)
    has_id = False
    for index in range(min(count, _REPLY_TO_GROUP_ID + 1)):
        if at >= section.end:
            raise DecodeError("the section PROPERTIES ends within a field")
        if payload[at] == _NULL:
            at += 1
            continue
        end = skip_value(payload, at)
        if end > section.end:
            raise DecodeError("the section PROPERTIES ends within a field")
        if index == _MESSAGE_ID:
            has_id = True
            if is_id_wanted or end - at > KEY_LENGTH_MAX:
                text = text_of_id(decode_value(payload, at)[0])
                message.message_id = _checked_key(text, "MessageId")
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
        if scheduled_at > SCHEDULED_MAX:
            raise ArgumentOutOfRange("The message is scheduled for a time after the year 9999.")
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


def _check_application_properties(payload: bytes, section: Section) -> None:
    """Hold the application properties to their form and their limits.

    They are read again when a receiver changes some, so what is unreadable must not come in.
    """
    size = section.end - section.start
    if size > PROPERTIES_BYTES_MAX:
        raise ArgumentOutOfRange(
            f"The application properties have {size} bytes; all together they may have"
            f" {PROPERTIES_BYTES_MAX}."
        )
    if payload[section.value] == _NULL:
        return
    count, at = map_fields(payload, section)
    for _ in range(count // 2):
        key = at
        value = skip_value(payload, key)
        at = skip_value(payload, value)
        if at - value > PROPERTY_BYTES_MAX + _LONG_VALUE_OVERHEAD:
            name, _ = decode_value(payload, key)
            raise ArgumentOutOfRange(
                f"The application property '{name}' is larger than {PROPERTY_BYTES_MAX} bytes."
            )
    if at != section.end or count % 2:
        raise DecodeError("the section APPLICATION_PROPERTIES has a wrong size")


def _bare_made_regular(payload: bytes, sections: list[Section]) -> bytes:
    """Put the bare sections in their order, each named by its number in the shortest form.

    pyamqp sends delivery annotations behind the body, and cannot read any other form of names.
    """
    return b"".join(
        b"\x00\x53" + bytes((each.code,)) + payload[each.value : each.end]
        for each in sorted(sections)
        if each.code >= _PROPERTIES
    )


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


def text_of_id(value: object) -> str:
    """Return the form of a message id, of whatever type, in which ids are compared."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
