"""AMQP through TLS: the same conversation, the same bounds, the same end."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.performatives import Close
from bendybus.broker.receive import ACQUIRE_BYTES_MAX
from bendybus.doors.local_authority import AuthorityFolder, make_certificate
from bendybus.doors.tls import ServerTls, server_name
from bendybus.server.connection import UNPROVEN_SECONDS_MAX
from bendybus.server.listener import AmqpListener
from bendybus.server.outlet import UNSENT_BYTES_MAX
from bendybus.testing.local_broker import listening
from bendybus.testing.wire_client import WAIT_SECONDS, WireClient
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import ROOT_LOGIN, Served

# What one acquire and one turn may add before it is noticed that the client does not read.
SLACK_BYTES = ACQUIRE_BYTES_MAX + 1024 * 1024


@pytest.fixture
def files(tmp_path: Path) -> AuthorityFolder:
    made = AuthorityFolder(tmp_path / "tls")
    make_certificate(made, ["localhost"], days=1, now=datetime.now(UTC))
    return made


@pytest.fixture
async def listener(served: Served, files: AuthorityFolder) -> AsyncIterator[AmqpListener]:
    """An encrypted door of the broker."""
    tls = ServerTls(files.server, files.server_key)
    async with listening(served.broker, tls=tls.served()) as encrypted:
        yield encrypted


@asynccontextmanager
async def calling(files: AuthorityFolder, port: int) -> AsyncIterator[WireClient]:
    context = ssl.create_default_context(cafile=str(files.authority))
    reader, writer = await asyncio.open_connection("localhost", port, ssl=context, limit=1 << 16)
    try:
        yield WireClient(reader, writer)
    finally:
        writer.transport.abort()


@pytest.fixture
async def stranger(files: AuthorityFolder, listener: AmqpListener) -> AsyncIterator[WireClient]:
    """A client that has said nothing."""
    async with calling(files, listener.port) as client:
        yield client


@pytest.fixture
async def client(stranger: WireClient) -> WireClient:
    """A client that is known."""
    await stranger.log_in("PLAIN", ROOT_LOGIN)
    await stranger.begin()
    return stranger


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0)


async def test_a_large_message_goes_there_and_back(client: WireClient) -> None:
    body = bytes(range(256)) * 700
    assert await (await client.sender("orders")).sent(message(body), 0) == Accepted()
    receiver = await client.receiver("orders")
    receiver.flow(link_credit=1)

    assert see((await receiver.receive()).payload).body == body


async def test_the_name_that_the_client_called_is_known(
    listener: AmqpListener, client: WireClient
) -> None:
    await client.sender("orders")
    [connection] = listener.connections

    assert server_name(connection.outlet.transport) == "localhost"


async def test_a_broker_that_stops_says_so(listener: AmqpListener, client: WireClient) -> None:
    closing = asyncio.create_task(listener.close())
    error = (await client.hear(Close)).body.error
    client.say(Close())
    await client.until_closed()
    await closing

    assert error is not None
    assert error.condition == "amqp:connection:forced"


async def test_who_proves_nothing_is_not_kept(
    served: Served, listener: AmqpListener, stranger: WireClient
) -> None:
    await stranger.log_in()
    [connection] = listener.connections

    served.clock.advance(UNPROVEN_SECONDS_MAX * 1000 + 1)
    connection.tick(served.clock.now())

    error = (await stranger.hear(Close)).body.error
    assert error is not None
    assert error.condition == "amqp:unauthorized-access"


async def test_a_client_that_just_goes_leaves_nothing_behind(
    listener: AmqpListener, client: WireClient
) -> None:
    client.hang_up()

    await _until(lambda: not listener.connections)


async def test_a_client_that_never_reads_is_handed_no_more_than_a_bound(
    served: Served, listener: AmqpListener, client: WireClient
) -> None:
    [connection] = listener.connections
    sender = await (await served.client()).sender("orders")
    count = 120
    for number in range(count):
        assert await sender.sent(message(b"x" * 200_000), number) == Accepted()
    greedy = await client.receiver("orders")

    greedy.flow(link_credit=10_000)
    await _until(lambda: connection.outlet.is_blocked)

    assert connection.outlet.transport.get_write_buffer_size() <= UNSENT_BYTES_MAX + SLACK_BYTES
    other = await (await served.client()).receiver("orders")
    other.flow(link_credit=1)
    assert (await other.receive()).frame_count > 1
