"""Clients that come through an encrypted door, and what answers them."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bendybus.doors.door import Door, OpenDoor, open_door
from bendybus.doors.local_authority import AuthorityFolder
from bendybus.doors.tls import ServerTls

SECONDS_MAX = 10.0


class Echo(asyncio.Protocol):
    """Sends back what comes; remembers who is there."""

    def __init__(self, there: "set[Echo]") -> None:
        self.there = there
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's are not of the class
        self.there.add(self)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.there.discard(self)


def server_tls(files: AuthorityFolder) -> ServerTls:
    """Serve the certificate of a folder."""
    return ServerTls(files.server, files.server_key)


@asynccontextmanager
async def echoing(
    tls: ServerTls | None, there: set[Echo], protocols: tuple[str, ...] = ()
) -> AsyncIterator[OpenDoor]:
    """Open a door behind which everything is echoed."""
    context = None if tls is None else tls.served(protocols)
    door = await open_door(Door("amqps", "127.0.0.1", 0, context), lambda: Echo(there))
    try:
        yield door
    finally:
        door.close()
        await door.wait_closed()
        for each in list(there):
            each.transport.abort()


def trusting(files: AuthorityFolder) -> ssl.SSLContext:
    """Trust the authority of a folder, and no other."""
    return ssl.create_default_context(cafile=str(files.authority))


@asynccontextmanager
async def calling(
    port: int, context: ssl.SSLContext, host: str = "localhost"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect and shake hands."""
    async with asyncio.timeout(SECONDS_MAX):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=host
        )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def echoed(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes = b"hello"
) -> bytes:
    """Say something and return what comes back."""
    writer.write(data)
    async with asyncio.timeout(SECONDS_MAX):
        return await reader.readexactly(len(data))


def serial_of(writer: asyncio.StreamWriter) -> str:
    """The number of the certificate that the server showed."""
    certificate = writer.get_extra_info("peercert")
    return str(certificate["serialNumber"])
