"""Takes contents apart one by one: any shape that a message can have.

The careful way, for those that `many_together` cannot read and for its tests: both must say the
same. Nothing here raises because of what a message says. Texts are kept as they came, which need
not be UTF-8; what is not becomes replacement characters, and what cannot be read at all is null.
"""

import base64
from dataclasses import dataclass, field
from typing import Final

from bendybus.amqp.decode import decode_value, skip_value
from bendybus.amqp.encode import encode_value
from bendybus.amqp.sections import (
    Section,
    SectionCode,
    decode_list,
    decode_section,
    find_sections,
    list_fields,
    map_fields,
)
from bendybus.amqp.values import AmqpCodecError, DecodeError, Symbol, Timestamp
from bendybus.columns.property_texts import TypedText, typed_text
from bendybus.content.incoming_message import text_of_id
from bendybus.content.outgoing_message import properties_of_marks
from bendybus.content.stored_content import decode_head, split_content
from bendybus.model.message import Marks

# Where the properties that are columns stand in the section of that name.
PROPERTY_FIELDS: Final = {
    0: "message_id",
    2: "to",
    3: "subject",
    4: "reply_to",
    5: "correlation_id",
    6: "content_type",
    12: "reply_to_session_id",
}
_SCHEDULED: Final = Symbol("x-opt-scheduled-enqueue-time")
_NULL: Final = 0x40
_STRINGS: Final = {0xA1: 2, 0xB1: 5}
_SYMBOLS: Final = {0xA3: 2, 0xB3: 5}
_BINARIES: Final = {0xA0: 2, 0xB0: 5}


@dataclass(slots=True)
class PlainColumns:
    """What the content of one message says."""

    texts: dict[str, str] = field(default_factory=dict)
    time_to_live: int | None = None
    scheduled_at: int | None = None
    properties: dict[str, TypedText] = field(default_factory=dict)
    body: bytes = b""
    body_type: str = "data"


def read_content(content: bytes, marks: Marks | None) -> PlainColumns:
    """Read one stored content, with what happened to its properties since."""
    plain = PlainColumns()
    try:
        head_bytes, start = split_content(content)
        head = decode_head(head_bytes)
        plain.time_to_live = head.time_to_live_ms
        scheduled = head.message_annotations.get(_SCHEDULED)
        plain.scheduled_at = int(scheduled) if isinstance(scheduled, Timestamp) else None
    except (AmqpCodecError, IndexError):
        start = len(content)
    bare = content[start:]
    try:
        _read_bare(plain, bare)
    except (AmqpCodecError, IndexError):
        plain.body = bare
    if marks is not None:
        for name, value in properties_of_marks(marks).items():
            plain.properties[str(name)] = typed_text(value)
    return plain


def _read_bare(plain: PlainColumns, bare: bytes) -> None:
    data: list[bytes] = []
    items: list[object] = []
    for section in find_sections(bare):
        match section.code:
            case SectionCode.PROPERTIES:
                plain.texts = _texts(bare, section)
            case SectionCode.APPLICATION_PROPERTIES:
                plain.properties = _properties(bare, section)
            case SectionCode.DATA:
                found = decode_section(bare, section)
                data.append(found if isinstance(found, bytes) else b"")
            case SectionCode.AMQP_VALUE:
                plain.body_type, value = _typed_bytes(bare, section)
                data = [value]
            case SectionCode.AMQP_SEQUENCE:
                plain.body_type = "sequence"
                items += decode_list(bare, section)
            case _:
                pass
    plain.body = encode_value(items) if plain.body_type == "sequence" else b"".join(data)


def _texts(bare: bytes, section: Section) -> dict[str, str]:
    texts: dict[str, str] = {}
    count, at = list_fields(bare, section)
    for index in range(count):
        name = PROPERTY_FIELDS.get(index)
        if name is not None and bare[at] != _NULL:
            texts[name] = _id_text(bare, at)
        at = skip_value(bare, at)
    return texts


def _id_text(bare: bytes, at: int) -> str:
    text = _text_at(bare, at)
    return text_of_id(decode_value(bare, at)[0]) if text is None else text


def _properties(bare: bytes, section: Section) -> dict[str, TypedText]:
    properties: dict[str, TypedText] = {}
    if bare[section.value] == _NULL:
        return properties
    count, at = map_fields(bare, section)
    for _ in range(count // 2):
        value = skip_value(bare, at)
        properties[_name_at(bare, at)] = _typed_at(bare, value)
        at = skip_value(bare, value)
    return properties


def _name_at(bare: bytes, at: int) -> str:
    """Read the name of a property; some clients send symbols or binary."""
    text = _text_at(bare, at)
    if text is not None:
        return text
    value, _ = decode_value(bare, at)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _typed_at(bare: bytes, at: int) -> TypedText:
    text = _text_at(bare, at)
    if text is not None:
        return "string" if bare[at] in _STRINGS else "symbol", text
    try:
        return typed_text(decode_value(bare, at)[0])
    except DecodeError:
        return "amqp", base64.b64encode(bare[at : skip_value(bare, at)]).decode()


def _text_at(bare: bytes, at: int) -> str | None:
    """Read a string or a symbol, whatever its bytes; None if there is something else."""
    head = _STRINGS.get(bare[at]) or _SYMBOLS.get(bare[at])
    if head is None:
        return None
    return bare[at + head : skip_value(bare, at)].decode("utf-8", "replace")


def _typed_bytes(bare: bytes, section: Section) -> tuple[str, bytes]:
    """Return the bytes of a text or binary, and the encoding of anything else."""
    for name, heads in (("text", _STRINGS), ("binary", _BINARIES)):
        head = heads.get(bare[section.value])
        if head is not None:
            return name, bare[section.value + head : section.end]
    return "value", bare[section.value : section.end]
