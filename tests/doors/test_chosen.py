"""Which doors are open, for every kind of setting."""

from pathlib import Path

import pytest

from bendybus.doors.chosen import ChosenDoors, chosen_doors, running_ports
from bendybus.doors.door import Door
from bendybus.doors.local_authority import AuthorityFolder
from bendybus.model.errors import CertificateRefused
from bendybus.model.namespace import Namespace
from bendybus.settings import NO_DOOR, Choices, Plain, RunningPorts, settle

EVERYWHERE = "0.0.0.0"  # noqa: S104 - the address is the subject
LOOPBACK = "127.0.0.1"


def chosen(files: AuthorityFolder | None, host: str, plain: Plain) -> ChosenDoors:
    choices = Choices(
        host=host,
        plain=plain,
        key="a-key-of-my-own-that-is-long",
        tls_cert=None if files is None else files.server,
        tls_key=None if files is None else files.server_key,
    )
    return chosen_doors(settle([choices], Namespace()))


def every(doors: ChosenDoors) -> tuple[Door, ...]:
    return (*doors.amqp, *doors.http, *doors.flight)


def shown(doors: ChosenDoors) -> dict[str, tuple[str, int]]:
    return {door.name: (door.host, door.port) for door in every(doors)}


def test_without_a_certificate_there_are_the_plain_doors() -> None:
    doors = chosen(None, "::1", Plain.LOOPBACK)
    assert shown(doors) == {
        "amqp": ("::1", 5672),
        "http": ("::1", 5300),
        "flight": ("::1", 5301),
    }
    assert doors.tls is None


@pytest.mark.parametrize(
    ("host", "plain", "plain_host"),
    [
        (LOOPBACK, Plain.LOOPBACK, LOOPBACK),
        (EVERYWHERE, Plain.LOOPBACK, LOOPBACK),
        (EVERYWHERE, Plain.ANYWHERE, EVERYWHERE),
        (EVERYWHERE, Plain.NEVER, None),
    ],
)
def test_with_a_certificate_there_are_encrypted_ones_beside_them(
    files: AuthorityFolder, host: str, plain: Plain, plain_host: str | None
) -> None:
    doors = chosen(files, host, plain)
    encrypted = {"amqps": (host, 5671), "https": (host, 5443), "flight-tls": (host, 5302)}
    beside = {}
    if plain_host is not None:
        usual = {"amqp": 5672, "http": 5300, "flight": 5301}
        beside = {name: (plain_host, port) for name, port in usual.items()}
    assert shown(doors) == {**beside, **encrypted}
    for door in every(doors):
        assert (door.tls is not None) is door.name.endswith("s")


def test_each_door_is_named_by_its_option(files: AuthorityFolder) -> None:
    doors = chosen(files, LOOPBACK, Plain.LOOPBACK)
    assert [door.option for door in every(doors)] == [
        *("--amqp-port", "--amqps-port", "--http-port", "--https-port"),
        *("--flight-port", "--flight-tls-port"),
    ]


def test_without_a_bulk_door_there_is_none_with_tls_either(files: AuthorityFolder) -> None:
    choices = Choices(tls_cert=files.server, tls_key=files.server_key, flight_port=NO_DOOR)
    assert chosen_doors(settle([choices], Namespace())).flight == ()


def test_a_certificate_that_cannot_be_served_opens_nothing(
    files: AuthorityFolder, tmp_path: Path
) -> None:
    files.server.unlink()
    with pytest.raises(CertificateRefused, match=str(tmp_path)):
        chosen(files, LOOPBACK, Plain.LOOPBACK)


def test_the_ports_of_open_doors_are_told_by_their_names() -> None:
    ports = running_ports({"amqps": 1, "https": 2, "flight-tls": 3})
    assert ports == RunningPorts(amqps_port=1, https_port=2, flight_tls_port=3)
