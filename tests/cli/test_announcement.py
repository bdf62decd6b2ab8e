"""What is said at the start, for every kind of setting."""

import socket
from pathlib import Path

import pytest

from bendybus.cli.announcement import announcement, connection_string, python_example
from bendybus.model.connection_string import parse_connection_string
from bendybus.model.entity import Queue, Topic
from bendybus.model.namespace import Namespace
from bendybus.model.tier import PremiumPartitioning, Tier, TierName
from bendybus.settings import NO_DOOR, Choices, Plain, RunningPorts, Settings, settle

OWN_KEY = "a-key-of-my-own-that-is-long"
USUAL = RunningPorts(amqp_port=5672, http_port=5300)
EVERYWHERE = "0.0.0.0"  # noqa: S104 - the address is the subject


def settings_for(host: str = "127.0.0.1", namespace: Namespace | None = None) -> Settings:
    return settle([Choices(host=host, key=OWN_KEY, plain=Plain.ANYWHERE)], namespace or Namespace())


def test_by_default_it_is_the_emulators_connection_string() -> None:
    assert connection_string(settle([], Namespace()), USUAL) == (
        "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    )


@pytest.mark.parametrize(
    ("host", "reachable"),
    [
        ("127.0.0.1", "localhost"),
        ("::1", "localhost"),
        ("192.168.1.5", "192.168.1.5"),
        ("fd00::5", "fd00::5"),
        (EVERYWHERE, socket.gethostname().lower()),
        ("::", socket.gethostname().lower()),
    ],
)
def test_the_connection_string_names_a_host_that_clients_can_call(
    host: str, reachable: str
) -> None:
    parsed = parse_connection_string(connection_string(settings_for(host), USUAL))
    assert (parsed.host, parsed.port) == (reachable, None)


def test_a_port_that_is_not_the_usual_one_is_part_of_the_endpoint() -> None:
    text = connection_string(settings_for(), RunningPorts(amqp_port=5673, http_port=5300))
    assert parse_connection_string(text).port == 5673


def test_a_key_of_ones_own_stays_out_of_all_that_is_printed() -> None:
    text = announcement(settings_for(), USUAL)
    assert OWN_KEY not in text
    assert text.count("<your key>") == 2


def test_topics_are_listed_with_their_subscriptions() -> None:
    namespace = Namespace("ns", (Queue("orders"),), (Topic("events-of-today"),))
    text = announcement(settings_for(namespace=namespace), USUAL)
    assert "  orders           queue, conventional, 1 GB\n" in text
    assert "  events-of-today  topic, 0 subscriptions, conventional, 1 GB\n" in text


def encrypted_settings(host: str) -> Settings:
    cert, key = Path("c.pem"), Path("k.pem")
    choices = Choices(host=host, key=OWN_KEY, tls_cert=cert, tls_key=key)
    return settle([choices], Namespace())


def test_where_others_can_come_only_with_tls_the_connection_string_means_tls() -> None:
    usual = RunningPorts(amqp_port=5672, http_port=5300, amqps_port=5671, https_port=5443)
    text = connection_string(encrypted_settings("192.168.1.5"), usual)
    assert text.startswith("Endpoint=sb://192.168.1.5;SharedAccessKeyName=")
    assert "UseDevelopmentEmulator" not in text


def test_on_this_machine_the_connection_string_needs_no_trust_in_a_certificate() -> None:
    ports = RunningPorts(amqp_port=5672, http_port=5300, amqps_port=1, https_port=2)
    text = connection_string(encrypted_settings("127.0.0.1"), ports)
    assert text.startswith("Endpoint=sb://localhost;SharedAccessKeyName=")
    assert text.endswith("UseDevelopmentEmulator=true;")


def test_every_door_is_listed_and_the_plain_ones_are_marked() -> None:
    ports = RunningPorts(1, 2, 3, 4, flight_port=5, flight_tls_port=6)
    text = announcement(encrypted_settings("::"), ports)
    assert "  AMQP   127.0.0.1:1, not encrypted\n" in text
    assert "  HTTP   http://127.0.0.1:2/health, not encrypted\n" in text
    assert "  AMQPS  [::]:3\n" in text
    assert "  HTTPS  https://[::]:4/health, and AMQP over WebSocket\n" in text
    assert "  Flight grpc://127.0.0.1:5 for Spark, not encrypted\n" in text
    assert "  Flight grpc+tls://[::]:6 for Spark\n" in text


def test_a_bulk_door_that_lacks_its_packages_says_how_to_get_them() -> None:
    hint = "pip install 'bendybus[bulk]'"
    assert hint in announcement(settings_for(), USUAL)
    assert hint not in announcement(settings_for(), RunningPorts(1, 2, flight_port=3))
    without = settle([Choices(flight_port=NO_DOOR)], Namespace())
    assert hint not in announcement(without, USUAL)


def test_without_entities_it_says_how_to_get_some() -> None:
    text = announcement(settings_for(), USUAL)
    assert "--config FILE brings others" in text
    assert "<your queue>" in python_example(settings_for(), USUAL)[2]


def test_the_data_folder_is_shown_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = settle([Choices(data=Path("data"), stores=3)], Namespace())
    assert f"{tmp_path / 'data'} (3 messaging stores)" in announcement(settings, USUAL)


def test_every_namespace_is_announced_as_its_tier_makes_it() -> None:
    premium = Tier(TierName.PREMIUM, PremiumPartitioning.ALWAYS)
    second = Namespace("second", queues=(Queue("orders"),), tier=premium)
    settings = settle([], Namespace("first", queues=(Queue("orders"),)), [second, Namespace("c")])
    text = announcement(settings, USUAL)
    assert "Configured entities of namespace first:\n  orders  queue, conventional, 1 GB" in text
    assert (
        "Configured entities of namespace second:\n"
        "  orders  queue, partitioned over 2 fragments, 2 GB in all"
    ) in text
    assert "No entities configured for namespace c." in text
