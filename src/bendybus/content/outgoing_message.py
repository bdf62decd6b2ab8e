"""From the model to the wire: a stored message becomes a transfer's payload.

    header · delivery annotations · message annotations · bare message as it came

Nearly all messages take the quick way: one `Struct` whose constant parts are the encoded keys.
Messages with marks or delivery annotations are built section by section.
"""

import contextlib
import uuid
from collections.abc import Iterable
from functools import lru_cache, partial
from struct import Struct
from typing import Final, NamedTuple

from bendybus.amqp.decode import decode_value
from bendybus.amqp.encode import encode_value
from bendybus.amqp.sections import SectionCode, decode_map, encode_section, find_sections
from bendybus.amqp.values import DecodeError, Int, Long, Short, Symbol, Timestamp, Ubyte, Uint
from bendybus.content.stored_content import LONG_HEAD, Head, decode_head, split_content
from bendybus.model.ids import COUNTER_BITS, fragment_of
from bendybus.model.message import Lock, Marks, MessageState, StoredMessage

TIME_TO_LIVE_MAX: Final = 0xFFFFFFFF
_ACTIVE: Final = int(MessageState.ACTIVE)
_RESERVED: Final = int(MessageState.RESERVED)
_PARTITION_KEY: Final = Symbol("x-opt-partition-key")
# A tuple's own constructor, past the one that a named tuple wraps around it.
_make_lock: Final = partial(tuple.__new__, Lock)
_ANNOTATIONS_START: Final = b"\x00\x53" + bytes((SectionCode.MESSAGE_ANNOTATIONS, 0xD1))


def _key(name: str) -> bytes:
    return encode_value(Symbol(name))


def _map_section(code: SectionCode, pairs: int, size: int) -> bytes:
    """Begin a map section of so many pairs and bytes, which must follow."""
    return b"\x00\x53" + bytes((code, 0xC1, size + 1, pairs * 2))


class Quick:
    """Builds the sections in front of the bare message, for one kind of receiver.

        header · lock token · sequence number twice, enqueued time, the rest · the sender's own

    The rest (state, end of the lock, fragment) is the same for all messages of one acquire, so
    its bytes are kept from one message to the next.
    """

    def __init__(self, *, is_locked: bool, is_partitioned: bool) -> None:
        self.is_locked = is_locked
        self.is_partitioned = is_partitioned
        token = _key("x-opt-lock-token") + b"\x98"
        self._token = b""
        if is_locked:
            self._token = _map_section(SectionCode.DELIVERY_ANNOTATIONS, 1, len(token) + 16) + token
        self._sequence = _key("x-opt-sequence-number") + b"\x81"
        self._enqueued_sequence = _key("x-opt-enqueue-sequence-number") + b"\x81"
        self._enqueued_time = _key("x-opt-enqueued-time") + b"\x83"
        self._rest = self._rest_bytes(0, 0, 0)
        self._rest_of: tuple[int, int | None, int] | None = None
        keys = (self._sequence, self._enqueued_sequence, self._enqueued_time)
        self._size = sum(len(key) + 8 for key in keys) + len(self._rest)
        self._count = 2 * (4 + is_locked + is_partitioned)
        token_format = f"{len(self._token)}sQQ" if is_locked else ""
        self._pack = Struct(
            f">I{token_format}4sII{len(self._sequence)}sq"
            f"{len(self._enqueued_sequence)}sq{len(self._enqueued_time)}sq{len(self._rest)}s"
        ).pack

    def payload(self, message: StoredMessage) -> bytes | None:
        """Return the payload of a delivery, or None if it needs the careful way."""
        # Taken apart at once, and everything in one function: this runs for every message.
        (
            sequence,
            enqueued_at,
            delivery_count,
            content,
            expires_at,
            session_id,
            _,
            marks,
            state,
            locked_until,
            nonce,
            enqueued_sequence,
        ) = message
        size = content[0]
        if size == LONG_HEAD:
            return None
        if marks is not None:
            if not marks.tell_only_the_way:
                return None
            enqueued_sequence = marks.enqueued_sequence or enqueued_sequence
        time_to_live = None if expires_at is None else expires_at - enqueued_at
        head = _quick_head(content[1 : 1 + size], time_to_live)
        if head is None:
            return None
        header, own, own_count, own_key = head
        if session_id is not None and self.is_partitioned and own_key != session_id:
            if own_key is not None:
                return None
            own += _partition_key(session_id)
            own_count += 2
        rest_of = (state, locked_until, sequence >> COUNTER_BITS)
        if rest_of != self._rest_of:
            self._rest = self._rest_bytes(*rest_of)
            self._rest_of = rest_of
        token = (self._token, sequence, nonce) if self.is_locked else ()
        annotations = self._pack(
            delivery_count,
            *token,
            _ANNOTATIONS_START,
            self._size + 4 + len(own),
            self._count + own_count,
            self._sequence,
            sequence,
            self._enqueued_sequence,
            sequence if enqueued_sequence is None else enqueued_sequence,
            self._enqueued_time,
            enqueued_at,
            self._rest,
        )
        return b"".join((header, annotations, own, content[1 + size :]))

    def _rest_bytes(self, state: int, locked_until: int | None, fragment: int) -> bytes:
        """Encode what the messages of one acquire have in common, always in the same size."""
        rest = _key("x-opt-message-state") + b"\x71" + state.to_bytes(4, "big")
        if self.is_locked:
            until = (locked_until or 0).to_bytes(8, "big")
            rest += _key("x-opt-locked-until") + b"\x83" + until
        if self.is_partitioned:
            rest += _key("x-opt-partition-id") + b"\x61" + fragment.to_bytes(2, "big")
        return rest


class _QuickHead(NamedTuple):
    """A head as it is sent: the header up to the delivery count, and encoded annotations."""

    header: bytes
    annotations: bytes
    annotations_count: int
    partition_key: object


@lru_cache(maxsize=4096)
def _quick_head(head: bytes, time_to_live_ms: int | None) -> _QuickHead | None:
    """Prepare a head, or return None if it needs the careful way."""
    decoded = decode_head(head)
    if decoded.delivery_annotations:
        return None
    if time_to_live_ms is None:
        time_to_live_ms = decoded.time_to_live_ms
    fields = bytes((0x41 if decoded.durable else 0x42, 0x50, decoded.priority))
    if time_to_live_ms is None:
        fields += b"\x40"
    else:
        fields += b"\x70" + min(time_to_live_ms, TIME_TO_LIVE_MAX).to_bytes(4, "big")
    fields += b"\x42\x70"
    header = b"\x00\x53\x70\xc0" + bytes((1 + len(fields) + 4, 5)) + fields
    own = decoded.message_annotations
    pairs = b"".join(encode_value(key) + encode_value(value) for key, value in own.items())
    return _QuickHead(header, pairs, 2 * len(own), own.get(_PARTITION_KEY))


@lru_cache(maxsize=4096)
def _partition_key(session_id: str) -> bytes:
    """Encode the annotation that says which key led to the fragment."""
    return _key(_PARTITION_KEY) + encode_value(session_id)


def payload_of(message: StoredMessage, quick: Quick) -> bytes:
    """Return the whole payload of a delivery."""
    payload = quick.payload(message)
    if payload is not None:
        return payload
    return careful_payload(message, is_locked=quick.is_locked, is_partitioned=quick.is_partitioned)


def deliveries_of(
    messages: Iterable[StoredMessage], quick: Quick
) -> list[tuple[bytes, bytes, Lock]]:
    """Return payload, tag and lock of each message, as `send_many` takes them."""
    return [
        (
            payload_of(message, quick),
            delivery_tag(message[0], message.nonce or 0),
            _make_lock((message[0], message.nonce or 0, message.delivery_count)),
        )
        for message in messages
    ]


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


def _state_shown(state: int) -> int:
    """Return a state that clients know. What a reader keeps is active, like what is locked."""
    return _ACTIVE if state == _RESERVED else state


def _annotations(
    message: StoredMessage, head: Head, *, is_locked: bool, is_partitioned: bool
) -> dict[object, object]:
    marks = message.marks or Marks()
    annotations = dict(head.message_annotations)
    enqueued_sequence = marks.enqueued_sequence or message.enqueued_sequence or message.sequence
    annotations[Symbol("x-opt-sequence-number")] = Long(message.sequence)
    annotations[Symbol("x-opt-enqueue-sequence-number")] = Long(enqueued_sequence)
    annotations[Symbol("x-opt-enqueued-time")] = Timestamp(message.enqueued_at)
    annotations[Symbol("x-opt-message-state")] = Int(_state_shown(message.state))
    if is_locked and message.locked_until is not None:
        annotations[Symbol("x-opt-locked-until")] = Timestamp(message.locked_until)
    if is_partitioned:
        annotations[Symbol("x-opt-partition-id")] = Short(fragment_of(message.sequence))
        if message.session_id is not None:
            annotations[_PARTITION_KEY] = message.session_id
    if marks.dead_letter_source is not None:
        annotations[Symbol("x-opt-deadletter-source")] = marks.dead_letter_source
    return annotations


def _with_changed_properties(bare: bytes, marks: Marks) -> bytes:
    """Merge the changes of receivers, and the reason of dead-lettering, into the properties."""
    changes = properties_of_marks(marks)
    if not changes:
        return bare
    properties: dict[object, object] = {}
    at = before = 0
    for section in find_sections(bare):
        if section.code == SectionCode.PROPERTIES:
            at = before = section.end
        elif section.code == SectionCode.APPLICATION_PROPERTIES:
            # Unreadable ones do not come in; should there be any, the queue must go on.
            with contextlib.suppress(DecodeError):
                properties = decode_map(bare, section)
            at = section.end
    properties.update(changes)
    encoded = encode_section(SectionCode.APPLICATION_PROPERTIES, properties)
    return bare[:before] + encoded + bare[at:]


def properties_of_marks(marks: Marks) -> dict[object, object]:
    """Return the application properties that marks amount to."""
    changes = decode_changes(marks.property_changes or b"")
    if marks.dead_letter_reason is not None:
        changes["DeadLetterReason"] = marks.dead_letter_reason
    if marks.dead_letter_description is not None:
        changes["DeadLetterErrorDescription"] = marks.dead_letter_description
    return changes


def _without_body(bare: bytes) -> bytes:
    """Keep the properties, and an empty body so that the message stays a valid one."""
    end = 0
    for section in find_sections(bare):
        if section.code <= SectionCode.APPLICATION_PROPERTIES:
            end = section.end
    return bare[:end] + encode_section(SectionCode.DATA, b"")


def encode_changes(changes: dict[object, object]) -> bytes:
    """Encode property changes as key, value, key, value ...: joining two means later ones win."""
    return b"".join(encode_value(str(key)) + encode_value(value) for key, value in changes.items())


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
_TAG: Final = Struct("<IHH8s")


@lru_cache(maxsize=64)
def _nonce_bytes(nonce: int) -> bytes:
    """Encode a nonce; all messages of one acquire share it."""
    return nonce.to_bytes(8, "big")


def delivery_tag(sequence: int, nonce: int) -> bytes:
    """Return the lock token in the form in which it is a delivery's tag."""
    return _TAG.pack(
        sequence >> 32, sequence >> 16 & 0xFFFF, sequence & 0xFFFF, _nonce_bytes(nonce)
    )


def lock_token(lock: Lock) -> uuid.UUID:
    """Return the lock token in the form in which management requests name it."""
    return uuid.UUID(int=lock.sequence << 64 | lock.nonce)


def lock_of_token(token: uuid.UUID) -> Lock:
    """Return the lock that a token names. Whether it holds is for the store to say."""
    return Lock(token.int >> 64, token.int & 0xFFFFFFFFFFFFFFFF)
