"""Messages as clients encode them, and what a test wants to see of one that came back."""

import uuid
from dataclasses import dataclass
from typing import Any

from bendybus.amqp.sections import (
    SectionCode,
    decode_section,
    encode_properties,
    encode_section,
    find_sections,
)
from bendybus.amqp.values import Symbol, Uint

BATCH_FORMAT = 0x80013700
_LABEL = 3
_GROUP_ID = 10


def message(
    body: bytes = b"hello",
    *,
    message_id: object = "an-id",
    label: str | None = None,
    session_id: str | None = None,
    partition_key: str | None = None,
    time_to_live_ms: int | None = None,
    properties: dict[object, object] | None = None,
    annotations: dict[object, object] | None = None,
) -> bytes:
    """Return a message of one data section, with the sections that its fields need."""
    annotations = dict(annotations or {})
    if partition_key is not None:
        annotations[Symbol("x-opt-partition-key")] = partition_key
    parts: list[bytes] = []
    if time_to_live_ms is not None:
        header: list[object] = [False, None, Uint(time_to_live_ms)]
        parts.append(encode_section(SectionCode.HEADER, header))
    if annotations:
        parts.append(encode_section(SectionCode.MESSAGE_ANNOTATIONS, annotations))
    fields: list[object] = [None] * 11
    fields[0], fields[_LABEL], fields[_GROUP_ID] = message_id, label, session_id
    parts.append(encode_properties(fields))
    if properties is not None:
        parts.append(encode_section(SectionCode.APPLICATION_PROPERTIES, properties))
    parts.append(encode_section(SectionCode.DATA, body))
    return b"".join(parts)


def batch(*messages: bytes) -> bytes:
    """Return the envelope of several messages; it goes with `BATCH_FORMAT`."""
    return b"".join(encode_section(SectionCode.DATA, each) for each in messages)


@dataclass(frozen=True, slots=True)
class Seen:
    """A message that came back, section by section."""

    codes: list[int]
    header: list[Any]
    delivery_annotations: dict[Any, Any]
    annotations: dict[Any, Any]
    properties: list[Any]
    application_properties: dict[Any, Any]
    body: Any

    @property
    def sequence(self) -> int:
        """The sequence number."""
        return int(self.annotations["x-opt-sequence-number"])

    @property
    def token(self) -> uuid.UUID:
        """The lock token."""
        token = self.delivery_annotations["x-opt-lock-token"]
        assert isinstance(token, uuid.UUID)
        return token

    @property
    def delivery_count(self) -> int:
        """How often it was handed out before and failed."""
        return int(self.header[4])


def see(payload: bytes) -> Seen:
    """Take a message apart."""
    sections = find_sections(payload)
    found: dict[int, Any] = {each.code: decode_section(payload, each) for each in sections}
    body = next(
        (value for code, value in found.items() if SectionCode.DATA <= code < SectionCode.FOOTER),
        None,
    )
    return Seen(
        codes=[each.code for each in sections],
        header=found.get(SectionCode.HEADER, []),
        delivery_annotations=found.get(SectionCode.DELIVERY_ANNOTATIONS, {}),
        annotations=found.get(SectionCode.MESSAGE_ANNOTATIONS, {}),
        properties=found.get(SectionCode.PROPERTIES, []),
        application_properties=found.get(SectionCode.APPLICATION_PROPERTIES, {}),
        body=body,
    )
