"""Frames and protocol headers (AMQP 1.0 §2.2, §2.3).

    +0  size, 4 bytes    +4  doff, in words    +5  type    +6  channel    +4*doff  body

The body is a performative, followed by a message's bytes when that is a transfer.
"""

from __future__ import annotations

import struct
from typing import Final

from bendybus.amqp.composite import encode_composite
from bendybus.amqp.performatives import Performative, SaslFrame

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
PROTOCOL_HEADER_SIZE: Final = 8

FRAME_HEADER: Final = struct.Struct(">IBBH")
FRAME_HEADER_SIZE: Final = 8
AMQP_FRAME: Final = 0
SASL_FRAME: Final = 1
FRAME_SIZE_MIN_MAX: Final = 512
"""Every peer takes frames of this size, so nobody may offer less (§2.7.1)."""

HEARTBEAT: Final = FRAME_HEADER.pack(FRAME_HEADER_SIZE, 2, AMQP_FRAME, 0)

_HTTP_METHODS: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN")


def encode_frame(channel: int, body: Performative) -> bytes:
    """Return a whole AMQP frame without payload."""
    encoded = encode_composite(body)
    return FRAME_HEADER.pack(FRAME_HEADER_SIZE + len(encoded), 2, AMQP_FRAME, channel) + encoded


def encode_sasl_frame(body: SaslFrame) -> bytes:
    """Return a whole SASL frame."""
    encoded = encode_composite(body)
    return FRAME_HEADER.pack(FRAME_HEADER_SIZE + len(encoded), 2, SASL_FRAME, 0) + encoded


def describe_foreign_bytes(start: bytes) -> str:
    """Say what bytes that are no AMQP 1.0 protocol header look like, for whoever must debug it."""
    if start.startswith(b"\x16\x03"):
        return "this looks like a TLS hello, but this port speaks plain AMQP"
    if start.startswith(_HTTP_METHODS):
        return "this looks like HTTP, but this port speaks AMQP"
    if start.startswith(b"AMQP") and len(start) >= PROTOCOL_HEADER_SIZE:
        layer, version = start[4], ".".join(str(octet) for octet in start[5:8])
        return f"AMQP protocol {layer}, version {version}, is not supported: 1.0.0 is"
    return f"this is not AMQP: it begins with {start[:8]!r}"
