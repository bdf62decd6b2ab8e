"""`bendybus namespace`: created, used by the official clients, kept over kills, deleted."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import ServiceBusAdministrationClient

from bendybus.model.connection_string import parse_connection_string
from bendybus.testing.broker_process import BrokerProcess, broker_process
from tests.cli.managing import Commands

CONFIG = """
UserConfig:
  Namespaces:
  - Name: ours
    Queues: [{Name: orders}]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("namespaces")
    config = folder / "namespace.yaml"
    config.write_text(CONFIG)
    with broker_process(config, folder=folder, options=("--stores", "2")) as process:
        yield process


@pytest.fixture
def commands(broker: BrokerProcess) -> Commands:
    return Commands(broker.amqp_port, broker.http_port)


@pytest.fixture
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know names under `localhost`, as a name server or a file of hosts would have it."""
    known = socket.getaddrinfo

    def look_up(host: Any, *rest: Any, **options: Any) -> Any:
        return known("localhost" if str(host).endswith(".localhost") else host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def administration(broker: BrokerProcess, connection: str) -> ServiceBusAdministrationClient:
    """Open the official client on plain HTTP, which it must be sent to."""
    client = ServiceBusAdministrationClient.from_connection_string(connection)
    host = parse_connection_string(connection).host
    client._impl._client._base_url = f"http://{host}:{broker.http_port}"
    return client


@pytest.mark.spec("R7.1")
@pytest.mark.usefixtures("_names")
def test_official_clients_use_a_created_namespace_that_outlives_a_kill(
    broker: BrokerProcess, commands: Commands
) -> None:
    made = commands.json("namespace", "create", "--name", "team-blue")
    connection = made["primaryConnectionString"]
    assert parse_connection_string(connection).host == "team-blue.localhost"
    with administration(broker, connection) as manager:
        manager.create_queue("parts", enable_partitioning=True)
        assert manager.get_namespace_properties().name == "team-blue"
        assert [each.name for each in manager.list_queues()] == ["parts"]
    with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_sender("parts") as sender,
    ):
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(20)])
    broker.kill()
    broker.start()
    with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_receiver("parts", max_wait_time=30) as receiver,
    ):
        bodies: list[int] = []
        while len(bodies) < 20:
            for message in receiver.receive_messages(max_message_count=20, max_wait_time=30):
                bodies.append(int(str(message)))
                receiver.complete_message(message)
    assert sorted(bodies) == list(range(20))
    listed = commands.json("namespace", "list")
    assert [(each["name"], each["isConfigured"]) for each in listed] == [
        ("ours", True),
        ("team-blue", False),
    ]

    refusal = commands.refusal("namespace", "delete", "--name", "team-blue")
    assert "which has 1 queues and 0 topics, say --yes" in refusal
    commands.text("namespace", "delete", "--name", "team-blue", "--yes")
    with administration(broker, connection) as manager, pytest.raises(ClientAuthenticationError):
        manager.get_queue("parts")
    assert [each["name"] for each in commands.json("namespace", "list")] == ["ours"]
    assert made["primaryKey"] not in broker.log


def test_the_commands_of_other_entities_reach_a_created_namespace(commands: Commands) -> None:
    text = commands.text("namespace", "create", "-n", "team-green", "--sku", "Premium")
    connection = text.rpartition("Connection string: ")[2].strip()
    assert connection.startswith("Endpoint=sb://team-green.localhost:")
    for arguments in (
        ("queue", "create", "--name", "parcels"),
        ("send", "parcels", "hello"),
        ("namespace", "exists", "--name", "team-green"),
    ):
        code, _, errors = commands.run(*arguments, connection=connection)
        assert code == 0, errors
    _, output, _ = commands.run("receive", "parcels", "--count", "1", connection=connection)
    assert "hello" in output
    shown = commands.json("namespace", "show", "--name", "team-green")
    assert (shown["sku"], shown["premiumPartitioning"], shown["queues"]) == ("Premium", "never", 1)
    assert [each["name"] for each in commands.json("queue", "list")] == ["orders"]
    commands.text("namespace", "delete", "-n", "team-green", "--yes")


def test_who_manages_the_default_one_finds_and_renews_the_keys_of_a_created_one(
    commands: Commands,
) -> None:
    made = commands.json("namespace", "create", "-n", "team-red")
    rule = ("--name", "RootManageSharedAccessKey", "--namespace-name", "team-red")
    keys = json.loads(commands.text("namespace", "authorization-rule", "keys", "list", *rule))
    assert keys["primaryKey"] == made["primaryKey"]
    renewal = ("keys", "renew", *rule, "--key", "PrimaryKey")
    renewed = json.loads(commands.text("namespace", "authorization-rule", *renewal))
    assert renewed["primaryKey"] != made["primaryKey"]
    own = made["primaryConnectionString"].replace(made["primaryKey"], renewed["primaryKey"])
    assert commands.run("queue", "list", connection=own)[0] == 0
    for other in (own, made["primaryConnectionString"]):
        code, _, _ = commands.run("namespace", "list", connection=other)
        assert code == 1, "only a key of the default one opens this"
    ours = ("--name", "RootManageSharedAccessKey", "--namespace-name", "ours")
    refusal = commands.refusal("namespace", "authorization-rule", "keys", "list", *ours)
    assert "in its configuration file" in refusal
    commands.text("namespace", "delete", "-n", "team-red", "--yes")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("create", "-n", "blue"), "'blue' is no name for a namespace: use 6 to 50 letters"),
        (("create", "-n", "team-x", "--premium-messaging-partitions", "2"), "Premium tier"),
        (
            ("create", "-n", "team-x", "--sku", "Premium", "--premium-messaging-partitions", "3"),
            "must be one of 1, 2, 4, not 3",
        ),
        (("delete", "-n", "nowhere"), "There is no namespace 'nowhere' here"),
        (("update", "-n", "ours", "--sku", "Basic"), "change it in its configuration file"),
        (("delete", "-n", "ours", "--yes"), "remove it in its configuration file"),
    ],
)
def test_a_refusal_says_what_to_do(
    commands: Commands, arguments: tuple[str, ...], text: str
) -> None:
    assert text in commands.refusal("namespace", *arguments)
