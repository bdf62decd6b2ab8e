"""Listens for clients, and keeps time for their connections."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Sequence
from typing import Final

from bendybus.amqp.connection_settings import ConnectionSettings
from bendybus.broker.clock import Clock
from bendybus.broker.hosts import Hosts
from bendybus.doors.door import Door, OpenDoor, open_door
from bendybus.model.transaction import TransactionLimits
from bendybus.server.connection import ClientConnection, Service

TICK_SECONDS: Final = 1.0
CLOSE_SECONDS_MAX: Final = 2.0


class AmqpListener:
    """A running AMQP server. Made by `listen`."""

    def __init__(self, service: Service, note_count: Callable[[int], None] | None = None) -> None:
        self.connections: set[ClientConnection] = set()
        self._service = service
        self._note_count = note_count
        self._endings: set[asyncio.Future[None]] = set()
        self._doors: list[OpenDoor] = []
        self._ticking: asyncio.Task[None] | None = None

    @property
    def ports(self) -> dict[str, int]:
        """The ports that clients connect to, by the names of the doors."""
        return {door.name: door.port for door in self._doors}

    @property
    def port(self) -> int:
        """The port of the first door."""
        return self._doors[0].port

    async def open(self, doors: Sequence[Door]) -> None:
        """Listen at each door. Raises `PortInUse` or `SettingInvalid`; then none is open."""
        self._ticking = asyncio.create_task(self._tick(), name="amqp-tick")
        try:
            for door in doors:
                self._doors.append(await open_door(door, self.connect))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop listening, and tell every client."""
        assert self._ticking is not None
        self._ticking.cancel()
        for door in self._doors:
            door.close()
        for connection in list(self.connections):
            connection.shut_down()
        await self._ended()
        for connection in list(self.connections):
            connection.outlet.transport.abort()
        await self._ended()
        with contextlib.suppress(asyncio.CancelledError):
            await self._ticking
        for door in self._doors:
            await door.wait_closed()

    def connect(self) -> ClientConnection:
        """Make what answers one client, whichever way its bytes come."""
        connection = ClientConnection(self._service, self.connections)
        self._endings.add(connection.ended)
        connection.ended.add_done_callback(self._forget)
        if self._note_count is not None:
            self._note_count(len(self._endings))
        return connection

    def _forget(self, ended: "asyncio.Future[None]") -> None:
        self._endings.discard(ended)
        if self._note_count is not None:
            self._note_count(len(self._endings))

    async def _ended(self) -> None:
        """Wait a while for connections to end, and to give back what their clients held."""
        if self._endings:
            await asyncio.wait(self._endings, timeout=CLOSE_SECONDS_MAX)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = self._service.clock.now()
            for connection in list(self.connections):
                connection.tick(now)


async def listen(
    doors: Sequence[Door],
    *,
    hosts: Hosts,
    clock: Clock,
    transaction_limits: TransactionLimits = TransactionLimits(),  # noqa: B008 - it is frozen
    note_count: Callable[[int], None] | None = None,
) -> AmqpListener:
    """Start an AMQP server. `note_count` is told how many connections there are, at each change."""
    settings = ConnectionSettings(container_id=uuid.uuid4().hex)
    listener = AmqpListener(Service(hosts, clock, settings, transaction_limits), note_count)
    await listener.open(doors)
    return listener
