"""The asynchronous shell: a transport, and any number of steps driven side by side."""

import asyncio
import time
from typing import Final, TypeVar, cast

from bendybus.client.connecting import Connector
from bendybus.client.connection import Connection
from bendybus.client.steps import Connect, Flush, Instruction, Step, Wait

T = TypeVar("T")

STALLED_SECONDS_MAX: Final = 30.0
"""A broker that reads nothing for so long while we have something to say is given up."""


class AsyncIo:
    """Carries out instructions of steps. All steps that wait look again whenever bytes came."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._wire: _Wire | None = None
        self._waiting: set[asyncio.Future[None]] = set()

    @staticmethod
    def now() -> float:
        """Return the time by which steps count."""
        return time.monotonic()

    async def run(self, step: Step[T]) -> T:
        """Drive a step to its end and return its result. Being cancelled closes the step."""
        try:
            instruction = next(step)
            while True:
                error = await self._perform(instruction)
                instruction = step.send(self.now()) if error is None else step.throw(error)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            step.close()
            self._flush()
            self._look_if_changed()

    def close(self) -> None:
        """Close the transport."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def wake(self) -> None:
        """Let every step that waits look again."""
        waiting, self._waiting = self._waiting, set()
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def _perform(self, instruction: Instruction) -> OSError | None:
        match instruction:
            case Wait():
                await self._wait(instruction.until)
            case Flush():
                await self._make_room()
            case Connect():
                try:
                    await self._connect(instruction)
                except OSError as error:
                    return error
        return None

    async def _wait(self, until: float) -> None:
        self._flush()
        self._look_if_changed()
        loop = asyncio.get_running_loop()
        change: asyncio.Future[None] = loop.create_future()
        self._waiting.add(change)
        timer = None if until == float("inf") else loop.call_later(until - self.now(), _end, change)
        try:
            await change
        finally:
            self._waiting.discard(change)
            if timer is not None:
                timer.cancel()

    async def _make_room(self) -> None:
        self._flush()
        self._look_if_changed()
        wire = self._wire
        if wire is not None and wire.room is not None:
            _, waiting = await asyncio.wait([wire.room], timeout=STALLED_SECONDS_MAX)
            if waiting:
                wire.give_up(f"the broker read nothing for {STALLED_SECONDS_MAX:.0f} seconds")

    async def _connect(self, connect: Connect) -> None:
        self.close()
        endpoint = connect.connection.endpoint
        async with asyncio.timeout(max(0.0, connect.until - self.now())):
            _, wire = await asyncio.get_running_loop().create_connection(
                lambda: _Wire(self, connect.connection),
                endpoint.address,
                endpoint.port,
                ssl=endpoint.tls,
                server_hostname=None if endpoint.tls is None else endpoint.host,
            )
        self._wire = wire
        self._flush()

    def _flush(self) -> None:
        if self._wire is not None:
            self._wire.flush()

    def _look_if_changed(self) -> None:
        if self._connector.has_changed:
            self._connector.has_changed = False
            self.wake()


def _end(change: "asyncio.Future[None]") -> None:
    if not change.done():
        change.set_result(None)


class _Wire(asyncio.Protocol):
    """One transport, and the connection that it carries."""

    def __init__(self, io: AsyncIo, connection: Connection) -> None:
        self.room: asyncio.Future[None] | None = None
        """Done when the transport takes more again; None while it does."""
        self._io = io
        self._connection = connection
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def flush(self) -> None:
        """Hand on what is to be sent."""
        data = self._connection.data_to_send()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close the transport once what was written is gone."""
        if self._transport is not None:
            self._transport.close()

    def give_up(self, reason: str) -> None:
        """Drop the transport and what waits in it."""
        self._connection.lose(reason)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods without being of the class.
        self._transport = cast("asyncio.Transport", transport)
        self._tick()

    def data_received(self, data: bytes) -> None:
        self._connection.receive_data(data)
        self._after()

    def pause_writing(self) -> None:
        self.room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        room, self.room = self.room, None
        if room is not None:
            room.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.resume_writing()
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        self._connection.lose(str(error or "the broker closed the socket"))
        self._io.wake()

    def _after(self) -> None:
        """Hand on the answers, and let the steps see what came."""
        self.flush()
        if not self._connection.is_usable():
            self.close()
        self._io.wake()

    def _tick(self) -> None:
        """Heartbeat, and notice a broker that fell silent."""
        now_ms = int(self._io.now() * 1000)
        self._connection.tick(now_ms)
        self._after()
        due_ms = self._connection.next_tick_ms(now_ms)
        if due_ms is not None and self._connection.is_usable():
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(due_ms / 1000, self._tick)
