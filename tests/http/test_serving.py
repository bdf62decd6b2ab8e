"""The HTTP server as a guest in a running loop, over real sockets: its bounds and its patience."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bendybus.doors.door import Door
from bendybus.http import connection as connection_module
from bendybus.http.connection import AHEAD_BYTES_MAX
from bendybus.http.exchange import Admission, Answer, Client, Request
from bendybus.http.guard import Guard
from bendybus.http.request_head import RequestHead, RequestRefused
from bendybus.http.serving import HttpServer, serve_http
from bendybus.model.errors import PortInUse, SettingInvalid
from tests.http.rest_client import talk, until

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
BODY_BYTES_MAX = 1000
SMUGGLING = (
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
)


class EchoDesk:
    """Says what it was asked; `/wait` until it is let go, `/large` at length, `/broken` not."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.asked: list[str] = []
        self.hung_up = 0

    def admit(self, head: RequestHead) -> Admission:
        del head
        return Admission(BODY_BYTES_MAX, self._answer)

    async def _answer(self, request: Request) -> Answer:
        head = request.head
        self.asked.append(head.path)
        if head.path == "/broken":
            raise RuntimeError("the secret cause")
        if head.path == "/wait":
            request.client.hang_up().add_done_callback(lambda _: self.released.set())
            await self.released.wait()
            self.hung_up += request.client.is_gone
        if head.path == "/large":
            return Answer(200, (), b"x" * 8_000_000)
        return Answer(200, [("Asked", head.method)], head.path.encode() + request.body)

    def refuse(self, refusal: RequestRefused) -> Answer:
        return Answer(refusal.status, (), refusal.message.encode())

    def fail(self, head: RequestHead, error: BaseException) -> Answer:
        del head, error
        return Answer(500, (), b"failed")

    def upgrade(self, head: RequestHead, client: Client) -> asyncio.Protocol | None:
        del client
        return Shouting() if head.fields["upgrade"] == "shouting" else None


class Shouting(asyncio.Protocol):
    """Another protocol: says everything in capitals."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data.upper())


def at(host: str = "127.0.0.1", port: int = 0) -> list[Door]:
    return [Door("http", host, port)]


@asynccontextmanager
async def serving(
    host: str = "127.0.0.1", guard: Guard | None = None
) -> AsyncIterator[tuple[HttpServer, EchoDesk]]:
    desk = EchoDesk()
    server = await serve_http(desk, at(host), guard=guard)
    try:
        yield server, desk
    finally:
        await server.close()


async def test_requests_are_answered_as_soon_as_the_call_returns() -> None:
    async with serving() as (server, _), httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"http://127.0.0.1:{server.port}/hello", content=b"!")
    assert answer.text == "/hello!"
    assert set(answer.headers) == {"date", "server", "asked", "content-length"}


async def test_a_closed_server_lets_its_port_go() -> None:
    async with serving() as (server, _):
        port = server.port
    again = await serve_http(EchoDesk(), at(port=port))
    assert again.port == port
    await again.close()


async def test_a_taken_port_is_a_refusal_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"port {port} on 127.0.0.1 is used"):
            await serve_http(EchoDesk(), at(port=port))


async def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(SettingInvalid, match=r"cannot listen on 192\.0\.2\.1:"):
        await serve_http(EchoDesk(), at("192.0.2.1"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signals_stay_with_whoever_had_them(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    async with serving():
        assert signal.getsignal(number) is before


async def test_requests_in_a_row_are_answered_in_their_order() -> None:
    async with serving() as (server, desk):
        row = b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(50))
        said = await talk(server.port, row + LAST)
        assert desk.asked == [*(f"/{number}" for number in range(50)), "/last"]
    assert said.count(b"HTTP/1.1 200 OK") == 51
    assert said.count(b"\r\nServer: Bendybus\r\n") == 51
    assert said.endswith(b"/last")
    assert said.count(b"Connection: close") == 1


async def test_requests_arrive_byte_by_byte() -> None:
    async with serving() as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        request = (
            b"POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        )
        for at in range(len(request)):
            writer.write(request[at : at + 1])
            await asyncio.sleep(0)
        assert (await reader.read()).endswith(b"/aabc")
        writer.close()


async def test_a_half_closed_connection_still_gets_its_answer() -> None:
    async with serving() as (server, _):
        assert (await talk(server.port, GET, ends=True)).endswith(b"\r\n\r\n/")


async def test_an_empty_line_before_a_request_is_overlooked_once() -> None:
    async with serving() as (server, _):
        assert b" 200 OK" in await talk(server.port, b"\r\n" + LAST)
        assert b" 400 " in await talk(server.port, b"\r\n\r\n" + LAST)


async def test_a_head_request_gets_the_head_of_the_answer() -> None:
    async with serving() as (server, _):
        said = await talk(server.port, LAST.replace(b"GET", b"HEAD"))
    assert b"Content-Length: 5\r\n" in said
    assert said.endswith(b"\r\n\r\n")


async def test_a_body_that_waits_to_be_asked_for_is_asked_for() -> None:
    async with serving() as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(
            b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
            b"Connection: close\r\n\r\n"
        )
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"ok")
        assert (await reader.read()).endswith(b"/aok")
        writer.close()


async def test_a_defect_is_answered_and_the_connection_goes_on() -> None:
    async with serving() as (server, _):
        said = await talk(server.port, GET.replace(b"/ ", b"/broken ") + LAST)
    assert said.startswith(b"HTTP/1.1 500 ")
    assert b"secret" not in said
    assert said.endswith(b"/last")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"AMQP\x00\x01\x00\x00", b"400"),
        (b"GET / HTTP/1.1\nHost: x\n\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (SMUGGLING, b"400"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;a\r\nxGET", b"400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000, b"431"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 300 + b"\r\n", b"431"),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000,
            b"413",
        ),
    ],
)
async def test_what_is_refused_ends_the_connection_and_nothing_after_it_is_read(
    request_bytes: bytes, status: bytes
) -> None:
    async with serving() as (server, desk):
        said = await talk(server.port, request_bytes + GET)
        assert said.startswith(b"HTTP/1.1 " + status)
        assert b"Connection: close\r\n" in said
        assert said.count(b"HTTP/1.1 ") == 1
        assert desk.asked == []


@pytest.mark.parametrize(
    ("seconds_of", "begun", "status"),
    [
        ("IDLE_SECONDS", b"", b""),
        ("HEAD_SECONDS", b"GET / HTT", b"408"),
        ("BODY_SECONDS", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", b"408"),
    ],
)
async def test_who_does_not_go_on_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, seconds_of: str, begun: bytes, status: bytes
) -> None:
    monkeypatch.setattr(connection_module, seconds_of, 0.01)
    async with serving() as (server, _):
        said = await talk(server.port, begun)
    assert said.split(b" ")[1:2] == ([status] if status else [])


@pytest.mark.parametrize(
    ("seconds_of", "begun"),
    [
        ("HEAD_SECONDS", b"GET / HTTP/1.1\r\nX: "),
        ("BODY_SECONDS", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n"),
        (
            "BODY_SECONDS",
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n300\r\n",
        ),
    ],
    ids=["head", "body", "chunks"],
)
async def test_a_slow_client_gains_no_time_by_each_byte(
    monkeypatch: pytest.MonkeyPatch, seconds_of: str, begun: bytes
) -> None:
    monkeypatch.setattr(connection_module, seconds_of, 0.2)
    async with serving() as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(begun)
        async with asyncio.timeout(20):
            while not reader.at_eof():
                writer.write(b"x")
                with contextlib.suppress(TimeoutError):
                    assert (await asyncio.wait_for(reader.read(), 0.02)).startswith(b"HTTP/1.1 408")
        writer.close()


async def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "WRITE_SECONDS", 0.01)
    async with serving() as (server, desk):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        transport = cast("asyncio.Transport", writer.transport)
        transport.pause_reading()
        writer.write(GET.replace(b"/ ", b"/large ") + GET)
        await until(lambda: not server._guard._connections and desk.asked)
        # The next request was not even looked at.
        assert desk.asked == ["/large"]
        transport.resume_reading()
        with contextlib.suppress(ConnectionError):
            assert len(await reader.read()) < 8_000_000
        writer.close()


async def test_what_comes_ahead_of_its_turn_is_bounded() -> None:
    async with serving() as (server, desk):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(GET.replace(b"/ ", b"/wait "))
        many = GET * 400_000
        writer.write(many)
        await until(lambda: desk.asked == ["/wait"])
        [connection] = server._guard._connections
        assert isinstance(connection, connection_module.HttpConnection)
        await until(lambda: connection._is_paused)
        # One read may go beyond it.
        assert len(connection._buffer) <= AHEAD_BYTES_MAX + 256 * 1024
        desk.released.set()
        assert (await reader.readuntil(b"/wait")).startswith(b"HTTP/1.1 200")
        writer.transport.abort()


async def test_whoever_answers_learns_that_the_client_has_hung_up() -> None:
    async with serving() as (server, desk):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(GET.replace(b"/ ", b"/wait "))
        await until(lambda: desk.asked)
        writer.close()
        await until(lambda: desk.hung_up == 1)


async def test_a_server_that_closes_lets_answers_out_first() -> None:
    desk = EchoDesk()
    server = await serve_http(desk, at())
    idle_reader, idle = await asyncio.open_connection("127.0.0.1", server.port)
    busy = asyncio.create_task(talk(server.port, GET.replace(b"/ ", b"/wait ")))
    await until(lambda: desk.asked)
    await server.close()
    assert (await busy).endswith(b"/wait")
    assert await idle_reader.read() == b""
    idle.close()


async def test_five_hundred_slow_clients_do_not_keep_a_good_one_out() -> None:
    async with serving(guard=Guard(connections_max=100)) as (server, _):
        slow = []
        for _ in range(500):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\nx")
            slow.append((reader, writer))
        async with httpx.AsyncClient(trust_env=False) as client:
            for number in range(20):
                answer = await client.get(f"http://127.0.0.1:{server.port}/{number}")
                assert answer.text == f"/{number}"
        assert len(server._guard._connections) <= 100
        for _, writer in slow:
            writer.close()


async def test_when_all_are_being_answered_one_more_is_told_to_come_again() -> None:
    async with serving(guard=Guard(connections_max=1)) as (server, desk):
        busy = asyncio.create_task(talk(server.port, GET.replace(b"/ ", b"/wait ")))
        await until(lambda: desk.asked)
        assert (await talk(server.port, b"")).startswith(b"HTTP/1.1 503 ")
        desk.released.set()
        busy.cancel()


async def test_large_bodies_under_way_are_counted_together() -> None:
    begun = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n"
    async with serving(guard=Guard(body_bytes_max=1000)) as (server, _):
        _, slow = await asyncio.open_connection("127.0.0.1", server.port)
        slow.write(begun)
        await until(lambda: server._guard._body_bytes_left == 100)
        assert (await talk(server.port, begun)).startswith(b"HTTP/1.1 503 ")
        assert (await talk(server.port, LAST)).endswith(b"/last")
        slow.close()
        await until(lambda: server._guard._body_bytes_left == 1000)
        whole = begun.replace(b"Host", b"Connection: close\r\nHost") + b"x" * 900
        assert (await talk(server.port, whole)).endswith(b"x" * 900)


# A request as clients make it, its parts, and what attackers put between them.
PIECES = st.sampled_from(
    [
        *(GET, LAST, SMUGGLING),
        *(b"POST / HTTP/1.1\r\n", b"Host: x\r\n", b"Content-Length: 5\r\n", b"\r\n", b"hello"),
        *(b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"\n", b"\r"),
        *(b" folded\r\n", b"Content-Length: 0\r\n", b"\x00", b"Expect: 100-continue\r\n"),
    ]
) | st.binary(max_size=20)


async def check_bytes(pieces: list[bytes]) -> None:
    """Whatever comes, in whatever pieces, is answered or ended, and others are served."""
    async with serving() as (server, door):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        with contextlib.suppress(OSError):
            writer.write_eof()
            said = await asyncio.wait_for(reader.read(), timeout=20)
            assert said == b"" or said.startswith(b"HTTP/1.1 ")
            # No more answers than there were requests, and none to a request within another.
            assert said.count(b"\r\nDate: ") <= sum(piece.count(b"HTTP/1.") for piece in pieces) + 1
        writer.close()
        assert "/smuggled" not in door.asked
        assert (await talk(server.port, LAST)).endswith(b"/last")


@settings(max_examples=40, deadline=None)
@given(pieces=st.lists(PIECES, max_size=12))
async def test_any_bytes_in_any_pieces_are_answered_or_ended(pieces: list[bytes]) -> None:
    await check_bytes(pieces)


@pytest.mark.prove
@pytest.mark.timeout(1800)
@settings(max_examples=5_000, deadline=None)
@given(pieces=st.lists(PIECES, max_size=20))
async def test_any_bytes_are_answered_or_ended_at_length(pieces: list[bytes]) -> None:
    await check_bytes(pieces)


async def test_a_connection_can_be_handed_to_another_protocol() -> None:
    async with serving() as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        asked = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: shouting\r\n\r\n"
        writer.write(asked + b"hi")
        assert await reader.readexactly(len(asked) + 2) == (asked + b"hi").upper()
        writer.close()
        refused = GET.replace(b"Host", b"Upgrade: h2c\r\nHost") + LAST
        assert (await talk(server.port, refused)).count(b"200 OK") == 2
