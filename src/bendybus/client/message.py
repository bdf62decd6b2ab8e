"""A message to send, and one that was received."""

import uuid
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from functools import cached_property
from typing import Final, TypeAlias

from bendybus.amqp.sections import SectionCode, encode_section
from bendybus.amqp.values import Symbol, Uint
from bendybus.client.encoded_message import (
    MessageParts,
    encode_body,
    encode_id_alone,
    id_value,
    instant,
    moment,
    read_parts,
)
from bendybus.client.receiving_end import ReceivingEnd

MessageId: TypeAlias = str | bytes | uuid.UUID | int
"""The types that ids may have."""

DEAD_LETTER_PROPERTIES: Final = ("DeadLetterReason", "DeadLetterErrorDescription")
"""The application properties that say why a message is a dead letter."""

_TIME_TO_LIVE_MAX: Final = 0xFFFFFFFF
_TOKEN_SIZE: Final = 16
_NO_TEXTS: Final = (None,) * 5
_NO_OTHERS: Final = (None,) * 2
_TIME_TO_LIVE: Final = 2
_DELIVERY_COUNT: Final = 4


class MessageState(Enum):
    """Where a message stands."""

    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2


def _new_id() -> MessageId:
    return uuid.uuid4().hex


@dataclass(slots=True)
class Message:
    """A message to send.

    A body of bytes is sent as data, as the official clients do. Any other value that AMQP knows
    (text, numbers, lists, maps, None, ...) is sent as that value and arrives with its type.
    """

    body: object = b""
    _: KW_ONLY
    message_id: MessageId = field(default_factory=_new_id)
    """Made here unless given, so that a message sent again can be known as the same."""
    session_id: str | None = None
    partition_key: str | None = None
    subject: str | None = None
    correlation_id: MessageId | None = None
    content_type: str | None = None
    to: str | None = None
    reply_to: str | None = None
    reply_to_session_id: str | None = None
    time_to_live: timedelta | None = None
    scheduled_time: datetime | None = None
    application_properties: Mapping[str, object] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the message as it is sent. Raises `EncodeError` for a value AMQP does not have."""
        return b"".join(
            (
                self._header(),
                self.routing_annotations(is_schedule_included=True),
                self._properties(),
                self._application_properties(),
                encode_body(self.body),
            )
        )

    def envelope(self) -> bytes:
        """Return what a batch that begins with this message is routed by."""
        routing: list[object] = [id_value(self.message_id)]
        if self.session_id is not None:
            routing += [None] * 9 + [self.session_id]
        return self.routing_annotations() + encode_section(SectionCode.PROPERTIES, routing)

    def routing_annotations(self, *, is_schedule_included: bool = False) -> bytes:
        """Return the annotations section; empty bytes if there is nothing to say in it."""
        if self.partition_key is None and self.scheduled_time is None:
            return b""
        annotations: dict[object, object] = {}
        if self.partition_key is not None:
            annotations[Symbol("x-opt-partition-key")] = self.partition_key
        if self.scheduled_time is not None and is_schedule_included:
            annotations[Symbol("x-opt-scheduled-enqueue-time")] = instant(self.scheduled_time)
        if not annotations:
            return b""
        return encode_section(SectionCode.MESSAGE_ANNOTATIONS, annotations)

    def _header(self) -> bytes:
        if self.time_to_live is None:
            return b""
        milliseconds = max(0, self.time_to_live // timedelta(milliseconds=1))
        time_to_live = Uint(min(milliseconds, _TIME_TO_LIVE_MAX))
        return encode_section(SectionCode.HEADER, [None, None, time_to_live])

    def _application_properties(self) -> bytes:
        if not self.application_properties:
            return b""
        properties = dict(self.application_properties)
        return encode_section(SectionCode.APPLICATION_PROPERTIES, properties)

    def _properties(self) -> bytes:
        texts = (self.to, self.subject, self.reply_to, self.session_id, self.reply_to_session_id)
        others = (self.correlation_id, self.content_type)
        if texts == _NO_TEXTS and others == _NO_OTHERS and type(self.message_id) is str:
            encoded = encode_id_alone(self.message_id)
            if encoded is not None:
                return encoded
        fields: list[object] = [
            id_value(self.message_id),
            None,
            self.to,
            self.subject,
            self.reply_to,
            id_value(self.correlation_id),
            None if self.content_type is None else Symbol(self.content_type),
            None,
            None,
            None,
            self.session_id,
            None,
            self.reply_to_session_id,
        ]
        while fields[-1] is None and len(fields) > 1:
            fields.pop()
        return encode_section(SectionCode.PROPERTIES, fields)


class ReceivedMessage:
    """A message as it came. It is taken apart when something of it is asked for.

    Asking for anything of a message that cannot be read raises `DecodeError`; settling it works.
    """

    def __init__(
        self,
        payload: bytes,
        *,
        lock_token: uuid.UUID | None = None,
        end: ReceivingEnd | None = None,
        delivery_id: int = 0,
    ) -> None:
        self.payload = payload
        self.lock_token = lock_token
        """What settles it, and what renews its lock; None if it has no lock."""
        self.end = end
        """The link it came on, as long as it can be settled there."""
        self.delivery_id = delivery_id
        self._locked_until: datetime | None = None

    @classmethod
    def delivered(
        cls, payload: bytes, tag: bytes, end: ReceivingEnd, delivery_id: int
    ) -> "ReceivedMessage":
        """Make one of a delivery that is to be settled; its tag is the lock token."""
        token = uuid.UUID(bytes_le=tag) if len(tag) == _TOKEN_SIZE else None
        return cls(payload, lock_token=token, end=end, delivery_id=delivery_id)

    def __repr__(self) -> str:
        return f"ReceivedMessage({self.message_id!r}, sequence_number={self.sequence_number})"

    @cached_property
    def _parts(self) -> MessageParts:
        return read_parts(self.payload)

    @property
    def body(self) -> object:
        """Bytes if it was sent as data, else the value, else the items of a sequence."""
        return self._parts.body

    @property
    def message_id(self) -> object:
        """The sender's, or one that the broker gave."""
        return self._parts.property_at(0)

    @property
    def to(self) -> str | None:
        """Where the sender meant it to go."""
        return self._parts.text_at(2)

    @property
    def subject(self) -> str | None:
        """The sender's label."""
        return self._parts.text_at(3)

    @property
    def reply_to(self) -> str | None:
        """Where an answer should go."""
        return self._parts.text_at(4)

    @property
    def correlation_id(self) -> object:
        """What it answers or belongs to."""
        return self._parts.property_at(5)

    @property
    def content_type(self) -> str | None:
        """What the body is."""
        return self._parts.text_at(6)

    @property
    def session_id(self) -> str | None:
        """The session it belongs to."""
        return self._parts.text_at(10)

    @property
    def reply_to_session_id(self) -> str | None:
        """The session that an answer should be in."""
        return self._parts.text_at(12)

    @property
    def partition_key(self) -> str | None:
        """The key that chose its fragment."""
        return self._parts.text("x-opt-partition-key")

    @cached_property
    def application_properties(self) -> dict[str, object]:
        """The sender's own properties, and what receivers changed."""
        return {str(key): value for key, value in self._parts.application_properties.items()}

    @property
    def dead_letter_reason(self) -> str | None:
        """Why it is in a dead-letter queue."""
        value = self.application_properties.get(DEAD_LETTER_PROPERTIES[0])
        return value if isinstance(value, str) else None

    @property
    def dead_letter_description(self) -> str | None:
        """More about why it is in a dead-letter queue."""
        value = self.application_properties.get(DEAD_LETTER_PROPERTIES[1])
        return value if isinstance(value, str) else None

    @property
    def dead_letter_source(self) -> str | None:
        """The entity that it became a dead letter of."""
        return self._parts.text("x-opt-deadletter-source")

    @property
    def sequence_number(self) -> int | None:
        """Its place in the entity; the top 16 bits are the fragment."""
        return self._parts.number("x-opt-sequence-number")

    @property
    def enqueued_time(self) -> datetime | None:
        """When the broker took it."""
        return moment(self._parts.annotations.get("x-opt-enqueued-time"))

    @property
    def scheduled_time(self) -> datetime | None:
        """When it was to be taken."""
        return moment(self._parts.annotations.get("x-opt-scheduled-enqueue-time"))

    @property
    def state(self) -> MessageState:
        """Where it stands."""
        return MessageState(self._parts.number("x-opt-message-state") or 0)

    @property
    def time_to_live(self) -> timedelta | None:
        """How long it is kept, from when it was taken."""
        value = self._header_number(_TIME_TO_LIVE)
        return None if value is None else timedelta(milliseconds=value)

    @property
    def delivery_count(self) -> int:
        """How many deliveries before this one failed."""
        return self._header_number(_DELIVERY_COUNT) or 0

    @property
    def locked_until(self) -> datetime | None:
        """When its lock ends; renewing moves it."""
        return self._locked_until or moment(self._parts.annotations.get("x-opt-locked-until"))

    @locked_until.setter
    def locked_until(self, until: datetime | None) -> None:
        self._locked_until = until

    def to_message(self) -> Message:
        """Return the same message to be sent again, with its id and all that its sender said.

        Why it is a dead letter, if it is one, belongs to where it is, and is left out.
        """
        parts = self._parts
        properties = dict(self.application_properties)
        if self.dead_letter_source is not None:
            for name in DEAD_LETTER_PROPERTIES:
                properties.pop(name, None)
        message_id, correlation_id = parts.property_at(0), parts.property_at(5)
        return Message(
            parts.body,
            message_id=message_id if isinstance(message_id, MessageId) else _new_id(),
            session_id=self.session_id,
            partition_key=self.partition_key,
            subject=self.subject,
            correlation_id=correlation_id if isinstance(correlation_id, MessageId) else None,
            content_type=self.content_type,
            to=self.to,
            reply_to=self.reply_to,
            reply_to_session_id=self.reply_to_session_id,
            time_to_live=self.time_to_live,
            application_properties=properties,
        )

    def _header_number(self, index: int) -> int | None:
        header = self._parts.header
        value = header[index] if index < len(header) else None
        return int(value) if isinstance(value, int) else None
