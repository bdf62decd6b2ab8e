"""A WebSocket client made by hand, so that a test can break any rule of RFC 6455."""

import asyncio
import base64
import hashlib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bendybus.testing.wire_client import WAIT_SECONDS, WireClient

KEY: Final = base64.b64encode(b"sixteen bytes ok").decode()
# RFC 6455, section 1.3: what a server adds to the key.
ACCEPT: Final = base64.b64encode(
    hashlib.sha1(f"{KEY}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()  # noqa: S324 - as the standard has it
).decode()
PATH: Final = "/$servicebus/websocket"
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
HEADERS: Final = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "AMQPWSB10",
}
_MASK: Final = b"\x11\x22\x33\x44"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back to the request: the status and the headers, their names in lower case."""

    status: int
    headers: dict[str, str]


def frame(
    opcode: int, payload: bytes = b"", *, is_last: bool = True, is_masked: bool = True
) -> bytes:
    """Write one frame as a client must, or as it must not."""
    head = bytes([opcode | (0x80 if is_last else 0)])
    bit = 0x80 if is_masked else 0
    if len(payload) < 126:
        head += bytes([bit | len(payload)])
    elif len(payload) < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", len(payload))
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", len(payload))
    if not is_masked:
        return head + payload
    masked = bytes(byte ^ _MASK[at % 4] for at, byte in enumerate(payload))
    return head + _MASK + masked


class RawWebSocket:
    """One connection. What a `WireClient` needs of a reader and of a writer is here, too."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.transport = writer.transport
        self.message_sizes: list[int] = []

    async def ask(self, path: str = PATH, headers: dict[str, str] | None = None) -> Answer:
        """Send the request and return the answer, whatever it is."""
        lines = [f"{name}: {value}\r\n" for name, value in (headers or HEADERS).items()]
        self._writer.write(f"GET {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode())
        async with asyncio.timeout(WAIT_SECONDS):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        first, *rest = head.splitlines()
        pairs = (line.split(": ", 1) for line in rest if line)
        return Answer(int(first.split()[1]), {name.lower(): value for name, value in pairs})

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)

    async def hear(self) -> tuple[int, bytes]:
        """Take the next frame; servers do not mask."""
        async with asyncio.timeout(WAIT_SECONDS):
            head = await self._reader.readexactly(2)
            assert head[0] & 0x80, "the broker has no reason to cut its messages"
            assert not head[1] & 0x80, "a server must not mask"
            size = head[1]
            if size == 126:
                [size] = struct.unpack(">H", await self._reader.readexactly(2))
            elif size == 127:
                [size] = struct.unpack(">Q", await self._reader.readexactly(8))
            return head[0] & 0x0F, await self._reader.readexactly(size)

    async def hear_close(self) -> int:
        """Skip to the Close, and return its code."""
        while True:
            opcode, payload = await self.hear()
            if opcode == CLOSE:
                return int.from_bytes(payload[:2], "big")

    async def until_closed(self) -> None:
        """Wait until the broker has closed the connection."""
        async with asyncio.timeout(WAIT_SECONDS):
            while await self._reader.read(65536):
                continue

    # As a reader and a writer of AMQP

    def write(self, data: bytes) -> None:
        """Send one binary message."""
        self.send(frame(BINARY, data))

    async def drain(self) -> None:
        """Wait until the kernel has taken nearly all."""
        await self._writer.drain()

    async def read(self, _: int) -> bytes:
        """Return what one message holds; nothing at the end."""
        try:
            opcode, payload = await self.hear()
        except asyncio.IncompleteReadError:
            return b""
        self.message_sizes.append(len(payload))
        return payload if opcode == BINARY else b""

    def amqp(self) -> WireClient:
        """Speak AMQP through it."""
        return WireClient(self, self)  # type: ignore[arg-type]  # it has what is used of both


@asynccontextmanager
async def raw_websocket(
    port: int, *, receive_bytes: int | None = None
) -> AsyncIterator[RawWebSocket]:
    """Connect; nothing is said yet.

    With few `receive_bytes` the kernel takes hardly more than the test reads.
    """
    connection = socket.socket()
    connection.setblocking(False)
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        yield RawWebSocket(reader, writer)
    finally:
        writer.transport.abort()
