"""The bulk door: where it is served, certificates that change, and its end.

A port is tried before gRPC takes it, so that a refusal reads as those of the other doors do. A
server of pyarrow's keeps the certificate that it began with, so a renewed one comes with another
server on the same port: the first stops listening, and ends when its last call does.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from pyarrow import ArrowException

from bendybus.broker.clock import Clock
from bendybus.broker.hosts import Hosts
from bendybus.doors.door import Door
from bendybus.doors.sockets import bound_sockets
from bendybus.doors.tls import ServerTls
from bendybus.flight.calls import Calls
from bendybus.flight.desk import Desk
from bendybus.flight.doorkeeper import Doorkeeper
from bendybus.flight.hop import Hop
from bendybus.flight.peers import cut_off, peers_at
from bendybus.flight.server import BulkServer
from bendybus.flight.service import Service
from bendybus.model.errors import PortInUse, SettingInvalid

LOOK_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 2.0
RENEWAL_SECONDS_MAX: Final = 10.0
_AGAIN_SECONDS: Final = 0.02

_log = logging.getLogger(__name__)


class OpenBulkDoor:
    """A door that is served. Made by `open_bulk_door`."""

    def __init__(self, service: Service, tls: ServerTls | None) -> None:
        self.calls = service.calls
        self.ports: dict[str, int] = {}
        self._service = service
        self._tls = tls
        self._servers: dict[Door, BulkServer] = {}
        # What each encrypted door shows; another one once the certificate is renewed.
        self._shown: dict[Door, object] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._keeper = Doorkeeper(service.calls)

    def open(self, door: Door) -> None:
        """Serve at a door. Raises `PortInUse` and `SettingInvalid`."""
        if door.port:
            _try(door)
        self._shown[door] = None if door.tls is None else door.tls()
        try:
            server = self._serve(door, door.port)
        except ArrowException as error:
            raise SettingInvalid(
                f"cannot serve Arrow Flight on {door.host}:{door.port}: {error}"
            ) from None
        self._servers[door] = server
        self.ports[door.name] = server.port

    def _serve(self, door: Door, port: int) -> BulkServer:
        host = f"[{door.host}]" if ":" in door.host else door.host
        if door.tls is None:
            return BulkServer(f"grpc://{host}:{port}", self._service)
        assert self._tls is not None, "an encrypted door has a certificate"
        location = f"grpc+tls://{host}:{port}"
        return BulkServer(location, self._service, [self._tls.pem()])

    async def watch(self) -> None:
        """Look now and then after clients and certificates, without end."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except OSError as error:
                _log.warning("cannot look after the connections of the bulk door: %s", error)

    async def look(self) -> None:
        """Show a new certificate if there is one; put out who keeps us waiting for too long."""
        for door in list(self._servers):
            if door.tls is not None and door.tls() is not self._shown[door]:
                await self._renew(door)
        await asyncio.to_thread(self._keeper.look, frozenset(self.ports.values()))

    async def _renew(self, door: Door) -> None:
        """Let another server take the port over; clients that come between try again."""
        assert door.tls is not None
        shown, port = door.tls(), self.ports[door.name]
        self._end(self._servers[door])
        ends_at = time.monotonic() + RENEWAL_SECONDS_MAX
        while True:
            try:
                _try(replace(door, port=port))
                self._servers[door] = self._serve(door, port)
            except (PortInUse, ArrowException) as error:
                if time.monotonic() > ends_at:
                    _log.error("the bulk door cannot be opened again: %s", error)
                    return
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                self._shown[door] = shown
                return

    def _end(self, server: BulkServer) -> None:
        """Let nobody else in; those who are served go on."""
        task = asyncio.create_task(asyncio.to_thread(server.shutdown))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Stop listening; streams end with their next batch, and all ends soon."""
        self.calls.close()
        for server in self._servers.values():
            self._end(server)
        ports = frozenset(self.ports.values())
        for _ in range(2):
            if self._ending:
                await asyncio.wait(list(self._ending), timeout=CLOSE_SECONDS)
            if self._ending:
                # Who does not read keeps a thread of gRPC's writing.
                await asyncio.to_thread(lambda: cut_off(ports, peers_at(ports)))


def _try(door: Door) -> None:
    """See whether a port can be had. Raises `PortInUse` and `SettingInvalid`."""
    for each in bound_sockets(door.host, door.port, door.option):
        each.close()


async def open_bulk_door(
    doors: Sequence[Door],
    *,
    hosts: Hosts,
    clock: Clock,
    tls: ServerTls | None = None,
    calls: Calls | None = None,
) -> OpenBulkDoor:
    """Serve; if one door cannot be opened, none is. Raises `PortInUse` and `SettingInvalid`."""
    service = Service(Desk(hosts), calls or Calls(), Hop(asyncio.get_running_loop()), clock)
    opened = OpenBulkDoor(service, tls)
    try:
        for door in doors:
            opened.open(door)
    except BaseException:
        with suppress(asyncio.CancelledError):
            await opened.close()
        raise
    return opened
