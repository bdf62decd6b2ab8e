"""The sections of a message (AMQP 1.0 §3.2), found by offset.

A message is a run of described values. Nothing here decodes more than it is asked for: a section
is known by its code and where it lies, so that bodies are passed on as the bytes that came.

    +------+------+------+-------------+------+------+------+---
    | 0x00 | 0x53 | code | value ...   | 0x00 | 0x53 | code | ...
    +------+------+------+-------------+------+------+------+---
     ^ start             ^ value        ^ end
"""

from enum import IntEnum
from typing import Final, NamedTuple

from bendybus.amqp.composite import descriptor_code
from bendybus.amqp.decode import decode_value, skip_value
from bendybus.amqp.encode import encode_value
from bendybus.amqp.values import DecodeError, Symbol


class SectionCode(IntEnum):
    """Descriptors of the sections, in the order in which they are sent."""

    HEADER = 0x70
    DELIVERY_ANNOTATIONS = 0x71
    MESSAGE_ANNOTATIONS = 0x72
    PROPERTIES = 0x73
    APPLICATION_PROPERTIES = 0x74
    DATA = 0x75
    AMQP_SEQUENCE = 0x76
    AMQP_VALUE = 0x77
    FOOTER = 0x78


# A body of many sections is legal; this many is an attack.
SECTIONS_MAX: Final = 10_000

_CODES_BY_NAME: Final[dict[str, int]] = {
    "amqp:header:list": SectionCode.HEADER,
    "amqp:delivery-annotations:map": SectionCode.DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": SectionCode.MESSAGE_ANNOTATIONS,
    "amqp:properties:list": SectionCode.PROPERTIES,
    "amqp:application-properties:map": SectionCode.APPLICATION_PROPERTIES,
    "amqp:data:binary": SectionCode.DATA,
    "amqp:amqp-sequence:list": SectionCode.AMQP_SEQUENCE,
    "amqp:amqp-value:*": SectionCode.AMQP_VALUE,
    "amqp:footer:map": SectionCode.FOOTER,
}
_FIRST_CODE: Final = int(SectionCode.HEADER)
_LAST_CODE: Final = int(SectionCode.FOOTER)
_REPEATABLE: Final = (int(SectionCode.DATA), int(SectionCode.AMQP_SEQUENCE))
# Lists, maps and binaries, by how many bytes their size has.
_ONE_BYTE_SIZE: Final = (0xC0, 0xC1, 0xA0)
_FOUR_BYTE_SIZE: Final = (0xD0, 0xD1, 0xB0)
_FIELDS_IN_PROPERTIES: Final = 13


class Section(NamedTuple):
    """One section: what it is, and where it, its value and its end are."""

    code: int
    start: int
    value: int
    end: int


def find_sections(payload: bytes) -> list[Section]:
    """Return the sections in the order they came. Raises `DecodeError` if they are none.

    Everything but an unusual encoding is measured by its size byte alone; this runs for every
    message.
    """
    sections: list[Section] = []
    at, size = 0, len(payload)
    seen = 0
    try:
        while at < size:
            if payload[at] != 0:
                raise DecodeError(f"a message section starts with {payload[at]:#x}, not 0x00")
            if payload[at + 1] == 0x53:
                code = payload[at + 2]
                value = at + 3
            else:
                code, value = _long_descriptor(payload, at + 1)
            constructor = payload[value]
            if constructor in _ONE_BYTE_SIZE:
                end = value + 2 + payload[value + 1]
            elif constructor in _FOUR_BYTE_SIZE:
                end = value + 5 + int.from_bytes(payload[value + 1 : value + 5], "big")
            else:
                end = skip_value(payload, value)
            bit = 1 << (code - _FIRST_CODE) if _FIRST_CODE <= code <= _LAST_CODE else 0
            if not bit or end > size or seen & bit:
                raise _fault(code, end, size)
            if code not in _REPEATABLE:
                seen |= bit
            sections.append(Section(code, at, value, end))
            at = end
    except IndexError:
        raise DecodeError("the message ends within a section") from None
    if len(sections) > SECTIONS_MAX:
        raise DecodeError(f"a message has more than {SECTIONS_MAX} sections")
    return sections


def _long_descriptor(payload: bytes, at: int) -> tuple[int, int]:
    """Read a descriptor in an unusual form, a name or a number; zero if it is no section's."""
    descriptor, end = decode_value(payload, at)
    if isinstance(descriptor, Symbol):
        return _CODES_BY_NAME.get(descriptor, 0), end
    return descriptor_code(descriptor) or 0, end


def _fault(code: int, end: int, size: int) -> DecodeError:
    if not _FIRST_CODE <= code <= _LAST_CODE:
        return DecodeError(f"{code:#x} is not a message section")
    if end > size:
        return DecodeError("the message ends within a section")
    return DecodeError(f"the section {SectionCode(code).name} comes twice")


def decode_section(payload: bytes, section: Section) -> object:
    """Decode the value of one section, and insist that it fills it."""
    value, end = decode_value(payload, section.value)
    if end != section.end:
        raise DecodeError(f"the section {SectionCode(section.code).name} has a wrong size")
    return value


def decode_map(payload: bytes, section: Section) -> dict[object, object]:
    """Decode a section that must be a map; null counts as an empty one."""
    value = decode_section(payload, section)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DecodeError(f"the section {SectionCode(section.code).name} is not a map")
    return value


def decode_list(payload: bytes, section: Section) -> list[object]:
    """Decode a section that must be a list."""
    value = decode_section(payload, section)
    if not isinstance(value, list):
        raise DecodeError(f"the section {SectionCode(section.code).name} is not a list")
    return value


def encode_section(code: SectionCode, value: object) -> bytes:
    """Encode one section."""
    return b"\x00\x53" + bytes((code,)) + encode_value(value)


def encode_properties(fields: list[object]) -> bytes:
    """Encode the properties section with all of its fields."""
    missing = _FIELDS_IN_PROPERTIES - len(fields)
    return encode_section(SectionCode.PROPERTIES, fields + [None] * missing)


def list_fields(payload: bytes, section: Section) -> tuple[int, int]:
    """Return how many fields a list section has, and where the first is."""
    return _fields_of(payload, section, "list", (0xC0, 0xD0, 0x45))


def map_fields(payload: bytes, section: Section) -> tuple[int, int]:
    """Return how many keys and values a map section has, and where the first is."""
    return _fields_of(payload, section, "map", (0xC1, 0xD1, -1))


def _fields_of(
    payload: bytes, section: Section, kind: str, constructors: tuple[int, int, int]
) -> tuple[int, int]:
    narrow, wide, empty = constructors
    constructor = payload[section.value]
    if constructor == empty:
        return 0, section.end
    if constructor not in (narrow, wide):
        raise DecodeError(f"the section {SectionCode(section.code).name} is not a {kind}")
    # A size and a count follow, of one byte each or of four.
    width = 1 if constructor == narrow else 4
    count = section.value + 1 + width
    first = count + width
    if first > section.end:
        raise DecodeError(f"the section {SectionCode(section.code).name} has no count")
    return int.from_bytes(payload[count:first], "big"), first
