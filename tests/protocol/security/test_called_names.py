"""The name that a client calls in its TLS handshake, where it names no host in AMQP."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bendybus.amqp.performatives import Close
from bendybus.doors.local_authority import AuthorityFolder, make_certificate
from bendybus.doors.tls import ServerTls
from bendybus.model.access import AccessRule, Right
from bendybus.model.entity import Queue
from bendybus.server.listener import AmqpListener
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import listening, local_broker
from bendybus.testing.wire_client import WireClient

NAMES = ("first", "second")
HOSTS = ("localhost", "first.example", "second.example", "third.example")


@pytest.fixture
def files(tmp_path: Path) -> AuthorityFolder:
    made = AuthorityFolder(tmp_path / "tls")
    make_certificate(made, HOSTS, days=1, now=datetime.now(UTC))
    return made


@pytest.fixture
async def listener(tmp_path: Path, files: AuthorityFolder) -> AsyncIterator[AmqpListener]:
    """Two namespaces behind an encrypted door; each has a key and a queue of its own name."""
    clock = ManualClock()
    tls = ServerTls(files.server, files.server_key).served()
    async with (
        local_broker(tmp_path, [], clock, stores=2, names=NAMES) as broker,
        listening(broker, tls=tls) as encrypted,
    ):
        for catalog in broker.namespaces.catalogs:
            key = f"the-key-of-{catalog.namespace}"
            catalog.access.rules = (AccessRule("Root", key, frozenset({Right.MANAGE})),)
            await catalog.declare([Queue(f"of-{catalog.namespace}")], now=clock.now())
        yield encrypted


@asynccontextmanager
async def calling(
    files: AuthorityFolder, listener: AmqpListener, host: str
) -> AsyncIterator[WireClient]:
    context = ssl.create_default_context(cafile=str(files.authority))
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", listener.port, ssl=context, server_hostname=host
    )
    try:
        yield WireClient(reader, writer)
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    ("called", "login_host", "open_host", "namespace"),
    [
        ("second.example", None, None, "second"),
        ("first.example", None, None, "first"),
        ("localhost", None, None, "first"),
        ("first.example", "second.example", None, "second"),
        # A client that is told to go to another address calls that one, and names its own host.
        ("third.example", "second.example", "second.example", "second"),
    ],
)
async def test_the_called_name_counts_until_amqp_says_another(
    files: AuthorityFolder,
    listener: AmqpListener,
    called: str,
    login_host: str | None,
    open_host: str | None,
    namespace: str,
) -> None:
    async with calling(files, listener, called) as client:
        login = f"\0Root\0the-key-of-{namespace}".encode()
        await client.log_in("PLAIN", login, login_host=login_host, hostname=open_host)
        await client.begin()
        await client.sender(f"of-{namespace}")


async def test_the_key_of_another_namespace_than_the_called_one_is_refused(
    files: AuthorityFolder, listener: AmqpListener
) -> None:
    async with calling(files, listener, "second.example") as client:
        with pytest.raises(PermissionError):
            await client.log_in("PLAIN", b"\0Root\0the-key-of-first", login_host=None)


async def test_a_name_of_no_namespace_is_refused_and_not_guessed(
    files: AuthorityFolder, listener: AmqpListener
) -> None:
    async with calling(files, listener, "third.example") as client:
        await client.log_in(login_host=None)
        error = (await client.hear(Close)).body.error
        assert error is not None
        assert error.condition == "amqp:not-found"
