"""The bulk door of a broker as it runs: its namespaces, its figures, its end and its return."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bendybus.client import Client, Message
from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_values import Place
from bendybus.client.errors import ConnectionLost, ServerBusy, Unauthorized
from bendybus.model.connection_string import ConnectionString
from bendybus.testing.broker_process import BrokerProcess, broker_process
from tests.flight.bulk_bus import rows_of

CONFIG = """
UserConfig:
  Namespaces:
  - Name: first
    Queues:
    - Name: orders
    - Name: parts
      Properties: {EnablePartitioning: true}
  - Name: second
    AuthorizationRules:
    - KeyName: RootManageSharedAccessKey
      PrimaryKey: the-key-of-the-second-one
      Rights: [Manage, Send, Listen]
    Queues: [{Name: orders}]
Broker:
  Stores: 4
"""
KEYS = {"first": "SAS_KEY_VALUE", "second": "the-key-of-the-second-one"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    config = tmp_path / "namespaces.yaml"
    config.write_text(CONFIG)
    with broker_process(config, folder=tmp_path, has_flight=True) as process:
        yield process


def bulk(
    broker: BrokerProcess, name: str = "first", key: str | None = None, patience: float = 20
) -> BulkClient:
    text = ConnectionString(
        host=f"{name}.example",
        rule_name="RootManageSharedAccessKey",
        key=key or KEYS[name],
        use_development_emulator=True,
    ).to_text()
    endpoint = f"grpc://127.0.0.1:{broker.flight_port}"
    return BulkClient(text, endpoint, patience_seconds=patience)


def fill(broker: BrokerProcess, entity: str, count: int, size: int = 10) -> None:
    with Client.from_connection_string(broker.connection_string()) as client:
        sender = client.sender(entity)
        for at in range(0, count, 100):
            sender.send([Message(b"%d" % n + b"." * size) for n in range(at, at + 100)])


def test_the_host_that_a_client_names_leads_to_its_namespace(broker: BrokerProcess) -> None:
    fill(broker, "orders", 100)
    assert len(rows_of(bulk(broker, "first").read(Place("orders")))) == 100
    assert rows_of(bulk(broker, "second").read(Place("orders"))) == []
    with pytest.raises(Unauthorized):
        bulk(broker, "second", KEYS["first"]).describe(Place("orders"))


def test_what_goes_through_is_told_with_the_other_figures(broker: BrokerProcess) -> None:
    fill(broker, "parts", 300)
    rows_of(bulk(broker).read(Place("parts")))
    text = httpx.get(f"{broker.management_url}/metrics", trust_env=False).text
    assert 'bendybus_bulk_rows_total{direction="out"} 300\n' in text
    assert 'bendybus_bulk_calls_total{outcome="refused"} 0\n' in text
    assert "bendybus_bulk_streams 0\n" in text


def test_a_reader_goes_on_by_itself_when_the_broker_was_killed_and_came_back(
    broker: BrokerProcess,
) -> None:
    fill(broker, "parts", 2000, size=20_000)
    reading = bulk(broker).read(Place("parts"), batch_rows=20)
    seen = next(reading).to_pylist()
    broker.kill()
    broker.start()
    seen += rows_of(reading)

    numbers = [row["sequence_number"] for row in seen]
    assert len(numbers) == len(set(numbers)) == 2000
    assert numbers == sorted(numbers)


def test_a_broker_that_is_told_to_stop_does_not_wait_for_slow_readers(
    broker: BrokerProcess,
) -> None:
    fill(broker, "orders", 2000, size=20_000)
    stuck = bulk(broker, patience=0).read(Place("orders"), batch_rows=20)
    next(stuck)
    assert broker.stop() == 0
    with pytest.raises((ConnectionLost, ServerBusy)):
        rows_of(stuck)
    assert "Traceback" not in broker.log


def test_a_client_says_where_nobody_answers(broker: BrokerProcess) -> None:
    broker.kill()
    with pytest.raises(ConnectionLost, match=rf"no broker answers at .*:{broker.flight_port}"):
        bulk(broker, patience=0).describe(Place("orders"))


def test_a_port_of_another_broker_is_not_shared_with_it(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    other = BrokerProcess(tmp_path / "other", tmp_path / "namespaces.yaml", has_flight=True)
    other.folder.mkdir()
    other.flight_port = broker.flight_port
    with pytest.raises(AssertionError, match=f"port {broker.flight_port} on 127.0.0.1 is used"):
        other.start()


def test_many_clients_at_once_get_what_they_asked_for(broker: BrokerProcess) -> None:
    fill(broker, "parts", 1000)
    found: list[int] = []

    def read() -> None:
        with bulk(broker) as client:
            found.append(len(rows_of(client.read(Place("parts")))))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1000] * 8
