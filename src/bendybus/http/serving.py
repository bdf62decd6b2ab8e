"""Serving HTTP inside a loop that is already running, beside AMQP.

The server is our own (decisions/0009): names of headers keep their case, as properties of messages
must, every wait has a deadline, every buffer a bound, and nothing is read in two ways.
"""

from collections.abc import Sequence
from typing import Final

from bendybus.doors.door import Door, OpenDoor, open_door
from bendybus.http.connection import HttpConnection
from bendybus.http.exchange import Desk
from bendybus.http.guard import Guard

CLOSE_SECONDS: Final = 2.0


class HttpServer:
    """A running HTTP server. Made by `serve_http`."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._doors: list[OpenDoor] = []

    @property
    def ports(self) -> dict[str, int]:
        """The ports that clients connect to, by the names of the doors."""
        return {door.name: door.port for door in self._doors}

    @property
    def port(self) -> int:
        """The port of the first door."""
        return self._doors[0].port

    async def open(self, desk: Desk, doors: Sequence[Door]) -> None:
        """Listen at each door; if one cannot be opened, at none."""
        try:
            for door in doors:
                opened = await open_door(door, lambda: HttpConnection(desk, self._guard))
                self._doors.append(opened)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop listening, let requests under way end, at most `CLOSE_SECONDS`."""
        for door in self._doors:
            door.close()
        await self._guard.close(CLOSE_SECONDS)
        for door in self._doors:
            await door.wait_closed()


async def serve_http(
    desk: Desk, doors: Sequence[Door], *, guard: Guard | None = None
) -> HttpServer:
    """Listen and serve; returns when requests are answered.

    Raises `PortInUse` or `SettingInvalid`.
    """
    server = HttpServer(guard or Guard())
    await server.open(desk, doors)
    return server
