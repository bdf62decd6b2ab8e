"""Transfer and disposition frames, written by hand because nearly all frames are one of them.

    transfer     size 02 00 channel  00 53 14 c0 n 0b  handle  70 delivery-id  a0 10 tag
                 43 settled 42 40 40 42 42 41  payload
    disposition  size 02 00 channel  00 53 15 c0 n 06  role  70 first  70 last  settled  state  42

The byte-by-byte equality with the general encoder is a test.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from bendybus.amqp.composite import encode_composite
from bendybus.amqp.encode import encode_value
from bendybus.amqp.frames import AMQP_FRAME, FRAME_HEADER, FRAME_HEADER_SIZE
from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.performatives import Transfer
from bendybus.amqp.values import Uint

TAG_SIZE: Final = 16
"""Delivery tags are lock tokens, and those are 16 bytes: only that size has a fast form."""

UNSETTLED_TAIL: Final = b"\x43\x42\x42\x40\x40\x42\x42\x41"
"""message-format 0, settled false, more false, rcv-settle-mode and state null, resume and aborted
false, batchable true."""
SETTLED_TAIL: Final = b"\x43\x41\x42\x40\x40\x42\x42\x41"
TAG_PREFIX: Final = bytes((0xA0, TAG_SIZE))

_ACCEPTED: Final = b"\x00\x53\x24\x45"
_NO_STATE: Final = b"\x40"
_DISPOSITION: Final = struct.Struct(">IHHIBBBBIBIB")
# What it ends with, from the first delivery on.
_RANGE_AND_SETTLED: Final = struct.Struct(">IBIB")
_STATE_SIZE_MAX: Final = 240
_pack_uint: Final = struct.Struct(">I").pack


TransferLayout: TypeAlias = tuple[Callable[..., bytes], bytes, int]


def transfer_layout(channel: int, handle: int) -> TransferLayout:
    """Return for one link: the packer, its constant start, and the size of a frame's overhead.

    The packer takes size, start, delivery id, TAG_PREFIX, tag and tail, and gives everything of
    a frame that stands in front of the payload.
    """
    encoded_handle = encode_value(Uint(handle))
    list_size = 1 + len(encoded_handle) + 5 + 2 + TAG_SIZE + len(UNSETTLED_TAIL)
    start = (
        struct.pack(">BBH", 2, AMQP_FRAME, channel)
        + bytes((0x00, 0x53, 0x14, 0xC0, list_size, 11))
        + encoded_handle
        + b"\x70"
    )
    layout = struct.Struct(f">I{len(start)}sI2s{TAG_SIZE}s{len(UNSETTLED_TAIL)}s")
    return layout.pack, start, layout.size


def split_transfer(
    channel: int, first: Transfer, payload: bytes, frame_size_max: int
) -> Iterator[bytes]:
    """Yield the frames of one delivery, none larger than the peer takes (§2.6.14)."""
    fields, offset = first, 0
    while True:
        room = frame_size_max - FRAME_HEADER_SIZE - len(encode_composite(fields))
        fields.more = len(payload) - offset > room
        part = payload[offset : offset + room]
        encoded = encode_composite(fields)
        size = FRAME_HEADER_SIZE + len(encoded) + len(part)
        yield FRAME_HEADER.pack(size, 2, AMQP_FRAME, channel) + encoded + part
        offset += len(part)
        if not fields.more:
            return
        # What identifies a delivery is given once; a peer takes it from the first frame.
        fields = Transfer(handle=first.handle, settled=first.settled, batchable=True)


def disposition_frame(
    channel: int, *, receiver: bool, first: int, last: int, state: object, settled: bool
) -> bytes:
    """Return one disposition for a range of deliveries."""
    if type(state) is Accepted:
        encoded = _ACCEPTED
    elif state is None:
        encoded = _NO_STATE
    else:
        encoded = encode_composite(state)
        if len(encoded) > _STATE_SIZE_MAX:
            return _long_disposition(
                channel, receiver=receiver, first=first, last=last, state=encoded, settled=settled
            )
    size = _DISPOSITION.size + len(encoded) + 1
    return (
        _DISPOSITION.pack(
            size,
            0x0200,
            channel,
            0x005315C0,
            size - 13,
            6,
            0x41 if receiver else 0x42,
            0x70,
            first,
            0x70,
            last,
            0x41 if settled else 0x42,
        )
        + encoded
        + b"\x42"
    )


def acceptance_frames(channel: int, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
    """Return for ranges of deliveries that we received that each is accepted, and settled.

    As `disposition_frame` writes one: a sender whose deliveries go many ways is told of many.
    """
    size = _DISPOSITION.size + len(_ACCEPTED) + 1
    head = _DISPOSITION.pack(
        size, 0x0200, channel, 0x005315C0, size - 13, 6, 0x41, 0x70, 0, 0x70, 0, 0x41
    )[: -_RANGE_AND_SETTLED.size]
    tail = _ACCEPTED + b"\x42"
    pack = _RANGE_AND_SETTLED.pack
    return [head + pack(first, 0x70, last, 0x41) + tail for first, last in ranges]


def _long_disposition(
    channel: int, *, receiver: bool, first: int, last: int, state: bytes, settled: bool
) -> bytes:
    """Return a disposition whose state (a rejection with a long text) needs a wide list."""
    fields = (
        (b"\x41" if receiver else b"\x42")
        + b"\x70"
        + _pack_uint(first)
        + b"\x70"
        + _pack_uint(last)
        + (b"\x41" if settled else b"\x42")
        + state
        + b"\x42"
    )
    body = b"\x00\x53\x15\xd0" + _pack_uint(len(fields) + 4) + _pack_uint(6) + fields
    return FRAME_HEADER.pack(FRAME_HEADER_SIZE + len(body), 2, AMQP_FRAME, channel) + body
