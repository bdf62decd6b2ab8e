"""Ranges of delivery ids, and deliveries that come in many frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from bendybus.amqp.serial import SERIAL_HALF, SERIAL_MASK

# Deliveries that wait for the peer's word, on all links of a session. More than any client reads
# ahead; a peer that gives credit and never decides costs so much memory, and no more.
UNSETTLED_MAX: Final = 65_536

_DeliveryT = TypeVar("_DeliveryT")


def take_range(unsettled: dict[int, _DeliveryT], first: int, last: int) -> list[_DeliveryT]:
    """Take out the deliveries with ids first..last in order, skipping ids that are not there.

    Costs no more than the smaller of range and map, whatever range a peer names.
    """
    length = ((last - first) & SERIAL_MASK) + 1
    if length > SERIAL_HALF:
        return []
    if length > len(unsettled):
        ids: Iterable[int] = sorted(
            (key for key in unsettled if (key - first) & SERIAL_MASK < length),
            key=lambda key: (key - first) & SERIAL_MASK,
        )
    else:
        ids = ((first + step) & SERIAL_MASK for step in range(length))
    return [unsettled.pop(key) for key in ids if key in unsettled]


def consecutive_ranges(ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Cut ids into ranges first..last without gaps, so that each range needs one frame."""
    ordered = sorted(ids)
    start = 0
    for index in range(1, len(ordered) + 1):
        if index == len(ordered) or ordered[index] != ordered[index - 1] + 1:
            yield ordered[start], ordered[index - 1]
            start = index


class Assembly:
    """A delivery of which more frames are to come.

    One growing buffer, not a list of parts: a peer may cut a message into single bytes, and a list
    would then cost fifty times what it holds.
    """

    __slots__ = ("delivery_id", "message_format", "payload", "settled", "size", "state", "tag")

    def __init__(self, delivery_id: int, tag: bytes, message_format: int) -> None:
        self.delivery_id = delivery_id
        self.tag = tag
        self.message_format = message_format
        self.settled = False
        self.state: object = None
        self.payload = bytearray()
        self.size = 0

    def add(self, part: bytes, size_max: int) -> None:
        """Take one frame's payload. Past `size_max` the size is counted but nothing is kept."""
        self.size += len(part)
        if self.size > size_max:
            self.payload.clear()
        else:
            self.payload += part
