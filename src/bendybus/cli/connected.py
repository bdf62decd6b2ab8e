"""A client for the time of a command."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bendybus.cli.failure import CommandFailed
from bendybus.client import Client
from bendybus.client.endpoint import Endpoint, endpoint_of
from bendybus.client.errors import ClientError, NotTrusted, Unauthorized
from bendybus.model.connection_string import parse_connection_string
from bendybus.model.errors import ArgumentInvalid

CONNECT_SECONDS: Final = 5.0
TRUST: Final = "name the certificate of its authority with --authority"
_SESSION: Final = "; name a session with --session"
# By the words of the service, which has one condition for many things that are not allowed.
_ADVICE: Final = {
    "requires sessions to create a non-sessionful": f"{_SESSION}, or the next with --session ''",
    "SessionId was not set": _SESSION,
}


@contextmanager
def connected(connection_string: str, authority: Path | None = None) -> Iterator[Client]:
    """Open a client whose refusals end the command in one line.

    The client would try for long to reach a broker that may come back. Whoever typed a command
    rather hears at once that nobody is there.
    """
    tls = None if authority is None else trusting(authority)
    with connection_string_explained():
        endpoint = endpoint_of(parse_connection_string(connection_string), tls)
    _check_reached(endpoint)
    try:
        with Client.from_connection_string(connection_string, tls=tls) as client:
            yield client
    except ArgumentInvalid as error:
        raise CommandFailed(error.message) from None
    except ClientError as error:
        raise CommandFailed(f"{error}{_advice(error)}") from None


@contextmanager
def connection_string_explained() -> Iterator[None]:
    """Say of a connection string that is none where one is found."""
    try:
        yield
    except ArgumentInvalid as error:
        raise CommandFailed(f"{error.message}; the broker prints it when it starts") from None


def _advice(error: ClientError) -> str:
    """Say what to do about a refusal, where that is an option of the command."""
    if isinstance(error, Unauthorized):
        return "; give the connection string of a rule that may do this with --connection-string"
    if isinstance(error, NotTrusted):
        return f" {TRUST[0].upper()}{TRUST[1:]}"
    return next((text for words, text in _ADVICE.items() if words in str(error)), "")


def trusting(authority: Path) -> ssl.SSLContext:
    """Return what trusts the certificates of an authority."""
    try:
        return ssl.create_default_context(cafile=str(authority))
    except ssl.SSLError:
        raise CommandFailed(f"{authority} holds no certificate in PEM form") from None
    except OSError as error:
        raise CommandFailed(f"cannot read {authority}: {error.strerror}") from None


def _check_reached(endpoint: Endpoint) -> None:
    try:
        socket.create_connection((endpoint.address, endpoint.port), CONNECT_SECONDS).close()
    except OSError as error:
        raise CommandFailed(
            f"nobody answers AMQP at {endpoint} ({error.strerror or error}); start a broker with"
            " `bendybus serve`, or mend the host and port in --connection-string"
        ) from None
