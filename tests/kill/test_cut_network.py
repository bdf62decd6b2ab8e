"""The network of the tests does what networks do, or what it proves would be nothing."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from bendybus.testing.cut_network import CutNetwork, cut_network

SECONDS_MAX = 5.0
# How long nothing must come for silence to be believed.
SILENCE_SECONDS = 0.05


class Echo:
    """A server that answers what it is told, and remembers it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard = b""
        self.changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # Closing alone would leave it open for the thread that waits in it.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def wait_until_it_heard(self, what: bytes) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.heard.endswith(what), SECONDS_MAX)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while some := _heard(connection):
                connection.sendall(some)
                with self.changed:
                    self.heard += some
                    self.changed.notify_all()


def _heard(connection: socket.socket) -> bytes:
    try:
        return connection.recv(100)
    except ConnectionError:
        return b""


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def network(echo: Echo) -> Iterator[CutNetwork]:
    with cut_network(echo.port) as network:
        yield network


@pytest.fixture
def client(network: CutNetwork) -> Iterator[socket.socket]:
    with connected(network) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"
        yield client


def connected(network: CutNetwork) -> socket.socket:
    return socket.create_connection(("127.0.0.1", network.port), SECONDS_MAX)


def assert_silent(client: socket.socket) -> None:
    client.settimeout(SILENCE_SECONDS)
    with pytest.raises(TimeoutError):
        client.recv(100)
    client.settimeout(SECONDS_MAX)


def test_a_cut_is_seen_by_both_and_new_connections_are_refused(
    network: CutNetwork, client: socket.socket
) -> None:
    network.cut()
    with pytest.raises(ConnectionError):
        client.recv(100)
    with pytest.raises(ConnectionError):
        connected(network)
    network.restore()
    with connected(network) as again:
        again.sendall(b"again")
        assert again.recv(100) == b"again"


def test_silence_is_told_to_nobody_and_what_was_said_arrives_late(
    network: CutNetwork, client: socket.socket, echo: Echo
) -> None:
    network.silence()
    client.sendall(b"late")
    with connected(network) as other:
        other.sendall(b"other")
        assert_silent(client)
        assert_silent(other)
        assert echo.heard == b"hello"
        network.restore()
        assert (client.recv(100), other.recv(100)) == (b"late", b"other")


def test_with_answers_silenced_requests_are_heard(
    network: CutNetwork, client: socket.socket, echo: Echo
) -> None:
    network.silence_answers()
    client.sendall(b"asked")
    echo.wait_until_it_heard(b"asked")
    assert_silent(client)
    network.restore()
    assert client.recv(100) == b"asked"


def test_who_leaves_in_a_silence_has_left_when_it_is_over(
    network: CutNetwork, client: socket.socket, echo: Echo
) -> None:
    network.silence()
    client.sendall(b"farewell")
    client.close()
    network.restore()
    echo.wait_until_it_heard(b"farewell")


def test_a_server_that_is_not_there_refuses(network: CutNetwork, echo: Echo) -> None:
    echo.close()
    with pytest.raises(ConnectionResetError):
        answer_of(network)


def answer_of(network: CutNetwork) -> bytes:
    with connected(network) as client:
        return client.recv(100)
