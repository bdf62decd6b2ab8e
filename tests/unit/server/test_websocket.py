"""However a stream is cut into messages, frames and reads, the same bytes come out of it."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.server.websocket import WebSocketConnection
from tests.protocol.websocket.raw_websocket import BINARY, CONT, HEADERS, PATH, PING, frame


class Kept(asyncio.Protocol):
    """Keeps what comes."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)


class Wire(asyncio.Transport):
    """Takes what is written, and goes nowhere."""

    def __init__(self, information: dict[str, object] | None = None) -> None:
        super().__init__(information)
        self.is_closed = False
        self.written = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


def request(**headers: str) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**HEADERS, **headers}.items())
    return f"GET {PATH} HTTP/1.1\r\n{lines}\r\n".encode()


def opened() -> tuple[WebSocketConnection, Kept]:
    kept = Kept()
    connection = WebSocketConnection(lambda: kept)
    connection.connection_made(Wire())
    connection.data_received(request())
    return connection, kept


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(ends)]


@pytest.mark.parametrize(
    ("origin", "information", "is_welcome"),
    [
        ("https://bus.example", {"sockname": ("127.0.0.1", 1), "sslcontext": object()}, True),
        ("https://bus.example:443", {"sockname": ("10.0.0.1", 1)}, True),
        ("https://bus.example", {"sockname": ("127.0.0.1", 1)}, False),
        ("http://[", {"sockname": ("10.0.0.1", 1)}, False),
        ("https://other.example", {"sockname": ("10.0.0.1", 1), "sslcontext": object()}, False),
    ],
)
def test_pages_of_the_broker_s_own_host_may_connect_where_its_name_is_sure(
    origin: str, information: dict[str, object], is_welcome: bool
) -> None:
    wire = Wire(information)
    connection = WebSocketConnection(Kept)
    connection.connection_made(wire)

    connection.data_received(request(Host="bus.example:5443", Origin=origin))

    assert wire.written.startswith(b"HTTP/1.1 101" if is_welcome else b"HTTP/1.1 403")


PLACES = st.lists(st.integers(min_value=0, max_value=2**20), max_size=12)


@given(
    stream=st.binary(min_size=1, max_size=2000),
    messages=PLACES,
    fragments=PLACES,
    reads=PLACES,
    has_pings=st.booleans(),
)
def test_any_cut_of_a_stream_gives_the_stream(
    stream: bytes,
    messages: list[int],
    fragments: list[int],
    reads: list[int],
    has_pings: bool,
) -> None:
    sent = bytearray()
    for message in cut(stream, messages):
        parts = cut(message, fragments)
        for number, part in enumerate(parts):
            opcode = CONT if number else BINARY
            sent += frame(opcode, part, is_last=number == len(parts) - 1)
            sent += frame(PING, b"between") if has_pings else b""
    connection, kept = opened()

    for read in cut(bytes(sent), reads):
        connection.data_received(read)

    assert b"".join(kept.pieces) == stream


def test_what_comes_in_one_read_goes_on_in_one_piece() -> None:
    connection, kept = opened()

    connection.data_received(b"".join(frame(BINARY, b"%d" % number) for number in range(5)))

    assert kept.pieces == [b"01234"]
