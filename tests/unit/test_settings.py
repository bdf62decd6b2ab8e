"""Settings: which source wins, and what is safe to start with."""

from dataclasses import replace
from pathlib import Path

import pytest

from bendybus.model.access import Right
from bendybus.model.errors import EncryptionRequired, KeyRequired, SettingInvalid
from bendybus.model.namespace import Namespace
from bendybus.settings import (
    DEVELOPMENT_KEY,
    Choices,
    Plain,
    choices_from_environment,
    is_loopback,
    places_from,
    settle,
)

EVERYWHERE = "0.0.0.0"  # noqa: S104 - the address is the subject
OWN_KEY = "a-key-of-my-own-that-is-long"


def test_without_any_choice_the_defaults_are_the_emulators() -> None:
    settings = settle([], Namespace())
    assert (settings.host, settings.amqp_port, settings.http_port) == ("127.0.0.1", 5672, 5300)
    assert (settings.stores, settings.data) == (16, Path("bendybus-data"))
    [rule] = settings.access_rules
    assert (rule.name, rule.keys) == ("RootManageSharedAccessKey", ("SAS_KEY_VALUE",))
    assert rule.rights == set(Right)


def test_the_stronger_source_wins_setting_by_setting() -> None:
    settings = settle(
        [
            Choices(amqp_port=1),
            Choices(amqp_port=2, http_port=20, stores=2),
            Choices(amqp_port=3, http_port=30, stores=3, host="localhost"),
        ],
        Namespace(),
    )
    assert (settings.amqp_port, settings.http_port) == (1, 20)
    assert (settings.stores, settings.host) == (2, "localhost")


def test_zero_is_a_choice_of_port_and_not_the_absence_of_one() -> None:
    assert settle([Choices(amqp_port=0), Choices(amqp_port=5)], Namespace()).amqp_port == 0


def test_every_variable_of_the_environment_is_read() -> None:
    choices = choices_from_environment(
        {
            "BENDYBUS_DATA": "folder",
            "BENDYBUS_STORES": "4",
            "BENDYBUS_HOST": "::1",
            "BENDYBUS_AMQP_PORT": "1",
            "BENDYBUS_HTTP_PORT": "2",
            "BENDYBUS_PLAIN": "never",
            "BENDYBUS_TLS_CERT": "cert.pem",
            "BENDYBUS_TLS_KEY": "key.pem",
            "BENDYBUS_AMQPS_PORT": "3",
            "BENDYBUS_HTTPS_PORT": "443",
            "BENDYBUS_FLIGHT_PORT": "4",
            "BENDYBUS_FLIGHT_TLS_PORT": "5",
            "BENDYBUS_KEY": OWN_KEY,
            "BENDYBUS_KEY_FILE": "file",
            "BENDYBUS_TRANSACTION_MESSAGES": "50",
            "BENDYBUS_TRANSACTION_SECONDS": "60",
            "BENDYBUS_WORKERS": "3",
            "PATH": "ignored",
        }
    )
    assert choices == Choices(
        data=Path("folder"),
        stores=4,
        host="::1",
        plain=Plain.NEVER,
        amqp_port=1,
        http_port=2,
        tls_cert=Path("cert.pem"),
        tls_key=Path("key.pem"),
        amqps_port=3,
        https_port=443,
        flight_port=4,
        flight_tls_port=5,
        key=OWN_KEY,
        key_file=Path("file"),
        transaction_messages=50,
        transaction_seconds=60,
        workers=3,
    )


def test_an_empty_variable_is_no_choice() -> None:
    assert choices_from_environment({"BENDYBUS_HOST": "", "BENDYBUS_STORES": ""}) == Choices()


@pytest.mark.parametrize("text", ["none", "None"])
def test_there_need_not_be_a_bulk_door(text: str) -> None:
    choices = choices_from_environment({"BENDYBUS_FLIGHT_PORT": text})
    assert not settle([choices], Namespace()).has_flight
    assert settle([], Namespace()).has_flight


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "off"])
def test_a_port_that_is_neither_one_nor_none_is_named(text: str) -> None:
    with pytest.raises(SettingInvalid, match="BENDYBUS_FLIGHT_PORT must be a port or none"):
        choices_from_environment({"BENDYBUS_FLIGHT_PORT": text})


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "٣", " 5"])
def test_a_variable_that_is_no_number_is_named(text: str) -> None:
    with pytest.raises(SettingInvalid, match="BENDYBUS_STORES must be a whole number"):
        choices_from_environment({"BENDYBUS_STORES": text})


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (Choices(stores=0), "number of stores must be between 1 and 256"),
        (Choices(stores=257), "number of stores"),
        (Choices(amqp_port=65536), "AMQP port must be between 0 and 65535"),
        (Choices(http_port=-1), "HTTP port"),
        (Choices(amqp_port=7, http_port=7), "AMQP and HTTP cannot share port 7"),
        (Choices(amqps_port=65536), "AMQPS port must be between 0 and 65535"),
        (Choices(https_port=-1), "HTTPS port"),
        (Choices(flight_port=65536), "Flight port must be between 0 and 65535"),
        (Choices(flight_tls_port=-1), "Flight port with TLS"),
        (Choices(flight_port=5672), "AMQP and Flight cannot share port 5672"),
        (Choices(tls_cert=Path("c"), tls_key=Path("k"), https_port=5672), "AMQP and HTTPS cannot"),
        (Choices(tls_cert=Path("c")), "--tls-key is missing"),
        (Choices(tls_key=Path("k")), "--tls-cert is missing"),
        (Choices(transaction_messages=0), "messages in a transaction must be between 1 and 1000"),
        (Choices(transaction_seconds=3601), "a transaction may last must be between 1 and 3600"),
        (Choices(key="short"), "BENDYBUS_KEY must have at least 16"),
        (Choices(key="with;semicolon-and-long"), "must not contain"),
        (Choices(key="with space and long enough"), "must not contain"),
        (Choices(key=OWN_KEY, key_file=Path("x")), "both given"),
        (Choices(key_file=Path("no/such/file")), "cannot read the key file no/such/file"),
    ],
)
def test_a_value_out_of_bounds_is_named(choices: Choices, message: str) -> None:
    with pytest.raises(SettingInvalid, match=message):
        settle([choices], Namespace())


def test_two_free_ports_may_both_be_asked_for() -> None:
    assert settle([Choices(amqp_port=0, http_port=0)], Namespace()).http_port == 0


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.168.1.5", "broker.example.org"])
def test_the_development_key_does_not_leave_the_machine(host: str) -> None:
    with pytest.raises(KeyRequired, match="BENDYBUS_KEY or by --key-file"):
        settle([Choices(host=host)], Namespace())
    with pytest.raises(KeyRequired):
        settle([Choices(host=host, key=DEVELOPMENT_KEY)], Namespace())
    own = Choices(host=host, key=OWN_KEY, plain=Plain.ANYWHERE)
    assert settle([own], Namespace()).host == host


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.168.1.5", "broker.example.org"])
def test_beyond_this_machine_nothing_is_plain_unless_it_was_asked_for_by_name(host: str) -> None:
    own = Choices(host=host, key=OWN_KEY)
    with pytest.raises(EncryptionRequired, match="--plain anywhere"):
        settle([own], Namespace())
    assert settle([replace(own, plain=Plain.ANYWHERE)], Namespace()).plain_host == host
    encrypted = settle([replace(own, tls_cert=Path("c"), tls_key=Path("k"))], Namespace())
    assert (encrypted.host, encrypted.plain_host) == (host, "127.0.0.1")


def test_without_plain_listeners_a_certificate_is_needed() -> None:
    with pytest.raises(EncryptionRequired, match="bendybus cert"):
        settle([Choices(plain=Plain.NEVER)], Namespace())
    choices = Choices(plain=Plain.NEVER, tls_cert=Path("c"), tls_key=Path("k"))
    assert settle([choices], Namespace()).plain_host is None


def test_a_word_for_plain_listeners_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SettingInvalid, match="BENDYBUS_PLAIN must be loopback, anywhere, never"):
        choices_from_environment({"BENDYBUS_PLAIN": "yes"})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST"])
def test_this_machine_is_known_by_its_addresses(host: str) -> None:
    assert is_loopback(host)
    assert settle([Choices(host=host)], Namespace()).is_loopback


def test_a_key_file_gives_the_key_without_its_last_line_break(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{OWN_KEY}\n")
    settings = settle([Choices(key_file=file)], Namespace())
    assert settings.access_rules[0].primary_key == OWN_KEY
    assert OWN_KEY not in repr(settings)


def test_a_key_file_of_the_stronger_source_beats_a_key_of_the_weaker(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(OWN_KEY)
    settings = settle([Choices(key_file=file), Choices(key="another-key-of-16")], Namespace())
    assert settings.access_rules[0].primary_key == OWN_KEY


@pytest.mark.parametrize(
    ("content", "message"), [(b"\xff" * 20, "is not text"), (b"x" * 5000, "too large")]
)
def test_a_key_file_that_holds_no_key_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(SettingInvalid, match=message):
        settle([Choices(key_file=file)], Namespace())


PLACES = places_from(["postgresql://db/a", "postgresql://db/b"], "--store")


def test_stores_may_be_databases() -> None:
    settings = settle([Choices(places=PLACES)], Namespace())
    assert (settings.places, settings.store_count) == (PLACES, 2)
    assert settle([], Namespace()).store_count == 16


def test_the_variable_of_the_stores_is_a_number_or_urls() -> None:
    choices = choices_from_environment({"BENDYBUS_STORES": "postgresql://db/a postgres://db/b"})
    assert (choices.places, choices.stores) == (PLACES, None)


def test_databases_and_a_number_of_embedded_stores_are_one_choice() -> None:
    number = Choices(stores=4)
    databases = Choices(places=PLACES)
    assert settle([number, databases], Namespace()).places == ()
    assert settle([databases, number], Namespace()).store_count == 2
    with pytest.raises(SettingInvalid, match="both given"):
        settle([Choices(stores=4, places=PLACES)], Namespace())


def test_a_database_that_is_listed_twice_is_named() -> None:
    twice = places_from(["postgresql://a:secret@db/x", "postgresql://b@db:5432/x"], "--store")
    with pytest.raises(SettingInvalid, match="stores 0 and 1 are the same database") as refused:
        settle([Choices(places=twice)], Namespace())
    assert "secret" not in str(refused.value)


def test_a_wrong_url_is_named_by_its_place_in_the_list() -> None:
    with pytest.raises(SettingInvalid, match="--store 2 names no database"):
        places_from(["postgresql://db/a", "postgresql://db"], "--store")


@pytest.mark.parametrize("workers", [0, 65])
def test_the_number_of_workers_has_bounds(workers: int) -> None:
    with pytest.raises(SettingInvalid, match="number of workers must be between 1 and 64"):
        settle([Choices(workers=workers)], Namespace())
