"""The bulk door with TLS: the same certificate as the other doors, also when it is renewed."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bendybus.broker.clock import SystemClock
from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_calls import flight_endpoint
from bendybus.client.bulk_values import Place
from bendybus.client.errors import ClientError
from bendybus.doors.door import Door
from bendybus.doors.local_authority import AuthorityFolder, make_certificate
from bendybus.doors.tls import ServerTls
from bendybus.flight.door import open_bulk_door
from bendybus.model.connection_string import ConnectionString, parse_connection_string
from bendybus.model.entity import Queue
from bendybus.model.errors import ArgumentInvalid
from bendybus.testing.local_broker import ROOT_RULE, hosts_of, local_broker
from tests.flight.bulk_bus import aside

TEXT = ConnectionString(
    host="localhost", rule_name=ROOT_RULE.name, key=ROOT_RULE.primary_key
).to_text()


@pytest.fixture
def files(tmp_path: Path) -> AuthorityFolder:
    made = AuthorityFolder(tmp_path / "tls")
    make_certificate(made, ["localhost", "127.0.0.1"], days=30, now=datetime.now(UTC))
    return made


def shown_by(port: int, files: AuthorityFolder) -> str:
    """Return the certificate that the port shows."""
    return ssl.get_server_certificate(("localhost", port), ca_certs=str(files.authority))


@pytest.mark.spec("R9.1")
async def test_a_renewed_certificate_is_shown_on_the_same_port_and_clients_go_on(
    tmp_path: Path, files: AuthorityFolder
) -> None:
    clock = SystemClock()
    tls = ServerTls(files.server, files.server_key)
    async with local_broker(tmp_path, [Queue("orders")], clock, stores=1) as broker:
        broker.catalog.access.rules = (ROOT_RULE,)
        places = [Door("flight-tls", "127.0.0.1", 0, tls.served(("h2",)))]
        door = await open_bulk_door(places, hosts=hosts_of(broker), clock=clock, tls=tls)
        try:
            port = door.ports["flight-tls"]
            endpoint = f"grpc+tls://localhost:{port}"
            client = BulkClient(TEXT, endpoint, authority=files.authority, patience_seconds=10)
            assert (await aside(client.describe, Place("orders"))).entity == "orders"
            before = await aside(shown_by, port, files)
            await door.look()
            assert await aside(shown_by, port, files) == before

            make_certificate(files, ["localhost"], days=60, now=datetime.now(UTC))
            assert tls.look_again()
            await door.look()

            assert await aside(shown_by, port, files) != before
            assert (await aside(client.describe, Place("orders"))).entity == "orders"
            client.close()
        finally:
            await door.close()


async def test_who_does_not_trust_the_certificate_is_told(
    tmp_path: Path, files: AuthorityFolder
) -> None:
    clock = SystemClock()
    tls = ServerTls(files.server, files.server_key)
    stranger = AuthorityFolder(tmp_path / "stranger")
    make_certificate(stranger, ["localhost"], days=30, now=datetime.now(UTC))
    async with local_broker(tmp_path, [Queue("orders")], clock, stores=1) as broker:
        places = [Door("flight-tls", "127.0.0.1", 0, tls.served(("h2",)))]
        door = await open_bulk_door(places, hosts=hosts_of(broker), clock=clock, tls=tls)
        try:
            endpoint = f"grpc+tls://localhost:{door.ports['flight-tls']}"
            client = BulkClient(TEXT, endpoint, authority=stranger.authority, patience_seconds=0)
            with pytest.raises(ClientError, match="no broker answers"):
                await aside(client.describe, Place("orders"))
        finally:
            await door.close()


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("Endpoint=sb://a;SharedAccessSignature=x;", "grpc+tls://a:5302"),
        ("Endpoint=sb://a:7;SharedAccessSignature=x;", "grpc+tls://a:5302"),
        (
            "Endpoint=sb://[::1];SharedAccessSignature=x;UseDevelopmentEmulator=true",
            "grpc://[::1]:5301",
        ),
    ],
)
def test_a_connection_string_tells_where_the_door_is(text: str, endpoint: str) -> None:
    assert flight_endpoint(parse_connection_string(text)) == endpoint


@pytest.mark.parametrize("endpoint", ["localhost:5301", "http://localhost:5301", "grpc://", ""])
def test_an_endpoint_that_is_none_is_refused_with_an_example(endpoint: str) -> None:
    with pytest.raises(ArgumentInvalid, match="must be like grpc://localhost:5301"):
        BulkClient(TEXT, endpoint)
