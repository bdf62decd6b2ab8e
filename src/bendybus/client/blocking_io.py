"""The blocking shell: a socket, and steps driven to their end by the thread that calls."""

import selectors
import socket
import ssl
import time
from typing import Final, TypeVar

from bendybus.client.connection import Connection
from bendybus.client.steps import Connect, Flush, Instruction, Step, Wait

T = TypeVar("T")

LOOK_SECONDS_MAX: Final = 60.0
STALLED_SECONDS_MAX: Final = 30.0
"""A broker that reads nothing for so long while we have something to say is given up."""
_READ_BYTES: Final = 256 * 1024
_READ_OR_WRITE: Final = selectors.EVENT_READ | selectors.EVENT_WRITE
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class BlockingIo:
    """Carries out instructions of steps. Nothing happens between calls, no thread is behind it.

    While it writes it also reads, so that a broker which waits for us to read cannot make both
    sides wait for ever.
    """

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._socket: socket.socket | None = None
        self._selector = selectors.DefaultSelector()

    @staticmethod
    def now() -> float:
        """Return the time by which steps count."""
        return time.monotonic()

    def run(self, step: Step[T]) -> T:
        """Drive a step to its end and return its result."""
        try:
            # Whatever came since the last call comes first, above all the end of the connection.
            self._exchange(0)
            instruction = next(step)
            while True:
                error = self._perform(instruction)
                instruction = step.send(self.now()) if error is None else step.throw(error)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            # Credit and settlements that nobody waits for are still to be told.
            self._write()

    def close(self) -> None:
        """Close the socket, for good."""
        self._hang_up()
        self._selector.close()

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None

    def _perform(self, instruction: Instruction) -> OSError | None:
        match instruction:
            case Wait():
                self._exchange(instruction.until - self.now())
            case Flush():
                self._write()
            case Connect():
                try:
                    self._connect(instruction)
                except OSError as error:
                    return error
        return None

    def _connect(self, connect: Connect) -> None:
        self._hang_up()
        endpoint = connect.connection.endpoint
        left = connect.until - self.now()
        if left <= 0:
            raise TimeoutError("the time allowed ran out")
        opened = socket.create_connection((endpoint.address, endpoint.port), timeout=left)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if endpoint.tls is not None:
                opened = endpoint.tls.wrap_socket(opened, server_hostname=endpoint.host)
            opened.setblocking(False)
        except BaseException:
            opened.close()
            raise
        self._selector.register(opened, selectors.EVENT_READ)
        self._socket, self._connection = opened, connect.connection

    # Bytes

    def _exchange(self, timeout: float) -> None:
        """Write what there is, wait for something to read, and read it."""
        connection = self._connection
        if self._socket is None or connection is None:
            # Between two attempts to connect: only time can pass.
            time.sleep(max(0.0, timeout))
            return
        self._write()
        if not connection.is_usable():
            self._hang_up()
            return
        tick_ms = connection.next_tick_ms(_milliseconds())
        longest = min(timeout, LOOK_SECONDS_MAX if tick_ms is None else tick_ms / 1000)
        if self._selector.select(max(0.0, longest)):
            self._read()
        connection.tick(_milliseconds())
        self._write()
        if not connection.is_usable():
            self._hang_up()

    def _write(self) -> None:
        """Write all there is to write, reading whenever the socket takes nothing."""
        while self._socket is not None and self._connection is not None:
            data = self._connection.data_to_send()
            if not data:
                return
            try:
                self._write_all(self._socket, data)
            except OSError as error:
                self._lose(error)

    def _write_all(self, opened: socket.socket, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[opened.send(left) :]
            except _NOT_NOW as reason:
                self._await_room(opened, is_reading=isinstance(reason, ssl.SSLWantReadError))

    def _await_room(self, opened: socket.socket, *, is_reading: bool) -> None:
        wanted = selectors.EVENT_READ if is_reading else _READ_OR_WRITE
        self._selector.modify(opened, wanted)
        ready = self._selector.select(STALLED_SECONDS_MAX)
        self._selector.modify(opened, selectors.EVENT_READ)
        if not ready:
            raise TimeoutError(f"the broker read nothing for {STALLED_SECONDS_MAX:.0f} seconds")
        if ready[0][1] & selectors.EVENT_READ and not is_reading:
            self._read()
        if self._socket is None:
            raise ConnectionResetError("the connection ended while data were being sent")

    def _read(self) -> None:
        """Read what has come. A TLS socket may hold more than the selector knows of."""
        assert self._connection is not None
        while self._socket is not None:
            try:
                data = self._socket.recv(_READ_BYTES)
            except _NOT_NOW:
                return
            except OSError as error:
                self._lose(error)
                return
            if not data:
                self._lose(ConnectionResetError("the broker closed the socket"))
                return
            self._connection.receive_data(data)
            if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
                return

    def _lose(self, error: OSError) -> None:
        assert self._connection is not None
        self._connection.lose(str(error) or type(error).__name__)
        self._hang_up()


def _milliseconds() -> int:
    return int(time.monotonic() * 1000)
