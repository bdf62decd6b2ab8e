"""Messages as rules see them, and the copies that rules' actions make of them.

A rule mostly looks at one or two properties, so nothing is decoded before it is asked for, and
then once for all rules.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from bendybus.amqp.sections import (
    Section,
    SectionCode,
    decode_list,
    decode_map,
    decode_section,
    encode_properties,
    encode_section,
    find_sections,
)
from bendybus.amqp.values import (
    AmqpCodecError,
    DecodeError,
    Described,
    Long,
    Symbol,
    Timestamp,
)
from bendybus.content.incoming_message import text_of_id
from bendybus.content.outgoing_message import properties_of_marks
from bendybus.content.stored_content import decode_head, join_content, split_content
from bendybus.model.ids import Instant
from bendybus.model.limits import PROPERTIES_BYTES_MAX
from bendybus.model.message import Message, MessageState
from bendybus.model.message_view import fold_names
from bendybus.model.rule_actions import Changes
from bendybus.model.sql_values import FilterFailed
from bendybus.model.time_values import Moment, Span

# Where the properties that rules can see are in the section of that name.
_FIELDS: Final = {
    "MessageId": 0,
    "To": 2,
    "Label": 3,
    "ReplyTo": 4,
    "CorrelationId": 5,
    "ContentType": 6,
    "SessionId": 10,
    "ReplyToSessionId": 12,
}
_FIELDS_COUNT: Final = 13
_IDS: Final = frozenset({"MessageId", "CorrelationId"})
_VIA_KEY: Final = Symbol("x-opt-via-partition-key")
_ANNOTATIONS: Final = {"PartitionKey": Symbol("x-opt-partition-key"), "ViaPartitionKey": _VIA_KEY}

# How .NET's duration is sent.
_TIME_SPAN: Final = Symbol("com.microsoft:timespan")
_TICKS_PER_MILLISECOND: Final = 10_000

# Marks that are among the properties of a copy, where an action may have changed them.
_WRITTEN_DOWN: Final[dict[str, Any]] = {
    "property_changes": None,
    "dead_letter_reason": None,
    "dead_letter_description": None,
}

# What is known of a message that is just coming in, without looking into the bare message. All
# others have no value yet.
_BESIDE: Final[dict[str, Callable[[Message, Instant], object]]] = {
    "DeadLetterSource": lambda message, _: message.marks and message.marks.dead_letter_source,
    "DeliveryCount": lambda _, __: 0,
    "EnqueuedTimeUtc": lambda _, enqueued_at: enqueued_at,
    "ExpiresAtUtc": lambda message, enqueued_at: (
        None if message.time_to_live_ms is None else enqueued_at + message.time_to_live_ms
    ),
    "PartitionKey": lambda message, _: message.partition_key,
    "ScheduledEnqueueTimeUtc": lambda message, _: message.scheduled_at,
    "Size": lambda message, _: len(message.content),
    "State": lambda _, __: int(MessageState.ACTIVE),
    "TimeToLive": lambda message, _: message.time_to_live_ms,
    "ViaPartitionKey": lambda message, _: decode_head(
        split_content(message.content)[0]
    ).message_annotations.get(_VIA_KEY),
}


class WireContentReader:
    """Reads contents as this edge writes them."""

    def view(self, message: Message, enqueued_at: Instant) -> "ContentView":
        """Show a message to rules."""
        return ContentView(message, enqueued_at)

    def time_to_live(self, content: bytes) -> int | None:
        """Return for how long a message is to live, as its header says."""
        try:
            return decode_head(split_content(content)[0]).time_to_live_ms
        except (AmqpCodecError, IndexError):
            return None

    def changed(self, message: Message, changes: Changes) -> Message:
        """Return a copy with the changes of an action."""
        try:
            return _changed(message, changes)
        except AmqpCodecError as error:
            raise FilterFailed(f"the changed message cannot be written: {error}") from error


class ContentView:
    """One message, decoded as far as rules have asked."""

    __slots__ = ("_bare", "_enqueued_at", "_fields", "_message", "_sections", "_user")

    def __init__(self, message: Message, enqueued_at: Instant) -> None:
        self._message = message
        self._enqueued_at = enqueued_at
        self._bare: bytes | None = None
        self._sections: dict[int, Section] = {}
        self._fields: list[object] | None = None
        self._user: Mapping[str, object] | None = None

    @property
    def user(self) -> Mapping[str, object]:
        """The application properties under their folded names."""
        if self._user is None:
            self._user = fold_names(self._application_properties())
        return self._user

    def system(self, name: str) -> object:
        """The value of a property of the system, None where the message has none."""
        at = _FIELDS.get(name)
        if at is None:
            read = _BESIDE.get(name)
            return None if read is None else read(self._message, self._enqueued_at)
        if self._fields is None:
            self._fields = self._properties()
        value = self._fields[at] if at < len(self._fields) else None
        return text_of_id(value) if value is not None and name in _IDS else value

    def _properties(self) -> list[object]:
        bare, section = self._find(SectionCode.PROPERTIES)
        try:
            return [] if section is None else decode_list(bare, section)
        except DecodeError as error:
            raise _unreadable(error) from error

    def _application_properties(self) -> dict[str, object]:
        bare, section = self._find(SectionCode.APPLICATION_PROPERTIES)
        try:
            properties = {} if section is None else _named(decode_map(bare, section))
        except DecodeError as error:
            raise _unreadable(error) from error
        return properties | _marked(self._message)

    def _find(self, code: SectionCode) -> tuple[bytes, Section | None]:
        if self._bare is None:
            content = self._message.content
            bare = content[split_content(content)[1] :]
            try:
                self._sections = {section.code: section for section in find_sections(bare)}
            except DecodeError as error:
                raise _unreadable(error) from error
            self._bare = bare
        return self._bare, self._sections.get(code)


def _unreadable(error: DecodeError) -> FilterFailed:
    """Let rules fail that ask for what cannot be read; texts, for one, are not checked before."""
    return FilterFailed(f"the message cannot be read: {error}")


def _changed(message: Message, changes: Changes) -> Message:
    head, start = split_content(message.content)
    bare = message.content[start:]
    fields: list[object] = []
    properties: dict[str, object] = {}
    rest = 0
    for section in find_sections(bare):
        if section.code == SectionCode.PROPERTIES:
            fields, rest = decode_list(bare, section), section.end
        elif section.code == SectionCode.APPLICATION_PROPERTIES:
            properties, rest = _named(decode_map(bare, section)), section.end
    fields += [None] * (_FIELDS_COUNT - len(fields))
    annotations: dict[object, object] = {}
    for name, value in changes.system.items():
        if name in _ANNOTATIONS:
            annotations[_ANNOTATIONS[name]] = value
        else:
            fields[_FIELDS[name]] = value
    properties |= _marked(message)
    changed = {name: wire_value(each) for name, each in changes.merged_user(properties).items()}
    encoded = encode_section(SectionCode.APPLICATION_PROPERTIES, changed)
    if len(encoded) > PROPERTIES_BYTES_MAX:
        raise FilterFailed(
            f"the changed application properties would have more than {PROPERTIES_BYTES_MAX} bytes"
        )
    tail = bare[rest:] if changes.body is None else _with_body(bare, changes.body)
    content = join_content(
        _with_annotations(head, annotations), encode_properties(fields) + encoded + tail
    )
    return Message(
        content,
        changes.system.get("MessageId") or message.message_id,
        changes.system.get("SessionId", message.session_id),
        changes.system.get("PartitionKey", message.partition_key),
        message.time_to_live_ms,
        message.scheduled_at,
        marks=message.marks and replace(message.marks, **_WRITTEN_DOWN),
    )


def _with_body(bare: bytes, body: bytes) -> bytes:
    """Return what follows the properties, with another body: a text stays one, all else is data."""
    footer = b""
    is_text = False
    for section in find_sections(bare):
        if section.code == SectionCode.FOOTER:
            footer = bare[section.start : section.end]
        elif section.code == SectionCode.AMQP_VALUE:
            is_text = isinstance(decode_section(bare, section), str)
    if is_text:
        try:
            return encode_section(SectionCode.AMQP_VALUE, body.decode()) + footer
        except UnicodeDecodeError as error:
            raise FilterFailed("the body is a text, and the new one is no UTF-8") from error
    return encode_section(SectionCode.DATA, body) + footer


def wire_value(value: object) -> object:
    """Return a value of a rule in the type that it has on the wire."""
    if isinstance(value, Moment):
        return Timestamp(value)
    if isinstance(value, Span):
        return Described(_TIME_SPAN, Long(value * _TICKS_PER_MILLISECOND))
    return value


def _marked(message: Message) -> dict[str, object]:
    """Return the properties that were changed while the message was in another queue."""
    return {} if message.marks is None else _named(properties_of_marks(message.marks))


def _with_annotations(head: bytes, changed: dict[object, object]) -> bytes:
    """Replace annotations in a stored head; None takes one away."""
    if not changed:
        return head
    kept = b"".join(
        head[section.start : section.end]
        for section in find_sections(head)
        if section.code != SectionCode.MESSAGE_ANNOTATIONS
    )
    annotations = {**decode_head(head).message_annotations, **changed}
    left = {key: value for key, value in annotations.items() if value is not None}
    return kept + encode_section(SectionCode.MESSAGE_ANNOTATIONS, left) if left else kept


def _named(properties: dict[object, object]) -> dict[str, object]:
    """Return the properties under texts; some clients send names as symbols or binary."""
    named: dict[str, object] = {}
    for key, value in properties.items():
        if not isinstance(key, str | bytes):
            raise DecodeError("the name of an application property is not a text")
        named[key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)] = value
    return named
