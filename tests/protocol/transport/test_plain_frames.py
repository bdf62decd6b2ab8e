"""The hot path must never read a frame otherwise than the general one.

A frame with an extended header (doff 3) is never plain, so the same body sent both ways shows any
difference.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bendybus.amqp.events import Event, TransferReceived, TransferRunReceived
from bendybus.amqp.frames import HEARTBEAT
from bendybus.amqp.performatives import (
    Accepted,
    AmqpError,
    Begin,
    Disposition,
    Modified,
    Received,
    Rejected,
    Released,
    Transfer,
    encode_composite,
)
from bendybus.amqp.plain_frames import FORM_COUNT_MAX, PlainFrames
from bendybus.amqp.values import Symbol, Ubyte, Uint, Ushort
from tests.protocol.transport.conversation import Peer, flow, frame, one, transfer
from tests.protocol.transport.retelling import retell
from tests.unit.amqp.strategies import wild_encode

FIRST = 0x40000000


def peer_with_links() -> Peer:
    """Return a peer with a link of each role and deliveries on their way."""
    peer = Peer(incoming_window=6).opened().begun()
    peer.attached(handle=0).message_size_max = 8
    peer.attached(handle=300)
    sender = peer.attached(handle=1, receiver=True)
    peer.say(flow(handle=1, link_credit=5))
    for number in range(3):
        sender.send(b"x", bytes([number]) * 16, settled=False, parcel=number)
    peer.heard()
    return peer


def told_both_ways(bodies: list[bytes], payload: bytes = b"") -> tuple[Any, Any]:
    """Return what engines tell of the same frames, read by the hot and by the general path."""
    told = []
    for doff in (2, 3):
        peer = peer_with_links()
        extension = b"\0" * (4 * (doff - 2))
        data = b"".join(
            struct.pack(">IBBH", 4 * doff + len(body) + len(payload), doff, 0, 0)
            + extension
            + body
            + payload
            for body in bodies
        )
        told.append((retell(peer.write(data)), peer.engine.data_to_send()))
    return told[0], told[1]


@st.composite
def bodies_in_any_encoding(draw: Any) -> bytes:
    """Draw a transfer or a disposition, sane or not, in some legal encoding."""
    flag = st.sampled_from([None, True, False])
    ids = st.sampled_from([FIRST, FIRST + 1, FIRST + 2, 0, 5, 200, 2**32 - 1]).map(Uint)
    if draw(st.booleans()):
        fields = [
            draw(st.sampled_from([0, 1, 7, 300]).map(Uint)),
            draw(st.one_of(st.none(), ids)),
            draw(st.sampled_from([None, b"", b"tag", b"t" * 32])),
            draw(st.sampled_from([None, Uint(0), Uint(5), Uint(0x80013700), Ushort(1)])),
            *draw(st.lists(flag, min_size=2, max_size=2)),
            draw(st.sampled_from([None, None, Ubyte(0)])),
            None,
            *draw(st.lists(flag, min_size=3, max_size=3)),
        ]
        code = 0x14
    else:
        fields = [draw(flag), draw(ids), draw(st.one_of(st.none(), ids)), draw(flag), None]
        fields.append(draw(flag))
        code = 0x15
    fields = fields[: draw(st.integers(max(0, len(fields) - 8), len(fields)))]
    items = [wild_encode(draw, field) for field in fields]
    if code == 0x15 and len(items) >= 5:
        items[4] = draw(
            st.sampled_from([b"\x40", b"\x00\x53\x24\x45", *map(encode_composite, STATES)])
        )
    content = b"".join(items)
    if len(content) < 255 and draw(st.booleans()):
        head = bytes([0xC0, len(content) + 1, len(items)])
    else:
        head = b"\xd0" + struct.pack(">II", len(content) + 4, len(items))
    return bytes([0x00, 0x53, code]) + head + content


def taken_apart(events: list[Event]) -> list[Event]:
    """Return events with a transfer for each of a run, its tag left out as runs leave it."""
    apart: list[Event] = []
    for event in events:
        if isinstance(event, TransferRunReceived):
            link, form, settled = event.link, event.message_format, event.settled
            apart += [
                TransferReceived(link, delivery_id, b"", form, settled, None, payload)
                for delivery_id, payload in zip(event.delivery_ids, event.payloads, strict=True)
            ]
        elif isinstance(event, TransferReceived):
            apart.append(replace(event, delivery_tag=b""))
        else:
            apart.append(event)
    return apart


STATES: list[Any] = [
    Accepted(),
    Released(),
    Modified(),
    Modified(True, False),
    Modified(None, True, {Symbol("k"): 1}),
    Rejected(),
    Rejected(AmqpError("com.microsoft:dead-letter")),
    Received(1, 2),
]


@given(bodies=st.lists(bodies_in_any_encoding(), max_size=4), payload=st.binary(max_size=12))
def test_frames_in_any_encoding_are_read_alike_on_both_paths(
    bodies: list[bytes], payload: bytes
) -> None:
    hot, general = told_both_ways(bodies, payload)
    assert hot == general


@given(bodies=st.lists(bodies_in_any_encoding(), max_size=6), payload=st.binary(max_size=8))
def test_runs_tell_the_same_in_the_same_order(bodies: list[bytes], payload: bytes) -> None:
    data = b"".join(
        struct.pack(">IBBH", 8 + len(body) + len(payload), 2, 0, 0) + body + payload
        for body in bodies
    )
    told = []
    for takes_runs in (False, True):
        peer = peer_with_links()
        for link in peer.engine._channels.by_peer[0].ready_receivers.values():
            link.takes_runs = takes_runs
        told.append((retell(taken_apart(peer.write(data))), peer.engine.data_to_send()))
    assert told[0] == told[1]


def test_a_run_is_of_one_link_and_of_one_form_and_ends_at_what_comes_between() -> None:
    peer = peer_with_links()
    links = peer.engine._channels.by_peer[0].ready_receivers
    links[0].takes_runs = True
    said: list[Transfer | Disposition] = [
        transfer(1, message_format=0),
        transfer(2, message_format=0),
        transfer(3, message_format=0, settled=True),
        transfer(4, message_format=0),
        Disposition(role=True, first=FIRST, last=FIRST, settled=True, state=Accepted()),
        transfer(5, message_format=0),
        transfer(6, message_format=0, handle=300),
        transfer(7, message_format=0),
    ]

    events = peer.write(b"".join(frame(each) for each in said))

    runs = [event for event in events if isinstance(event, TransferRunReceived)]
    assert [run.delivery_ids for run in runs] == [[1, 2], [3], [4], [5], [7]]
    assert [run.settled for run in runs] == [False, True, False, False, False]
    assert [e.delivery_id for e in events if isinstance(e, TransferReceived)] == [6]


PLAIN_TRANSFER = encode_composite(transfer(FIRST, message_format=0, settled=False))
PLAIN_DISPOSITION = encode_composite(
    Disposition(role=True, first=FIRST, last=FIRST + 1, settled=True, state=Accepted())
)


@given(
    body=st.sampled_from([PLAIN_TRANSFER, PLAIN_DISPOSITION]),
    at=st.integers(3, 40),
    octet=st.integers(0, 255),
    payload=st.binary(max_size=30),
)
@example(body=PLAIN_TRANSFER, at=5, octet=3, payload=b"\xff" * 30)
def test_a_frame_with_one_wrong_byte_is_read_alike_on_both_paths(
    body: bytes, at: int, octet: int, payload: bytes
) -> None:
    broken = bytearray(body)
    broken[at % len(broken)] = octet
    hot, general = told_both_ways([bytes(broken)], payload)
    assert hot == general


@pytest.mark.parametrize(
    "fields",
    [
        "15 06 03 41 7040000000 7040000000",
        "15 14 06 41 7040000000 40 41 00532445 42 42 42 42 42 42",
        "15 0e 06 41 7040000000 40 41 00532445 43",
        "15 0f 06 41 7040000000 40 41 0053245405 42",
        "15 0d 06 41 7040000000 40 41 0053245405",
        "15 0e 07 41 7040000000 40 41 00532445 42",
        "15 0e 05 41 7040000000 40 41 00532445 42",
        "15 10 09 41 7040000000 40 41 00532445 42 42 42",
        "14 06 03 43 43 a0ff 000000",
        "14 0d 0b 43 43 a00174 43 42 42 40 40 42 42",
        "14 0f 0c 43 43 a00174 43 42 42 40 40 42 42 41 42",
        "14 0e 0b 43 43 a00174 43 43 42 40 40 42 42 41",
        "14 08 02 43 43 a003746167",
        "14 20 04 43 43 a00174 b30000001541414141414141414141414141414141414141414141",
    ],
)
def test_malformed_fields_are_read_alike_on_both_paths(fields: str) -> None:
    code, size, rest = fields.split(" ", 2)
    body = bytes.fromhex(f"0053{code}c0{size}{rest}")
    hot, general = told_both_ways([body, PLAIN_TRANSFER])
    assert hot == general


def test_fields_that_would_run_into_the_next_frame_are_read_alike_on_both_paths() -> None:
    # Read on, the next frame's size (64) would complete `first` and then pass for a null `last`.
    cut_short = bytes.fromhex("005315c0 04 03 41 7040")
    tag = b"t" * (64 - 8 - len(encode_composite(transfer(FIRST, delivery_tag=b""))))
    next_body = encode_composite(transfer(FIRST, delivery_tag=tag))
    assert len(next_body) == 56
    hot, general = told_both_ways([cut_short, next_body])
    assert hot == general


def is_plain(body: bytes, payload: bytes = b"") -> bool:
    """Tell whether the hot path takes a frame all by itself."""
    peer = peer_with_links()
    session = peer.engine._channels.by_peer[0]
    encoded = struct.pack(">IBBH", 8 + len(body) + len(payload), 2, 0, 0) + body + payload
    end = PlainFrames().read(encoded + HEARTBEAT, 0, 65536, {0: session}, [])
    return end == len(encoded)


AS_PROTON = bytes.fromhex("005314c00c05" + "43" + "5207" + "a00474616730" + "43" + "42")
"""Smallest forms, trailing fields left out."""
AS_PYAMQP = bytes.fromhex(
    "005314c0190b" + "7000000000" + "700000000f" + "a00400000001" + "43" + "42" + "42" + "40" * 5
)
"""Full integers, trailing fields null."""


@pytest.mark.parametrize(
    "body",
    [
        PLAIN_TRANSFER,
        encode_composite(transfer(0, handle=300, delivery_tag=b"t" * 32)),
        AS_PROTON,
        AS_PYAMQP,
        PLAIN_DISPOSITION,
        encode_composite(
            Disposition(role=True, first=FIRST, settled=False, state=Modified(True, True))
        ),
        encode_composite(Disposition(role=True, first=100, last=100, state=Released())),
    ],
    ids=["ours", "rhea", "proton", "pyamqp", "accepted", "modified", "small ids"],
)
def test_what_usual_clients_send_is_plain(body: bytes) -> None:
    assert is_plain(body, b"payload." if body[2] == 0x14 else b"")


@pytest.mark.parametrize(
    "body",
    [
        encode_composite(transfer(0, more=True)),
        encode_composite(transfer(0, aborted=True)),
        encode_composite(transfer(0, state=Accepted())),
        encode_composite(transfer(0, handle=1)),
        encode_composite(transfer(0, handle=77)),
        encode_composite(transfer(None)),
        encode_composite(Transfer(handle=0, delivery_id=1)),
        encode_composite(transfer(0, rcv_settle_mode=1)),
        encode_composite(Disposition(role=False, first=FIRST, state=Accepted())),
        encode_composite(Disposition(role=True, first=0, state=Accepted())),
        encode_composite(Disposition(role=True, first=FIRST, last=0, state=Accepted())),
        encode_composite(Disposition(role=True, first=FIRST, state=Rejected())),
        encode_composite(
            Disposition(role=True, first=FIRST, state=Modified(None, None, {Symbol("k"): 1}))
        ),
        encode_composite(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)),
    ],
)
def test_what_needs_a_second_look_is_not_plain(body: bytes) -> None:
    assert not is_plain(body, b"payload." if body[2] == 0x14 else b"")


@pytest.mark.parametrize("payload", [b"payload.", b""], ids=["surplus", "none"])
def test_a_disposition_with_something_behind_it_is_not_plain(payload: bytes) -> None:
    assert is_plain(PLAIN_DISPOSITION, payload) is (payload == b"")


def test_an_oversized_transfer_is_not_plain() -> None:
    assert is_plain(PLAIN_TRANSFER, b"12345678")
    assert not is_plain(PLAIN_TRANSFER, b"123456789")


def test_a_peer_cannot_make_us_remember_forms_of_transfers_without_end() -> None:
    peer = peer_with_links()
    for number in range(FORM_COUNT_MAX + 20):
        data = frame(transfer(number, message_format=number, settled=False))
        assert one(TransferReceived, peer.write(data)).message_format == number
    assert len(peer.engine._plain._transfer_forms) == FORM_COUNT_MAX


def test_nor_forms_of_dispositions() -> None:
    plain = PlainFrames()
    session = peer_with_links().engine._channels.by_peer[0]
    flags = (b"\x40", b"\x41", b"\x42", b"\x56\x00", b"\x56\x01")
    states = [bytes([0x00, 0x53, code]) + b"\x45" for code in (0x24, 0x26, 0x27)]
    for settled, state, batchable in product(flags, states, flags):
        fields = b"\x41\x70" + struct.pack(">I", FIRST + 9) + b"\x40" + settled + state + batchable
        body = b"\x00\x53\x15\xc0" + bytes([len(fields) + 1, 6]) + fields
        data = struct.pack(">IBBH", 8 + len(body), 2, 0, 0) + body
        assert plain.read(data, 0, 65536, {0: session}, []) == len(data)
    assert len(plain._disposition_forms) == FORM_COUNT_MAX
