"""A network of a test's own, which can be cut: a proxy for TCP between clients and a server.

It runs in a thread, so that brokers and servers in other processes, and tests that block, can use
it. What it can do to connections is what networks do:

- `cut`: they are reset and new ones refused, as when the other machine is known to be gone.
- `silence`: nothing arrives any more in either direction, and nobody is told. New connections are
  taken by the kernel, and then hear nothing.
- `silence_answers`: what was asked for happens, and the one who asked never learns of it.
- `restore`: all is well again. What was under way in a silence arrives late, as packets do that
  are sent again.
"""

import asyncio
import itertools
import socket
import struct
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

from bendybus.testing.free_port import free_port

_RESET: Final = struct.pack("ii", 1, 0)


class _End(asyncio.Protocol):
    """One end of a connection that is handed on: what it reads, the other writes."""

    def __init__(self) -> None:
        self.other: _End
        self._transport: asyncio.Transport
        # Until both ends are there.
        self._is_silent = True
        self._is_other_full = False
        self.is_lost = False

    def reset(self) -> None:
        """End it so that its peer sees it at once."""
        end = self._transport.get_extra_info("socket")
        with suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def hush(self, *, is_silent: bool) -> None:
        """Say whether what it reads, or that it is gone, stays unknown to the other."""
        self._is_silent = is_silent
        self._steer()
        if self.is_lost and not is_silent:
            self.other.reset()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._steer()

    def data_received(self, data: bytes) -> None:
        self.other._transport.write(data)  # noqa: SLF001 - two of a kind

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        if not self._is_silent:
            if error is None:
                self.other._transport.close()  # noqa: SLF001 - two of a kind
            else:
                self.other.reset()

    def pause_writing(self) -> None:
        self.other._fill(is_full=True)  # noqa: SLF001 - two of a kind

    def resume_writing(self) -> None:
        self.other._fill(is_full=False)  # noqa: SLF001 - two of a kind

    def _fill(self, *, is_full: bool) -> None:
        self._is_other_full = is_full
        self._steer()

    def _steer(self) -> None:
        if self._is_silent or self._is_other_full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


class CutNetwork:
    """Takes connections on a port of its own and hands them on to another.

    If that is several, to each in turn, as one address for all of them would.
    """

    def __init__(self, *target_ports: int) -> None:
        self.port = free_port()
        self._target_ports = itertools.cycle(target_ports)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._accepting: asyncio.Task[None] | None = None
        self._pairs: list[tuple[_End, _End]] = []
        self._are_requests_silent = False
        self._are_answers_silent = False
        self._is_heard = asyncio.Event()

    def start(self) -> None:
        """Take connections."""
        self._thread.start()
        self.restore()

    def close(self) -> None:
        """End all connections, and take no more."""
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Reset all connections, and refuse new ones."""
        self._call(self._cut())

    def silence(self) -> None:
        """Let nothing through, and tell nobody."""
        self._call(self._hush(requests=True, answers=True))

    def silence_answers(self) -> None:
        """Let requests through, but nothing of what is answered."""
        self._call(self._hush(requests=False, answers=True))

    def restore(self) -> None:
        """Let everything through again, and what was under way as well."""
        self._call(self._restore())

    def _call(self, action: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(action, self._loop).result()

    # In the thread's loop

    async def _restore(self) -> None:
        await self._hush(requests=False, answers=False)
        if self._accepting is None:
            listener = socket.create_server(("127.0.0.1", self.port), backlog=256)
            listener.setblocking(False)
            self._accepting = self._loop.create_task(self._accept(listener))

    async def _cut(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
            self._accepting = None
        pairs, self._pairs = self._pairs, []
        for client, server in pairs:
            client.reset()
            server.reset()

    async def _hush(self, *, requests: bool, answers: bool) -> None:
        self._are_requests_silent, self._are_answers_silent = requests, answers
        for client, server in self._pairs:
            client.hush(is_silent=requests)
            server.hush(is_silent=answers)
        if requests:
            self._is_heard.clear()
        else:
            self._is_heard.set()

    async def _accept(self, listener: socket.socket) -> None:
        """Take connections, one after the other, until cancelled."""
        with listener:
            while True:
                accepted, _ = await self._loop.sock_accept(listener)
                try:
                    await self._is_heard.wait()
                    await self._join(accepted)
                except OSError:
                    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    accepted.close()
                except asyncio.CancelledError:
                    accepted.close()
                    raise

    async def _join(self, accepted: socket.socket) -> None:
        client, server = _End(), _End()
        client.other, server.other = server, client
        there = next(self._target_ports)
        await self._loop.create_connection(lambda: server, "127.0.0.1", there)
        await self._loop.connect_accepted_socket(lambda: client, accepted)
        self._pairs = [pair for pair in self._pairs if not any(end.is_lost for end in pair)]
        self._pairs.append((client, server))
        client.hush(is_silent=self._are_requests_silent)
        server.hush(is_silent=self._are_answers_silent)


@contextmanager
def cut_network(*target_ports: int) -> Iterator[CutNetwork]:
    """Run such a network while the block runs."""
    network = CutNetwork(*target_ports)
    network.start()
    try:
        yield network
    finally:
        network.close()
