"""Serving HTTP inside a loop that is already running, beside AMQP.

uvicorn on its own takes over signals and ends the process when a port is taken; here it does
neither: signals belong to the command line, and a taken port is a refusal to start.
"""

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from bendybus.model.errors import PortInUse, SettingInvalid

HEADER_BYTES_MAX: Final = 12 * 1024  # a token may have 8 KiB
CONNECTIONS_MAX: Final = 512
BACKLOG: Final = 128
KEEP_ALIVE_SECONDS: Final = 30
CLOSE_SECONDS: Final = 2


class HttpServer:
    """A running HTTP server. Made by `serve_http`."""

    def __init__(self, server: "_Server", serving: asyncio.Task[None], port: int) -> None:
        self._server = server
        self._serving = serving
        self.port = port

    async def close(self) -> None:
        """Stop listening, let requests under way end, at most `CLOSE_SECONDS`."""
        self._server.should_exit = True
        await self._serving


async def serve_http(app: ASGIApp, host: str, port: int) -> HttpServer:
    """Listen and serve; returns when requests are answered. Port 0 takes any free one."""
    listener = _listen(host, port)
    server = _Server(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            limit_concurrency=CONNECTIONS_MAX,
            h11_max_incomplete_event_size=HEADER_BYTES_MAX,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=CLOSE_SECONDS,
        )
    )
    real_port: int = listener.getsockname()[1]
    serving = asyncio.create_task(server.serve([listener]), name="http")
    started = asyncio.create_task(server.has_started.wait())
    try:
        await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        started.cancel()
    if serving.done():
        serving.result()
    return HttpServer(server, serving, real_port)


class _Server(uvicorn.Server):
    """uvicorn's server, made a guest: it leaves signals alone and says when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.has_started = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.has_started.set()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"port {port} on {host} is used by another process; stop it or choose another"
                " port with --http-port"
            ) from None
        raise SettingInvalid(f"cannot listen on {host}:{port}: {error.strerror}") from None
