"""Bytes that are no AMQP, or only half of it. Every one has an answer and harms nobody else."""

import pytest

from bendybus.amqp.frames import AMQP_HEADER, FRAME_HEADER, SASL_HEADER
from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.performatives import Attach, Close, End, Open, Transfer
from bendybus.testing.wire_client import WireClient, frame, sending
from tests.protocol.messaging.sample_messages import message
from tests.protocol.messaging.serving import Served

TLS_HELLO = bytes.fromhex("160301 00c4 010000c0 0303") + bytes(range(64))
HTTP_REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost:5672\r\n\r\n"


async def _still_serves(served: Served) -> None:
    sender = await (await served.client()).sender("orders")
    assert await sender.sent(message(), 0) == Accepted()


async def _close_error(client: WireClient) -> str:
    error = (await client.hear(Close)).body.error
    assert error is not None
    await client.until_closed()
    return error.condition


@pytest.mark.amqp("2.2")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff" * 100, id="garbage"),
        pytest.param(bytes(100), id="zeros"),
        pytest.param(TLS_HELLO, id="a TLS hello"),
        pytest.param(HTTP_REQUEST, id="an HTTP request"),
        pytest.param(b"AMQP\x00\x00\x09\x01", id="AMQP 0-9-1"),
        pytest.param(b"AMQP\x02\x01\x00\x00", id="the upgrade to TLS"),
        pytest.param(b"x", id="one wrong byte"),
    ],
)
async def test_what_is_not_our_protocol_is_answered_with_our_header_and_a_close(
    served: Served, data: bytes
) -> None:
    client = await served.stranger()

    client.write(data)
    await client.until_closed()

    assert client.headers == [AMQP_HEADER]
    assert served.listener.connections == set()
    await _still_serves(served)


@pytest.mark.amqp("2.2")
@pytest.mark.parametrize(
    ("data", "words"),
    [(TLS_HELLO, "looks like a TLS hello"), (HTTP_REQUEST, "looks like HTTP")],
    ids=["a TLS hello", "an HTTP request"],
)
async def test_the_log_says_what_the_foreign_bytes_look_like(
    served: Served, data: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "bendybus")
    client = await served.stranger()

    client.write(data)
    await client.until_closed()

    assert words in caplog.text


@pytest.mark.amqp("2.3")
@pytest.mark.parametrize(
    ("data", "condition"),
    [
        pytest.param(b"\xff" * 64, "amqp:connection:framing-error", id="a frame of 4 GB"),
        pytest.param(
            FRAME_HEADER.pack(65537, 2, 0, 0), "amqp:connection:framing-error", id="too large"
        ),
        pytest.param(
            FRAME_HEADER.pack(4, 2, 0, 0), "amqp:connection:framing-error", id="too small"
        ),
        pytest.param(
            FRAME_HEADER.pack(8, 1, 0, 0), "amqp:connection:framing-error", id="header too small"
        ),
        pytest.param(
            FRAME_HEADER.pack(8, 2, 7, 0), "amqp:connection:framing-error", id="unknown type"
        ),
        pytest.param(
            FRAME_HEADER.pack(12, 2, 0, 0) + b"\xde\xad\xbe\xef", "amqp:decode-error", id="no value"
        ),
        pytest.param(
            FRAME_HEADER.pack(12, 2, 0, 0) + b"\x00\x53\x99\x45",
            "amqp:decode-error",
            id="no performative",
        ),
    ],
)
async def test_a_bad_frame_closes_the_connection_with_its_condition(
    served: Served, data: bytes, condition: str
) -> None:
    client = await served.client()

    client.write(data)

    assert await _close_error(client) == condition
    await _still_serves(served)


@pytest.mark.amqp("2.4.1")
async def test_what_was_accepted_before_garbage_stays(served: Served) -> None:
    client = await served.client()
    sender = await client.sender("orders")
    await sender.sent(message(), 0)

    client.write(b"\xff" * 64)
    await client.until_closed()

    assert await served.count("orders") == 1


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(SASL_HEADER[:5], id="half a header"),
        pytest.param(AMQP_HEADER + frame(Open(container_id="x"))[:9], id="half an Open"),
    ],
)
async def test_a_client_that_stops_within_its_greeting_holds_nobody_up(
    served: Served, start: bytes
) -> None:
    client = await served.stranger()
    client.write(start)
    await client.written()

    await _still_serves(served)

    client.hang_up()


@pytest.mark.amqp("2.3")
async def test_half_a_frame_is_no_message_however_the_client_goes(served: Served) -> None:
    client = await served.client()
    sender = await client.sender("orders")
    whole = frame(
        Transfer(handle=sender.handle, delivery_id=0, delivery_tag=b"t", message_format=0),
        payload=message(b"x" * 10_000),
    )

    client.write(whole[: len(whole) // 2])
    await client.written()
    await _still_serves(served)
    client.hang_up()
    await _still_serves(served)

    assert await served.count("orders") == 2


@pytest.mark.amqp("2.3")
async def test_a_frame_may_come_byte_by_byte(served: Served) -> None:
    client = await served.client()
    sender = await client.sender("orders")
    whole = frame(
        Transfer(handle=sender.handle, delivery_id=0, delivery_tag=b"t", message_format=0),
        payload=message(),
    )

    for byte in whole:
        client.write(bytes((byte,)))
        await client.written()

    assert await client.outcome(0, 0, receiver=True) == Accepted()


@pytest.mark.amqp("2.5")
async def test_a_frame_on_a_channel_without_a_session_closes_the_connection(
    served: Served,
) -> None:
    client = await served.client()

    client.say(sending("orders"), channel=7)

    assert await _close_error(client) == "amqp:illegal-state"


@pytest.mark.amqp("2.8.17")
async def test_a_transfer_on_a_dead_handle_ends_the_session_and_only_that(
    served: Served,
) -> None:
    client = await served.client()
    await client.begin(1)
    other = await client.sender("orders", channel=1)

    client.say(
        Transfer(handle=77, delivery_id=0, delivery_tag=b"t", message_format=0),
        payload=message(),
    )
    end = await client.hear(End)

    assert end.channel == 0
    assert end.body.error is not None
    assert end.body.error.condition == "amqp:session:unattached-handle"
    assert await other.sent(message(), 0) == Accepted()
    assert await served.count("orders") == 1


@pytest.mark.amqp("2.8.17")
async def test_a_handle_that_is_in_use_ends_the_session(served: Served) -> None:
    client = await served.client()
    await client.sender("orders", handle=0)

    client.say(sending("parts", handle=0, name="another"))

    end = (await client.hear(End)).body
    assert end.error is not None
    assert end.error.condition == "amqp:session:handle-in-use"
    assert client.unheard(Attach) == []
