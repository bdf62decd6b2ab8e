"""AMQP inside a WebSocket: the same bytes as over TCP, in binary messages.

A message is no frame of AMQP: either side may put several frames into one, or a part of one. So
this is a transport like any other, and the connection does not know which one it has.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import SEND_EOF, State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from bendybus.settings import is_loopback

PATH: Final = "/$servicebus/websocket"
SUBPROTOCOL: Final = Subprotocol("AMQPWSB10")
# A frame is kept until it is whole. The largest that clients are known to send holds one frame of
# AMQP, 64 KiB; the messages that frames are parts of need no bound, for nothing keeps them.
FRAME_BYTES_MAX: Final = 1024 * 1024
# aiohttp, which the official Python client uses, takes messages of at most 4 MiB.
MESSAGE_BYTES_MAX: Final = 1024 * 1024
# How long a client may take to answer that the WebSocket ends.
CLOSE_SECONDS_MAX: Final = 2.0
_DATA: Final = (Opcode.BINARY, Opcode.CONT)


class WebSocketConnection(asyncio.Protocol):
    """One client's WebSocket, from its request on: its bytes go to a protocol, and back."""

    def __init__(self, make: Callable[[], asyncio.Protocol]) -> None:
        """Wait for the request; `make` makes the protocol when it is a good one."""
        self._make = make
        self._protocol: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._frames = ServerProtocol(
            subprotocols=[SUBPROTOCOL],
            max_size=(None, FRAME_BYTES_MAX),
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # uvloop's transports have the methods without being of the class.
        self._transport = transport  # type: ignore[assignment]  # see above

    def data_received(self, data: bytes) -> None:
        """Read the request, then frames; what came together goes on together."""
        frames = self._frames
        frames.receive_data(data)
        parts: list[bytes] = []
        for event in frames.events_received():
            if isinstance(event, Request):
                self._answer(event)
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                frames.fail(CloseCode.UNSUPPORTED_DATA, "AMQP takes binary messages only")
                break
            elif isinstance(event, Frame) and event.opcode in _DATA:
                parts.append(bytes(event.data))
        if parts and self._protocol is not None:
            self._protocol.data_received(parts[0] if len(parts) == 1 else b"".join(parts))
        self.flush()

    def pause_writing(self) -> None:
        """The client does not read."""
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """End, and with it what was inside."""
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    @property
    def transport(self) -> asyncio.Transport:
        """What carries the WebSocket."""
        assert self._transport is not None
        return self._transport

    def send(self, data: bytes) -> None:
        """Send bytes, in as many messages as they need."""
        if self._frames.state is not State.OPEN:
            return
        for at in range(0, len(data), MESSAGE_BYTES_MAX):
            self._frames.send_binary(data[at : at + MESSAGE_BYTES_MAX])
        self.flush()

    def close(self) -> None:
        """Say goodbye; a client that does not answer is left."""
        if self._frames.state is State.OPEN:
            self._frames.send_close(CloseCode.NORMAL_CLOSURE)
            self.flush()
            asyncio.get_running_loop().call_later(CLOSE_SECONDS_MAX, self.transport.abort)

    def flush(self) -> None:
        """Write what there is, and close after it if that was the end."""
        writes = self._frames.data_to_send()
        data = b"".join(writes)
        if data and not self.transport.is_closing():
            self.transport.write(data)
        if SEND_EOF in writes:
            self.transport.close()

    def _answer(self, request: Request) -> None:
        frames = self._frames
        if unquote(request.path.partition("?")[0]).rstrip("/").lower() != PATH:
            response = frames.reject(404, f"AMQP over WebSocket is at {PATH}.\n")
        elif not _may_connect(request, self.transport):
            response = frames.reject(403, "Pages of other hosts may not connect.\n")
        else:
            response = frames.accept(request)
        frames.send_response(response)
        self.flush()
        if frames.state is State.OPEN:
            self._protocol = self._make()
            self._protocol.connection_made(_WebSocketTransport(self))


class _WebSocketTransport(asyncio.Transport):
    """What the protocol inside believes to be its socket."""

    def __init__(self, websocket: WebSocketConnection) -> None:
        super().__init__()
        self._websocket = websocket
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send."""
        self._websocket.send(bytes(data))

    def close(self) -> None:
        """Send what waits, then end."""
        self._is_closing = True
        self._websocket.close()

    def abort(self) -> None:
        """End at once."""
        self._is_closing = True
        self._websocket.transport.abort()

    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._is_closing or self._websocket.transport.is_closing()

    def pause_reading(self) -> None:
        """Let the client wait."""
        self._websocket.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._websocket.transport.resume_reading()

    def is_reading(self) -> bool:
        """Whether the client need not wait."""
        return self._websocket.transport.is_reading()

    def get_write_buffer_size(self) -> int:
        """Say how many bytes the client has not taken."""
        return self._websocket.transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Choose when `pause_writing` is called."""
        self._websocket.transport.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - of asyncio
        """Say something about the connection."""
        return self._websocket.transport.get_extra_info(name, default)


def _may_connect(request: Request, transport: asyncio.Transport) -> bool:
    """Whether a request comes from no web page, from one of this machine, or from one of our own.

    A browser lets any page connect to this machine, and everyone knows the development key. Whose
    page it is, the browser says in Origin. That our own host is meant there only counts where a
    name cannot be pointed at this machine by others: with a certificate, or beyond this machine.
    """
    origins = request.headers.get_all("Origin")
    if len(origins) != 1:
        return not origins
    host = _host_of(origins[0])
    if is_loopback(host):
        return True
    address = transport.get_extra_info("sockname")[0]
    is_sure = transport.get_extra_info("sslcontext") is not None or not is_loopback(address)
    return bool(host) and is_sure and host == _host_of(f"//{request.headers.get('Host', '')}")


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
