"""The way out of a connection: one write per turn of the loop, and what blocks it."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from bendybus.amqp.conditions import INTERNAL_ERROR
from bendybus.amqp.connection import AmqpConnection
from bendybus.amqp.outcomes import AmqpError

# What was read but is not on disk yet. Past the first figure the socket is not read until it is
# below the second: some clients do not heed link credit.
UNSTORED_BYTES_MAX: Final = 8 * 1024 * 1024
UNSTORED_BYTES_RESUME: Final = 4 * 1024 * 1024
# What a delivery costs beside its payload, so that those without any have an end, too.
DELIVERY_BYTES: Final = 256
# What the kernel has not taken yet. Past that, no more messages are locked for this client.
UNSENT_BYTES_MAX: Final = 1024 * 1024

_log = logging.getLogger(__name__)


class Outlet:
    """Owned by one connection, used by its links."""

    def __init__(self, amqp: AmqpConnection, transport: asyncio.Transport) -> None:
        self.amqp = amqp
        self.transport = transport
        self.is_blocked = False
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_flush_due = False
        # Responses that wait for the client's credit, on all its links.
        self.response_bytes = 0
        self._unstored_bytes = 0
        self._is_storing_slow = False
        self._is_reading = True
        self._writable: asyncio.Future[None] | None = None
        transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)

    def flush_soon(self) -> None:
        """Write what the engine has, at the end of this turn."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what the engine has."""
        self._is_flush_due = False
        data = self.amqp.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that ends by itself, or with the connection."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    async def finished(self) -> None:
        """Wait until all other work has ended."""
        while others := self._tasks - {asyncio.current_task()}:
            await asyncio.wait(others)

    def fail(self, error: BaseException) -> None:
        """End the connection after a defect of ours, loudly: a client left waiting is worse."""
        _log.error("a connection failed", exc_info=error)
        self.amqp.close(AmqpError(INTERNAL_ERROR, "The broker failed; see its log.", {}))
        self.flush()
        self.transport.close()

    def note_read(self, size: int, count: int = 1) -> None:
        """Count deliveries that came in, with so much payload together."""
        self._unstored_bytes += size + count * DELIVERY_BYTES
        if self._unstored_bytes > UNSTORED_BYTES_MAX:
            self._is_storing_slow = True
            self._read_or_not()

    def note_stored(self, size: int, count: int = 1) -> None:
        """Count deliveries that are on disk or were refused, with so much payload together."""
        self._unstored_bytes -= size + count * DELIVERY_BYTES
        if self._is_storing_slow and self._unstored_bytes < UNSTORED_BYTES_RESUME:
            self._is_storing_slow = False
            self._read_or_not()

    def block(self) -> None:
        """The client does not read: neither hand out nor take in anything that makes answers."""
        self.is_blocked = True
        self._read_or_not()

    def unblock(self) -> None:
        """The client reads again, or is gone."""
        self.is_blocked = False
        self._read_or_not()
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None

    async def writable(self) -> None:
        """Wait until the client reads what it was sent."""
        while self.is_blocked:
            if self._writable is None:
                self._writable = self._loop.create_future()
            await asyncio.shield(self._writable)

    def _read_or_not(self) -> None:
        should_read = not (self.is_blocked or self._is_storing_slow)
        if should_read is self._is_reading or self.transport.is_closing():
            return
        self._is_reading = should_read
        if should_read:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()
