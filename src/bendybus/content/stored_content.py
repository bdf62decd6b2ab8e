"""The bytes in which the edge keeps a message in a store.

    +----------------+----------------------------+--------------------------------------+
    | size of head   | head: header, annotations  | bare message, as the sender made it  |
    +----------------+----------------------------+--------------------------------------+

The size is one byte; 255 means that four more hold it. The bare message (properties, application
properties, body, footer) is sent out again as it is. The head is merged with what the broker has
to say about the message. Heads repeat from message to message, so a decoded one is kept.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bendybus.amqp.sections import SectionCode, decode_list, decode_map, find_sections
from bendybus.amqp.values import Ubyte, Uint

LONG_HEAD: Final = 255
_HEADS_REMEMBERED: Final = 512


@dataclass(frozen=True, slots=True)
class Head:
    """What a sender said beside the bare message. Not to be changed: it is shared."""

    durable: bool
    priority: int
    time_to_live_ms: int | None
    delivery_annotations: dict[object, object]
    message_annotations: dict[object, object]


def join_content(head: bytes, bare: bytes) -> bytes:
    """Make the stored bytes."""
    size = len(head)
    if size < LONG_HEAD:
        return bytes((size,)) + head + bare
    return b"\xff" + size.to_bytes(4, "big") + head + bare


def split_content(content: bytes) -> tuple[bytes, int]:
    """Return the head, and where the bare message begins."""
    size = content[0]
    if size == LONG_HEAD:
        size = int.from_bytes(content[1:5], "big")
        return content[5 : 5 + size], 5 + size
    return content[1 : 1 + size], 1 + size


@lru_cache(maxsize=_HEADS_REMEMBERED)
def decode_head(head: bytes) -> Head:
    """Decode a head that `join_content` stored."""
    fields: list[object] = []
    annotations: dict[int, dict[object, object]] = {}
    for section in find_sections(head):
        if section.code == SectionCode.HEADER:
            fields = decode_list(head, section)
        else:
            annotations[section.code] = decode_map(head, section)
    fields += [None] * (5 - len(fields))
    durable, priority, time_to_live = fields[:3]
    return Head(
        durable=durable is True,
        priority=priority if isinstance(priority, Ubyte) else 4,
        time_to_live_ms=time_to_live if isinstance(time_to_live, Uint) else None,
        delivery_annotations=annotations.get(SectionCode.DELIVERY_ANNOTATIONS, {}),
        message_annotations=annotations.get(SectionCode.MESSAGE_ANNOTATIONS, {}),
    )
