"""One way in: where it is, whether it is encrypted, and who answers."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from bendybus.doors.arrivals import Arrivals
from bendybus.doors.sockets import BACKLOG, bound_sockets

HANDSHAKE_SECONDS_MAX: Final = 10.0
"""A client that has not finished its handshake by then is cut off."""
HANDSHAKES_MAX: Final = 200
"""So many may be unfinished at a time on one door; one more, and the oldest is cut off."""
SHUTDOWN_SECONDS_MAX: Final = 2.0
# When the process has no file left for another connection: how long until the next attempt.
_NO_FILES_SECONDS: Final = 0.5
# The asynchronous Python client before 7.15 sets the segment size of its socket to what it is
# already, which the kernel refuses above this; between programs on one machine it would be 65483.
_SEGMENT_BYTES_MAX: Final = 32767

_log = logging.getLogger(__name__)

MakeProtocol = Callable[[], asyncio.Protocol]


@dataclass(frozen=True, slots=True)
class Door:
    """Where to listen, and with which TLS.

    `tls` is asked at every connection: the certificate may be another one by then. The name is
    that of the setting, such as amqps.
    """

    name: str
    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None = None
    # Where another process listens, what brings the connections that it hands over.
    arrivals: Arrivals | None = None

    @property
    def option(self) -> str:
        """The option that chooses the port."""
        return f"--{self.name}-port"


class OpenDoor:
    """A door that clients come through. Made by `open_door`."""

    def __init__(self, door: Door, make: MakeProtocol) -> None:
        self.name = door.name
        self.port = 0
        self._door = door
        self._make = make
        self._servers: list[asyncio.Server] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: dict[asyncio.Task[None], None] = {}

    async def open(self) -> None:
        """Listen on every address."""
        door = self._door
        loop = asyncio.get_running_loop()
        if door.arrivals is not None:
            self.port = door.port
            door.arrivals.welcome(door.name, self._admit)
            return
        for each in listening_sockets(door):
            self.port = each.getsockname()[1]
            if door.tls is None:
                server = await loop.create_server(self._make, sock=each, backlog=BACKLOG)
                self._servers.append(server)
            else:
                task = loop.create_task(self._accept(each), name="tls")
                # Not by the task itself, which may end before it has begun.
                task.add_done_callback(partial(_close, each))
                self._accepting.append(task)

    def close(self) -> None:
        """Let nobody else in. Connections that are open stay open."""
        if self._door.arrivals is not None:
            self._door.arrivals.leave(self.name)
        for server in self._servers:
            server.close()
        for task in (*self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until nobody is on the threshold any more."""
        if tasks := (*self._accepting, *self._handshakes):
            await asyncio.wait(tasks)

    async def _accept(self, listening: socket.socket) -> None:
        """Accept without end.

        The loop's own server would do, but leaves no way to bound the handshakes under way.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError as error:
                _log.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(_NO_FILES_SECONDS)
                continue
            _ = self._admit(client)

    def _admit(self, client: socket.socket) -> "asyncio.Task[None]":
        """Take in a connection that was accepted, and shake hands if that is to be."""
        if self._door.tls is not None and len(self._handshakes) >= HANDSHAKES_MAX:
            # An honest client needs milliseconds, so the oldest is the least likely one.
            oldest = next(iter(self._handshakes))
            self._forget(oldest)
            oldest.cancel()
        task = asyncio.create_task(_shake_hands(client, self._door, self._make))
        self._handshakes[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._handshakes.pop(task, None)


async def open_door(door: Door, make: MakeProtocol) -> OpenDoor:
    """Listen, and make a protocol for every connection. Raises `PortInUse`, `SettingInvalid`."""
    opened = OpenDoor(door, make)
    await opened.open()
    return opened


def listening_sockets(door: Door) -> list[socket.socket]:
    """Listen on every address of a door. Raises `PortInUse`, `SettingInvalid`."""
    bound = bound_sockets(door.host, door.port, door.option)
    if door.tls is not None:
        for each in bound:
            with suppress(OSError):  # elsewhere than on Linux
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT_BYTES_MAX)
    return bound


def _close(listening: socket.socket, _: "asyncio.Task[None]") -> None:
    listening.close()


class _Threshold(asyncio.Protocol):
    """Stands in during the handshake: for callers who never finish it, nothing else is made."""

    def __init__(self, make: MakeProtocol) -> None:
        self._make = make

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand over."""
        protocol = self._make()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


async def _shake_hands(client: socket.socket, door: Door, make: MakeProtocol) -> None:
    loop = asyncio.get_running_loop()
    if door.tls is None:
        await loop.connect_accepted_socket(make, client)
        return
    try:
        await loop.connect_accepted_socket(
            partial(_Threshold, make),
            client,
            ssl=door.tls(),
            ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS_MAX,
        )
    except OSError as error:
        # The caller's fault: a scanner, a client that does not trust us, or one that gave up.
        _log.info("no TLS connection: %s", str(error) or type(error).__name__)
