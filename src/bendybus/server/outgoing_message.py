"""From the model to the wire: a stored message becomes a transfer's payload.

    header · delivery annotations · message annotations · bare message as it came

Nearly all messages take the quick way: one `Struct` whose constant parts are the encoded keys.
Messages that were annotated by their sender, expire, or have marks are built section by section.
"""

import uuid
from functools import lru_cache
from struct import Struct
from typing import Final

from bendybus.amqp.decode import decode_value
from bendybus.amqp.encode import encode_value
from bendybus.amqp.sections import SectionCode, decode_map, encode_section, find_sections
from bendybus.amqp.values import Int, Long, Short, Symbol, Timestamp, Ubyte, Uint
from bendybus.model.ids import fragment_of
from bendybus.model.message import Lock, Marks, StoredMessage
from bendybus.server.stored_content import Head, decode_head, split_content

TIME_TO_LIVE_MAX: Final = 0xFFFFFFFF


def _key(name: str) -> bytes:
    return encode_value(Symbol(name))


def _map_section(code: SectionCode, pairs: int, size: int) -> bytes:
    """Begin a map section of so many pairs and bytes, which must follow."""
    return b"\x00\x53" + bytes((code, 0xC1, size + 1, pairs * 2))


class Quick:
    """Builds the sections in front of the bare message, for one kind of receiver."""

    def __init__(self, *, is_locked: bool, is_partitioned: bool) -> None:
        token_key = _key("x-opt-lock-token") + b"\x98"
        parts: list[bytes | str] = ["header", "I"]
        if is_locked:
            parts += [
                _map_section(SectionCode.DELIVERY_ANNOTATIONS, 1, len(token_key) + 16) + token_key,
                "Q",
                "Q",
            ]
        annotations: list[tuple[str, bytes, str, int]] = [
            ("x-opt-sequence-number", b"\x81", "q", 8),
            ("x-opt-enqueue-sequence-number", b"\x81", "q", 8),
            ("x-opt-enqueued-time", b"\x83", "q", 8),
            ("x-opt-message-state", b"\x71", "i", 4),
        ]
        if is_locked:
            annotations.append(("x-opt-locked-until", b"\x83", "q", 8))
        if is_partitioned:
            annotations.append(("x-opt-partition-id", b"\x61", "h", 2))
        size = sum(len(_key(name)) + 1 + width for name, _, _, width in annotations)
        opening = _map_section(SectionCode.MESSAGE_ANNOTATIONS, len(annotations), size)
        for name, constructor, letter, _ in annotations:
            parts += [opening + _key(name) + constructor, letter]
            opening = b""
        self._is_locked = is_locked
        self._is_partitioned = is_partitioned
        header_size = len(_quick_header(durable=False, priority=4))
        self._struct = Struct(
            f">{header_size}s"
            + "".join(
                part if isinstance(part, str) else f"{len(part)}s"
                for part in parts
                if part != "header"
            )
        )
        self._constants = [part for part in parts if isinstance(part, bytes)]

    def build(self, message: StoredMessage, header: bytes) -> bytes:
        """Return the sections for a message without annotations, expiry or marks."""
        sequence, enqueued_at = message.sequence, message.enqueued_at
        constants = self._constants
        if self._is_locked:
            locked = (constants[5], message.locked_until)
            if self._is_partitioned:
                return self._struct.pack(
                    header, message.delivery_count,
                    constants[0], sequence, message.nonce,
                    constants[1], sequence, constants[2], sequence, constants[3], enqueued_at,
                    constants[4], message.state, *locked, constants[6], sequence >> 48,
                )  # fmt: skip
            return self._struct.pack(
                header, message.delivery_count,
                constants[0], sequence, message.nonce,
                constants[1], sequence, constants[2], sequence, constants[3], enqueued_at,
                constants[4], message.state, *locked,
            )  # fmt: skip
        partition = (constants[4], sequence >> 48) if self._is_partitioned else ()
        return self._struct.pack(
            header, message.delivery_count,
            constants[0], sequence, constants[1], sequence, constants[2], enqueued_at,
            constants[3], message.state, *partition,
        )  # fmt: skip


def _quick_header(*, durable: bool, priority: int) -> bytes:
    """Begin a header that ends with the delivery count, to be packed behind it as a uint."""
    fields = bytes((0x41 if durable else 0x42, 0x50, priority, 0x40, 0x42, 0x70))
    size = 1 + len(fields) + 4
    return b"\x00\x53\x70\xc0" + bytes((size, 5)) + fields


@lru_cache(maxsize=512)
def _quick_header_of(head: bytes) -> bytes | None:
    """Return the beginning of the header for a head, or None if it needs the careful way."""
    decoded = decode_head(head)
    if decoded.has_annotations or decoded.time_to_live_ms is not None:
        return None
    return _quick_header(durable=decoded.durable, priority=decoded.priority)


def payload_of(message: StoredMessage, quick: Quick) -> bytes:
    """Return the whole payload of a delivery."""
    content = message.content
    # split_content, in line: this runs for every message delivered.
    size = content[0]
    if size < 255 and message.marks is None and message.expires_at is None:
        header = _quick_header_of(content[1 : 1 + size])
        if header is not None and message.partition_key is None and message.session_id is None:
            return quick.build(message, header) + content[1 + size :]
    return careful_payload(message, is_locked=quick._is_locked, is_partitioned=quick._is_partitioned)


def careful_payload(
    message: StoredMessage,
    *,
    is_locked: bool,
    is_partitioned: bool,
    is_body_left_out: bool = False,
) -> bytes:
    """Return the payload of any message, built section by section."""
    head_bytes, bare_start = split_content(message.content)
    head = decode_head(head_bytes)
    bare = message.content[bare_start:]
    marks = message.marks
    if marks is not None:
        bare = _with_changed_properties(bare, marks)
    if is_body_left_out:
        bare = _without_body(bare)
    parts = [encode_section(SectionCode.HEADER, _header_fields(message, head))]
    delivery_annotations = dict(head.delivery_annotations)
    if is_locked:
        delivery_annotations[Symbol("x-opt-lock-token")] = lock_token(message.lock)
    if delivery_annotations:
        parts.append(encode_section(SectionCode.DELIVERY_ANNOTATIONS, delivery_annotations))
    annotations = _annotations(message, head, is_locked=is_locked, is_partitioned=is_partitioned)
    parts.append(encode_section(SectionCode.MESSAGE_ANNOTATIONS, annotations))
    parts.append(bare)
    return b"".join(parts)


def _header_fields(message: StoredMessage, head: Head) -> list[object]:
    time_to_live = head.time_to_live_ms
    if message.expires_at is not None:
        time_to_live = min(message.expires_at - message.enqueued_at, TIME_TO_LIVE_MAX)
    return [
        head.durable,
        Ubyte(head.priority),
        None if time_to_live is None else Uint(time_to_live),
        False,
        Uint(message.delivery_count),
    ]


def _annotations(
    message: StoredMessage, head: Head, *, is_locked: bool, is_partitioned: bool
) -> dict[object, object]:
    marks = message.marks or Marks()
    annotations = dict(head.message_annotations)
    enqueued_sequence = marks.enqueued_sequence or message.sequence
    annotations[Symbol("x-opt-sequence-number")] = Long(message.sequence)
    annotations[Symbol("x-opt-enqueue-sequence-number")] = Long(enqueued_sequence)
    annotations[Symbol("x-opt-enqueued-time")] = Timestamp(message.enqueued_at)
    annotations[Symbol("x-opt-message-state")] = Int(message.state)
    if is_locked and message.locked_until is not None:
        annotations[Symbol("x-opt-locked-until")] = Timestamp(message.locked_until)
    if is_partitioned:
        annotations[Symbol("x-opt-partition-id")] = Short(fragment_of(message.sequence))
        if message.session_id is not None:
            annotations[Symbol("x-opt-partition-key")] = message.session_id
    if marks.dead_letter_source is not None:
        annotations[Symbol("x-opt-deadletter-source")] = marks.dead_letter_source
    return annotations


def _with_changed_properties(bare: bytes, marks: Marks) -> bytes:
    """Merge the changes of receivers, and the reason of dead-lettering, into the properties."""
    changes = decode_changes(marks.property_changes or b"")
    if marks.dead_letter_reason is not None:
        changes["DeadLetterReason"] = marks.dead_letter_reason
    if marks.dead_letter_description is not None:
        changes["DeadLetterErrorDescription"] = marks.dead_letter_description
    if not changes:
        return bare
    properties: dict[object, object] = {}
    at = before = 0
    for section in find_sections(bare):
        if section.code == SectionCode.PROPERTIES:
            at = before = section.end
        elif section.code == SectionCode.APPLICATION_PROPERTIES:
            properties = decode_map(bare, section)
            at = section.end
    properties.update(changes)
    encoded = encode_section(SectionCode.APPLICATION_PROPERTIES, properties)
    return bare[:before] + encoded + bare[at:]


def _without_body(bare: bytes) -> bytes:
    """Keep the properties, and an empty body so that the message stays a valid one."""
    end = 0
    for section in find_sections(bare):
        if section.code <= SectionCode.APPLICATION_PROPERTIES:
            end = section.end
    return bare[:end] + encode_section(SectionCode.DATA, b"")


def encode_changes(changes: dict[object, object]) -> bytes:
    """Encode property changes as key, value, key, value ...: joining two means later ones win."""
    return b"".join(
        encode_value(str(key)) + encode_value(value) for key, value in changes.items()
    )


def decode_changes(encoded: bytes) -> dict[object, object]:
    """Decode what `encode_changes` made, or several of them joined."""
    changes: dict[object, object] = {}
    at = 0
    while at < len(encoded):
        key, at = decode_value(encoded, at)
        changes[key], at = decode_value(encoded, at)
    return changes


# The token as the tag of a delivery: a GUID in .NET's byte order, where the first three fields
# have their lowest byte first. As an AMQP uuid the same GUID is in plain order.
_TAG: Final = Struct("<IHH")
_NONCE: Final = Struct(">Q")


def delivery_tag(sequence: int, nonce: int) -> bytes:
    """Return the lock token in the form in which it is a delivery's tag."""
    return _TAG.pack(sequence >> 32, sequence >> 16 & 0xFFFF, sequence & 0xFFFF) + _NONCE.pack(nonce)


def lock_token(lock: Lock) -> uuid.UUID:
    """Return the lock token in the form in which management requests name it."""
    return uuid.UUID(int=lock.sequence << 64 | lock.nonce)


def lock_of_token(token: uuid.UUID) -> Lock:
    """Return the lock that a token names. Whether it holds is for the store to say."""
    return Lock(token.int >> 64, token.int & 0xFFFFFFFFFFFFFFFF)
