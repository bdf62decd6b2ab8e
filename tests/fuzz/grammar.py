"""Streams of bytes that a client might send, and ways to spoil them.

Whole conversations are made by rule, so that most reach deep into the engine; then a few bytes,
frames or fields are spoiled, with sizes put right again more often than not.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from bendybus.amqp.frames import (
    AMQP_HEADER,
    HEARTBEAT,
    SASL_HEADER,
    encode_frame,
    encode_sasl_frame,
)
from bendybus.amqp.performatives import (
    Accepted,
    AmqpError,
    Attach,
    Begin,
    Close,
    Coordinator,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Open,
    Performative,
    Rejected,
    Released,
    SaslInit,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from bendybus.amqp.values import Symbol

INTERESTING_BYTES = bytes(
    [0, 1, 2, 0x40, 0x41, 0x43, 0x45, 0x53, 0x70, 0xA0, 0xC0, 0xD0, 0xE0, 0xFF]
)
INTERESTING_WORDS = (0, 7, 8, 511, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)
SERVER_DELIVERY = 0x40000000


def conversation(rng: Random) -> bytes:
    """Return a client's whole stream, valid or nearly so."""
    parts = []
    if rng.random() < 0.7:
        mechanism = rng.choice(("ANONYMOUS", "PLAIN", "MSSBCBS"))
        parts += [SASL_HEADER, encode_sasl_frame(SaslInit(mechanism, b"\0u\0k", "host"))]
    opening = Open(
        container_id="fuzz",
        max_frame_size=rng.choice((512, 1024, 65536)),
        idle_time_out=rng.choice((None, 60000)),
    )
    parts += [AMQP_HEADER, encode_frame(0, opening)]
    for channel in range(rng.randint(1, 2)):
        parts.append(encode_frame(channel, _begin(rng)))
        parts += [
            encode_frame(channel, _attach(rng, handle)) for handle in range(rng.randint(1, 3))
        ]
    for _ in range(rng.randint(0, 12)):
        parts.append(_step(rng))
    if rng.random() < 0.5:
        parts.append(encode_frame(0, Close()))
    return b"".join(parts)


def _step(rng: Random) -> bytes:
    if rng.random() < 0.05:
        return HEARTBEAT
    makers: Sequence[Callable[[Random], Performative]] = (
        _flow,
        _flow,
        _transfer,
        _transfer,
        _transfer,
        _disposition,
        _disposition,
        _detach,
        _end,
        _begin,
        lambda rng: _attach(rng, rng.randint(0, 4)),
    )
    body = rng.choice(makers)(rng)
    payload = rng.randbytes(rng.choice((0, 1, 30, 300))) if isinstance(body, Transfer) else b""
    encoded = encode_frame(rng.randint(0, 1), body)
    return (len(encoded) + len(payload)).to_bytes(4, "big") + encoded[4:] + payload


def _begin(rng: Random) -> Begin:
    return Begin(
        next_outgoing_id=rng.choice((0, 1, 2**32 - 2)),
        incoming_window=rng.choice((0, 1, 5, 2048, 2**32 - 1)),
        outgoing_window=100,
    )


def _attach(rng: Random, handle: int) -> Attach:
    address = rng.choice(("accept", "refuse", "wait"))
    target: Any = Coordinator((Symbol("x"),)) if rng.random() < 0.1 else Target(address=address)
    return Attach(
        name=f"{address}-{handle}",
        handle=handle,
        role=rng.random() < 0.5,
        snd_settle_mode=rng.choice((0, 1, 2)),
        source=Source(address=address, filter={Symbol("f"): None}),
        target=target,
        initial_delivery_count=rng.choice((None, 0, 5)),
    )


def _flow(rng: Random) -> Flow:
    return Flow(
        next_incoming_id=rng.choice((None, 1, 2, 3)),
        incoming_window=rng.choice((0, 1, 3, 2048)),
        next_outgoing_id=rng.choice((0, 1, 5, 2600)),
        outgoing_window=100,
        handle=rng.choice((None, 0, 1, 2)),
        delivery_count=rng.choice((None, 0, 1)),
        link_credit=rng.choice((None, 0, 1, 10, 2**32 - 1)),
        drain=rng.random() < 0.3,
        echo=rng.random() < 0.3,
    )


def _transfer(rng: Random) -> Transfer:
    first = rng.random() < 0.8
    return Transfer(
        handle=rng.randint(0, 2),
        delivery_id=rng.randint(0, 5) if first else None,
        delivery_tag=rng.randbytes(rng.choice((0, 4, 16))) if first else None,
        message_format=rng.choice((None, 0, 0x80013700)),
        settled=rng.choice((None, True, False)),
        more=rng.random() < 0.3,
        aborted=rng.random() < 0.1,
        state=TransactionalState(b"t") if rng.random() < 0.1 else None,
    )


def _disposition(rng: Random) -> Disposition:
    first = SERVER_DELIVERY + rng.randint(0, 3)
    error = AmqpError("com.microsoft:dead-letter", "x", {Symbol("DeadLetterReason"): "y"})
    return Disposition(
        role=rng.random() < 0.9,
        first=first,
        last=rng.choice((None, first, first + 2, 2**32 - 1)),
        settled=rng.random() < 0.5,
        state=rng.choice((None, Accepted(), Released(), Modified(True, False), Rejected(error))),
    )


def _detach(rng: Random) -> Detach:
    return Detach(handle=rng.randint(0, 2), closed=rng.random() < 0.8)


def _end(rng: Random) -> End:
    return End(AmqpError("amqp:internal-error") if rng.random() < 0.5 else None)


def spoil(rng: Random, data: bytes, other: bytes) -> bytes:
    """Return the stream with one thing wrong, or put together from two."""
    return rng.choice((_spoil_byte, _spoil_frame, _spoil_frame, _cut, _repeat, _splice))(
        rng, data, other
    )


def _spoil_byte(rng: Random, data: bytes, _: bytes) -> bytes:
    spoiled = bytearray(data)
    at = rng.randrange(len(spoiled))
    spoiled[at] = rng.choice(INTERESTING_BYTES) if rng.random() < 0.5 else rng.randrange(256)
    return bytes(spoiled)


def _cut(rng: Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice((1, 4, 50, len(data))) :]


def _repeat(rng: Random, data: bytes, _: bytes) -> bytes:
    frames = cut_frames(data)
    at = rng.randrange(len(frames))
    return b"".join(frames[: at + 1] + frames[rng.randrange(len(frames)) :])


def _splice(rng: Random, data: bytes, other: bytes) -> bytes:
    mine, theirs = cut_frames(data), cut_frames(other)
    return b"".join(mine[: rng.randrange(len(mine) + 1)] + theirs[rng.randrange(len(theirs)) :])


def _spoil_frame(rng: Random, data: bytes, _: bytes) -> bytes:
    """Change the inside of one frame and put its size right, so that its fields are read."""
    frames = cut_frames(data)
    at = rng.randrange(len(frames))
    body = bytearray(frames[at][8:])
    for _times in range(rng.randint(1, 3)):
        place = rng.randrange(len(body) + 1)
        what = rng.randrange(4)
        if what == 0:
            body[place : place + 1] = bytes([rng.choice(INTERESTING_BYTES)])
        elif what == 1:
            body[place : place + 4] = struct.pack(">I", rng.choice(INTERESTING_WORDS))
        elif what == 2:
            del body[place : place + rng.randint(1, 4)]
        else:
            body[place:place] = rng.randbytes(rng.randint(1, 4))
    frames[at] = struct.pack(">I", 8 + len(body)) + frames[at][4:8] + bytes(body)
    return b"".join(frames)


def cut_frames(data: bytes) -> list[bytes]:
    """Cut a stream at its headers and frames as far as it makes sense; the rest is one piece."""
    frames, pos = [], 0
    while pos < len(data):
        size = 8
        if not data.startswith(b"AMQP", pos) and pos + 8 <= len(data):
            size = max(8, int.from_bytes(data[pos : pos + 4], "big"))
        frames.append(data[pos : pos + size])
        pos += size
    return frames or [b""]
