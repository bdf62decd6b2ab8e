"""AMQP over WebSocket, frame by frame: RFC 6455 outside, the same AMQP as over TCP inside."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

import bendybus.server.websocket
from bendybus.amqp.frames import AMQP_HEADER, SASL_HEADER, encode_sasl_frame
from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.performatives import Close, Open, SaslInit, SaslMechanisms
from bendybus.broker.receive import ACQUIRE_BYTES_MAX
from bendybus.server.connection import UNPROVEN_SECONDS_MAX
from bendybus.server.outlet import UNSENT_BYTES_MAX
from bendybus.server.websocket import FRAME_BYTES_MAX, MESSAGE_BYTES_MAX
from bendybus.testing.wire_client import WAIT_SECONDS, WireClient
from bendybus.testing.wire_client import frame as amqp_frame
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import ROOT_LOGIN, Served
from tests.protocol.websocket.raw_websocket import (
    ACCEPT,
    BINARY,
    CLOSE,
    CONT,
    HEADERS,
    PING,
    PONG,
    TEXT,
    RawWebSocket,
    frame,
    raw_websocket,
)

# What one acquire and one turn may add before it is noticed that the client does not read.
SLACK_BYTES = ACQUIRE_BYTES_MAX + 1024 * 1024
NORMAL, BROKEN, UNSUPPORTED, TOO_BIG = 1000, 1002, 1003, 1009
GREETING = (
    SASL_HEADER
    + encode_sasl_frame(SaslInit("PLAIN", ROOT_LOGIN, "localhost"))
    + AMQP_HEADER
    + amqp_frame(Open(container_id="in-one-go"))
)


async def _logged_in(websocket: RawWebSocket) -> WireClient:
    client = websocket.amqp()
    await client.log_in("PLAIN", ROOT_LOGIN)
    await client.begin()
    return client


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0)


# The request


@pytest.mark.parametrize(
    "path",
    [
        "/$servicebus/websocket",
        "/%24servicebus/websocket",
        "/$servicebus/websocket/",
        "/$servicebus/websocket?x=y",
        "/$ServiceBus/WebSocket",
    ],
)
async def test_the_request_is_accepted_and_the_subprotocol_echoed(
    stranger: RawWebSocket, path: str
) -> None:
    answer = await stranger.ask(path)

    assert answer.status == 101
    assert answer.headers["sec-websocket-accept"] == ACCEPT
    assert answer.headers["sec-websocket-protocol"] == "AMQPWSB10"


@pytest.mark.parametrize("offered", ["AMQPWSB10, other", "other, AMQPWSB10"])
async def test_our_subprotocol_is_chosen_from_several(stranger: RawWebSocket, offered: str) -> None:
    answer = await stranger.ask(headers={**HEADERS, "Sec-WebSocket-Protocol": offered})

    assert answer.headers["sec-websocket-protocol"] == "AMQPWSB10"


async def test_compression_is_not_agreed_to(stranger: RawWebSocket) -> None:
    offer = {**HEADERS, "Sec-WebSocket-Extensions": "permessage-deflate"}

    assert "sec-websocket-extensions" not in (await stranger.ask(headers=offer)).headers


def _without(name: str) -> dict[str, str]:
    return {key: value for key, value in HEADERS.items() if key != name}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        pytest.param("/orders", HEADERS, 404, id="another path"),
        pytest.param("/$servicebus/websocket/more", HEADERS, 404, id="a longer path"),
        pytest.param(
            "/$servicebus/websocket", _without("Sec-WebSocket-Protocol"), 400, id="no subprotocol"
        ),
        pytest.param(
            "/$servicebus/websocket",
            {**HEADERS, "Sec-WebSocket-Protocol": "mqtt"},
            400,
            id="another subprotocol",
        ),
        pytest.param("/$servicebus/websocket", _without("Sec-WebSocket-Key"), 400, id="no key"),
        pytest.param(
            "/$servicebus/websocket",
            {**HEADERS, "Sec-WebSocket-Version": "8"},
            400,
            id="an old version",
        ),
    ],
)
async def test_a_request_that_is_not_ours_is_refused_and_the_connection_closed(
    served: Served, stranger: RawWebSocket, path: str, headers: dict[str, str], status: int
) -> None:
    answer = await stranger.ask(path, headers)
    await stranger.until_closed()

    assert answer.status == status
    assert served.listener.connections == set()


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:3000", 101),
        ("https://127.0.0.1", 101),
        ("http://[::1]:5300", 101),
        ("https://evil.example", 403),
        ("https://evil.example\r\nOrigin: http://localhost", 403),
        ("http://localhost.evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        ("", 403),
    ],
)
async def test_web_pages_of_other_hosts_may_not_connect(
    stranger: RawWebSocket, origin: str, status: int
) -> None:
    """Everyone knows the development key, and browsers let every page connect to this machine."""
    answer = await stranger.ask(headers={**HEADERS, "Origin": origin})

    assert answer.status == status


async def test_a_name_that_others_point_at_this_machine_makes_no_page_our_own(
    stranger: RawWebSocket,
) -> None:
    headers = {**HEADERS, "Host": "evil.example:5300", "Origin": "http://evil.example:5300"}

    assert (await stranger.ask(headers=headers)).status == 403


# What is inside


async def test_a_message_is_sent_and_received(opened: RawWebSocket) -> None:
    client = await _logged_in(opened)

    assert await (await client.sender("orders")).sent(message(b"hello"), 0) == Accepted()
    receiver = await client.receiver("orders")
    receiver.flow(link_credit=1)

    assert see((await receiver.receive()).payload).body == b"hello"


@pytest.mark.parametrize("size", [1, 7, len(GREETING)], ids=["bytes", "pieces", "all at once"])
async def test_messages_need_not_be_frames_of_amqp(opened: RawWebSocket, size: int) -> None:
    client = opened.amqp()

    for at in range(0, len(GREETING), size):
        client.write(GREETING[at : at + size])

    assert (await client.hear(Open)).body.container_id


async def test_a_message_may_come_in_fragments_with_pings_between(opened: RawWebSocket) -> None:
    client = opened.amqp()

    opened.send(frame(BINARY, GREETING[:3], is_last=False))
    opened.send(frame(PING, b"between"))
    opened.send(frame(CONT, GREETING[3:20], is_last=False))
    opened.send(frame(CONT, GREETING[20:]))

    assert await opened.hear() == (PONG, b"between")
    assert (await client.hear(Open)).body.container_id


async def test_what_a_fragment_holds_is_used_before_the_message_is_whole(
    opened: RawWebSocket,
) -> None:
    client = opened.amqp()

    opened.send(frame(BINARY, SASL_HEADER, is_last=False))

    assert (await client.hear(SaslMechanisms)).body.mechanisms


async def test_more_than_one_message_holds_goes_in_several(
    served: Served, opened: RawWebSocket
) -> None:
    count, size = 20, 200_000
    sender = await (await served.client()).sender("orders")
    for number in range(count):
        assert await sender.sent(message(b"x" * size), number) == Accepted()
    receiver = await (await _logged_in(opened)).receiver("orders")

    receiver.flow(link_credit=count)
    bodies = [see((await receiver.receive()).payload).body for _ in range(count)]

    assert bodies == [b"x" * size] * count
    assert max(opened.message_sizes) <= MESSAGE_BYTES_MAX


# Rules of RFC 6455


@pytest.mark.parametrize("payload", [b"", b"x" * 125], ids=["empty", "full"])
async def test_a_ping_is_answered_with_its_own_payload(
    opened: RawWebSocket, payload: bytes
) -> None:
    opened.send(frame(PING, payload))

    assert await opened.hear() == (PONG, payload)


async def test_a_pong_that_nobody_asked_for_is_ignored(opened: RawWebSocket) -> None:
    opened.send(frame(PONG, b"unasked"))

    await _logged_in(opened)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(frame(TEXT, b"AMQP"), UNSUPPORTED, id="text"),
        pytest.param(frame(TEXT, b"AM", is_last=False), UNSUPPORTED, id="a beginning of text"),
        pytest.param(frame(BINARY, b"AMQP", is_masked=False), BROKEN, id="not masked"),
        pytest.param(frame(CONT, b"AMQP"), BROKEN, id="a continuation of nothing"),
        pytest.param(frame(BINARY | 0x40, b"AMQP"), BROKEN, id="a reserved bit"),
        pytest.param(frame(0x3, b"AMQP"), BROKEN, id="an unknown opcode"),
        pytest.param(frame(PING, b"x" * 126), BROKEN, id="a long ping"),
        pytest.param(frame(PING, b"x", is_last=False), BROKEN, id="half a ping"),
    ],
)
async def test_a_broken_rule_ends_the_connection_with_its_code(
    served: Served, opened: RawWebSocket, data: bytes, code: int
) -> None:
    opened.send(data)

    assert await opened.hear_close() == code
    await opened.until_closed()
    await _until(lambda: not served.listener.connections)


async def test_nothing_behind_a_text_is_taken(served: Served, opened: RawWebSocket) -> None:
    client = opened.amqp()

    opened.send(frame(TEXT, b"x") + frame(BINARY, GREETING))
    await opened.until_closed()

    assert client.unheard(Open) == []
    await _until(lambda: not served.listener.connections)


async def test_a_frame_that_is_too_large_is_refused_before_it_has_come(
    opened: RawWebSocket,
) -> None:
    whole = frame(BINARY, bytes(FRAME_BYTES_MAX + 1))

    opened.send(whole[:14])

    assert await opened.hear_close() == TOO_BIG
    await opened.until_closed()


async def test_messages_of_any_length_may_come_in_fragments(opened: RawWebSocket) -> None:
    """A stream has no end, so its message need not have one; what came is not kept."""
    client = await _logged_in(opened)
    heartbeats = bytes.fromhex("0000000802000000") * (FRAME_BYTES_MAX // 16)

    opened.send(frame(BINARY, heartbeats, is_last=False))
    opened.send(frame(CONT, heartbeats, is_last=False))
    opened.send(frame(CONT, heartbeats))

    assert await (await client.sender("orders")).sent(message(), 0) == Accepted()


# The end


async def test_a_close_is_answered_and_what_was_held_is_free(
    served: Served, opened: RawWebSocket
) -> None:
    await _logged_in(opened)

    opened.send(frame(CLOSE, NORMAL.to_bytes(2, "big") + b"bye"))

    assert await opened.hear_close() == NORMAL
    await opened.until_closed()
    await _until(lambda: not served.listener.connections)


async def test_a_client_that_just_goes_leaves_nothing_behind(
    served: Served, opened: RawWebSocket
) -> None:
    await _logged_in(opened)

    opened.transport.abort()

    await _until(lambda: not served.listener.connections)


async def test_the_end_of_amqp_is_the_end_of_the_websocket(opened: RawWebSocket) -> None:
    client = await _logged_in(opened)

    client.say(Close())
    await client.hear(Close)

    assert await opened.hear_close() == NORMAL


async def test_a_client_that_does_not_answer_the_close_is_left(
    opened: RawWebSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bendybus.server.websocket, "CLOSE_SECONDS_MAX", 0.01)
    client = await _logged_in(opened)

    client.say(Close())
    await opened.hear_close()

    with contextlib.suppress(ConnectionResetError):
        await opened.until_closed()


async def test_a_broker_that_stops_says_so_in_amqp_first(
    served: Served, opened: RawWebSocket
) -> None:
    client = await _logged_in(opened)

    closing = asyncio.create_task(served.listener.close())
    error = (await client.hear(Close)).body.error
    client.say(Close())
    code = await opened.hear_close()
    opened.send(frame(CLOSE, NORMAL.to_bytes(2, "big")))
    await closing

    assert error is not None
    assert (error.condition, code) == ("amqp:connection:forced", NORMAL)


async def test_who_proves_nothing_is_not_kept(served: Served, opened: RawWebSocket) -> None:
    client = opened.amqp()
    await client.log_in()

    served.clock.advance(UNPROVEN_SECONDS_MAX * 1000 + 1)
    for connection in list(served.listener.connections):
        connection.tick(served.clock.now())

    error = (await client.hear(Close)).body.error
    assert error is not None
    assert error.condition == "amqp:unauthorized-access"


# Greed


@pytest.fixture
async def deaf(port: int) -> AsyncIterator[RawWebSocket]:
    """A WebSocket whose kernel takes hardly anything that is not read."""
    async with raw_websocket(port, receive_bytes=4096) as websocket:
        await websocket.ask()
        yield websocket


async def test_a_client_that_never_reads_is_handed_no_more_than_a_bound(
    served: Served, deaf: RawWebSocket
) -> None:
    [connection] = served.listener.connections
    sender = await (await served.client()).sender("orders")
    for number in range(60):
        assert await sender.sent(message(b"x" * 200_000), number) == Accepted()
    greedy = await (await _logged_in(deaf)).receiver("orders")

    greedy.flow(link_credit=10_000)
    await _until(lambda: connection.outlet.is_blocked)
    other = await (await served.client()).receiver("orders")
    other.flow(link_credit=10)

    assert len([await other.receive() for _ in range(10)]) == 10
    assert connection.outlet.transport.get_write_buffer_size() <= UNSENT_BYTES_MAX + SLACK_BYTES


async def test_a_client_that_reads_again_gets_the_rest(served: Served, deaf: RawWebSocket) -> None:
    [connection] = served.listener.connections
    sender = await (await served.client()).sender("orders")
    for number in range(30):
        assert await sender.sent(message(b"x" * 200_000), number) == Accepted()
    slow = await (await _logged_in(deaf)).receiver("orders")

    slow.flow(link_credit=30)
    await _until(lambda: connection.outlet.is_blocked)

    assert len([await slow.receive() for _ in range(30)]) == 30


async def test_pings_of_a_client_that_never_reads_are_bounded(
    served: Served, deaf: RawWebSocket
) -> None:
    [connection] = served.listener.connections
    transport = connection.outlet.transport
    pings = frame(PING, b"x" * 125) * 1000

    async with asyncio.timeout(WAIT_SECONDS):
        while transport.is_reading():
            deaf.send(pings)
            await asyncio.sleep(0)

    assert transport.get_write_buffer_size() <= UNSENT_BYTES_MAX + SLACK_BYTES


async def test_one_bad_websocket_leaves_the_others_alone(port: int, opened: RawWebSocket) -> None:
    client = await _logged_in(opened)

    async with raw_websocket(port) as bad:
        await bad.ask()
        bad.send(frame(TEXT, b"x"))
        await bad.until_closed()

    assert await (await client.sender("orders")).sent(message(), 0) == Accepted()
