"""Listens for clients, and keeps time for their connections."""

import asyncio
import contextlib
import errno
import uuid
from typing import Final

from bendybus.amqp.connection_settings import ConnectionSettings
from bendybus.broker.authenticate import Authentication
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.model.errors import PortInUse, SettingInvalid
from bendybus.model.transaction import TransactionLimits
from bendybus.server.connection import ClientConnection, Service

TICK_SECONDS: Final = 1.0
BACKLOG: Final = 1024
CLOSE_SECONDS_MAX: Final = 2.0


class AmqpListener:
    """A running AMQP server. Made by `listen`."""

    def __init__(self, service: Service) -> None:
        self.connections: set[ClientConnection] = set()
        self._service = service
        self._endings: set[asyncio.Future[None]] = set()
        self._server: asyncio.Server | None = None
        self._ticking: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def open(self, host: str, port: int) -> None:
        """Listen. Raises `PortInUse` or `SettingInvalid`."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._connect,
                host,
                port,
                backlog=BACKLOG,
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(
                    f"port {port} on {host} is used by another process; stop it or choose another"
                    " port with --amqp-port"
                ) from None
            raise SettingInvalid(f"cannot listen on {host}:{port}: {error}") from None
        self._ticking = asyncio.create_task(self._tick(), name="amqp-tick")

    async def close(self) -> None:
        """Stop listening, and tell every client."""
        assert self._server is not None
        assert self._ticking is not None
        self._ticking.cancel()
        self._server.close()
        for connection in list(self.connections):
            connection.shut_down()
        await self._ended()
        for connection in list(self.connections):
            connection.outlet.transport.abort()
        await self._ended()
        with contextlib.suppress(asyncio.CancelledError):
            await self._ticking

    def _connect(self) -> ClientConnection:
        connection = ClientConnection(self._service, self.connections)
        self._endings.add(connection.ended)
        connection.ended.add_done_callback(self._endings.discard)
        return connection

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
    host: str,
    port: int,
    *,
    catalog: Catalog,
    authentication: Authentication,
    clock: Clock,
    transaction_limits: TransactionLimits = TransactionLimits(),  # noqa: B008 - it is frozen
) -> AmqpListener:
    """Start an AMQP server."""
    settings = ConnectionSettings(container_id=uuid.uuid4().hex)
    listener = AmqpListener(Service(catalog, authentication, clock, settings, transaction_limits))
    await listener.open(host, port)
    return listener
