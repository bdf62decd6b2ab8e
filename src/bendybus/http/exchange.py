"""One request and its answer, as the server hands them to what answers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from bendybus.http.request_head import RequestHead, RequestRefused


class Answer(NamedTuple):
    """What a client is told. Length, Date, Server and Connection are the server's to add."""

    status: int
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""


class Client(Protocol):
    """Who sent a request, as far as answers depend on it."""

    @property
    def address(self) -> str:
        """Where the client is: an IP address."""
        ...

    @property
    def port(self) -> int:
        """The port at the client's end, which tells its connections apart."""
        ...

    @property
    def is_secure(self) -> bool:
        """Whether it came through TLS."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether it has hung up."""
        ...

    def hang_up(self) -> "asyncio.Future[None]":
        """Return a future that ends when the client has hung up."""
        ...


class Request(NamedTuple):
    """A whole request."""

    head: RequestHead
    body: bytes
    client: Client


class Admission(NamedTuple):
    """How a request goes on: how large its body may be, and who answers when it is there."""

    body_bytes_max: int
    answer: Callable[[Request], Awaitable[Answer]]


class Desk(Protocol):
    """What a server leads to."""

    def admit(self, head: RequestHead) -> Admission:
        """Say who answers a request, by its head alone. Who may ask is for the answer to judge."""
        ...

    def refuse(self, refusal: RequestRefused) -> Answer:
        """Put into words what is no request, too much, or too slow."""
        ...

    def fail(self, head: RequestHead, error: BaseException) -> Answer:
        """Answer a refusal, or what nobody foresaw, which is logged."""
        ...

    def upgrade(self, head: RequestHead, client: Client) -> asyncio.Protocol | None:
        """Return what speaks another protocol on this connection from here on, if one is asked for.

        It gets the connection as if it were new, the head that asked for it included.
        """
        ...
