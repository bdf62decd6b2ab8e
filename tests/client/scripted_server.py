"""Scripted brokers behind a real socket, for what only sockets can show."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from tests.client.scripted_broker import ScriptedBroker


@dataclass(slots=True)
class ScriptedServer:
    """Gives every client that connects a broker of its own."""

    make: Callable[[], ScriptedBroker]
    port: int = 0
    brokers: list[ScriptedBroker] = field(default_factory=list)
    transports: set[asyncio.Transport] = field(default_factory=set)

    def connection_string(self, host: str = "localhost", flag: str = "true") -> str:
        """Return what a client needs."""
        return (
            f"Endpoint=sb://{host}:{self.port};SharedAccessKeyName=rule;SharedAccessKey=key;"
            f"UseDevelopmentEmulator={flag}"
        )

    def hang_up(self) -> None:
        """Drop every client without a word."""
        for transport in self.transports:
            transport.abort()

    def hears(self, address: str) -> bool:
        """Tell whether a client has attached to an address and, if it receives, wants messages."""
        links = [broker.links.get(address) for broker in self.brokers]
        return any(link is not None and link.credit for link in links)


class _Conversation(asyncio.Protocol):
    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._broker = server.make()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.brokers.append(self._broker)
        self._server.transports.add(self._transport)

    def connection_lost(self, error: Exception | None) -> None:
        del error
        assert self._transport is not None
        self._server.transports.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(self._broker.receive(data))


@asynccontextmanager
async def serving_script(
    make: Callable[[], ScriptedBroker] = ScriptedBroker, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedServer]:
    """Listen on a free port of this machine."""
    server = ScriptedServer(make)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: _Conversation(server), "localhost", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        server.hang_up()
        listening.close()
