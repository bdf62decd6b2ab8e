"""Serving HTTP inside a loop that is already running, beside AMQP.

The server is our own (decisions/0009): names of headers keep their case, as properties of messages
must, every wait has a deadline, every buffer a bound, and nothing is read in two ways.
"""

import asyncio
import errno
import socket
import ssl
from typing import Final

from bendybus.http.connection import HttpConnection
from bendybus.http.exchange import Door
from bendybus.http.guard import Guard
from bendybus.model.errors import PortInUse, SettingInvalid

BACKLOG: Final = 512
CLOSE_SECONDS: Final = 2.0


class HttpServer:
    """A running HTTP server. Made by `serve_http`."""

    def __init__(self, server: asyncio.Server, guard: Guard, port: int) -> None:
        self._server = server
        self._guard = guard
        self.port = port

    async def close(self) -> None:
        """Stop listening, let requests under way end, at most `CLOSE_SECONDS`."""
        self._server.close()
        await self._guard.close(CLOSE_SECONDS)


async def serve_http(
    door: Door,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    guard: Guard | None = None,
) -> HttpServer:
    """Listen and serve; returns when requests are answered. Port 0 takes any free one."""
    listener = _listen(host, port)
    watching = guard or Guard()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: HttpConnection(door, watching), sock=listener, backlog=BACKLOG, ssl=tls
    )
    return HttpServer(server, watching, listener.getsockname()[1])


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
