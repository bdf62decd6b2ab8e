"""The HTTP server as a guest in a running loop, over real sockets."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from bendybus.http.serving import HEADER_BYTES_MAX, HttpServer, serve_http
from bendybus.model.errors import PortInUse, SettingInvalid


async def greet(_: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


APP = Starlette(routes=[Route("/", greet)])


@asynccontextmanager
async def serving(host: str = "127.0.0.1") -> AsyncIterator[HttpServer]:
    server = await serve_http(APP, host, 0)
    try:
        yield server
    finally:
        await server.close()


async def test_requests_are_answered_as_soon_as_the_call_returns() -> None:
    async with serving() as server, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"http://127.0.0.1:{server.port}/")
    assert answer.text == "hello"
    assert "server" not in answer.headers


async def test_a_closed_server_lets_its_port_go() -> None:
    async with serving() as server:
        port = server.port
    again = await serve_http(APP, "127.0.0.1", port)
    assert again.port == port
    await again.close()


async def test_a_taken_port_is_a_refusal_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"port {port} on 127.0.0.1 is used"):
            await serve_http(APP, "127.0.0.1", port)


async def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(SettingInvalid, match=r"cannot listen on 192\.0\.2\.1:"):
        await serve_http(APP, "192.0.2.1", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signals_stay_with_whoever_had_them(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    async with serving():
        assert signal.getsignal(number) is before


async def test_headers_are_bounded() -> None:
    async with serving() as server:
        async with httpx.AsyncClient(trust_env=False) as client:
            long = {"X": "x" * (HEADER_BYTES_MAX * 3 // 4)}
            answer = await client.get(f"http://127.0.0.1:{server.port}/", headers=long)
            assert answer.status_code == 200
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (HEADER_BYTES_MAX * 9 // 8))
        refusal = await asyncio.wait_for(reader.read(), timeout=10)
        assert refusal.startswith(b"HTTP/1.1 400 ")
        writer.close()


async def test_bytes_that_are_not_http_are_answered_and_the_connection_closed() -> None:
    async with serving() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"AMQP\x00\x01\x00\x00\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), timeout=10)
        assert answer.startswith(b"HTTP/1.1 400 ")
        writer.close()
