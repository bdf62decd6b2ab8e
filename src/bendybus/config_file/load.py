"""From a path to a checked configuration."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bendybus.config_file.file_text import parse_file
from bendybus.config_file.namespace import read_namespaces, root_section
from bendybus.config_file.section import Value
from bendybus.model.errors import SettingInvalid
from bendybus.model.namespace import Namespace
from bendybus.model.store_place import StorePlace, read_place
from bendybus.settings import NO_DOOR, Choices, Plain

BROKER_KEYS: Final = (
    "DataFolder",
    "Stores",
    "Workers",
    "Host",
    "Plain",
    "AmqpPort",
    "HttpPort",
    "TlsCert",
    "TlsKey",
    "AmqpsPort",
    "HttpsPort",
    "FlightPort",
    "FlightTlsPort",
    "KeyFile",
    "TransactionMessages",
    "TransactionSeconds",
    "RequestsPerSecond",
    "ConnectionRequestsPerSecond",
)


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration file, read and checked."""

    namespace: Namespace
    choices: Choices
    # Beside the default one.
    others: tuple[Namespace, ...] = ()


def load_config(path: Path) -> Config:
    """Read a file. Raises `ConfigInvalid`, naming the place and what would be right."""
    section = root_section(parse_file(path))
    namespace, *others = read_namespaces(section.get("UserConfig"), path.parent)
    choices = _read_broker(section.get("Broker"), path.parent)
    return Config(namespace, choices, tuple(others))


def _read_broker(value: Value | None, folder: Path) -> Choices:
    """Read the settings of the broker; relative paths count from the folder of the file."""
    if value is None:
        return Choices()
    section = value.section(BROKER_KEYS)

    def text(key: str) -> str | None:
        found = section.get(key)
        return None if found is None else found.text_or_none()

    def number(key: str) -> int | None:
        found = section.get(key)
        return None if found is None else found.number()

    def port_or_none(key: str) -> int | None:
        found = section.get(key)
        if found is None:
            return None
        return NO_DOOR if found.is_word("none") else found.number()

    def path(key: str) -> Path | None:
        found = text(key)
        return None if found is None else folder / found

    def plain(key: str) -> Plain | None:
        found = section.get(key)
        if found is None:
            return None
        if (word := found.text()) not in set(Plain):
            raise found.refuse(f"must be {', '.join(Plain)}; not {word!r}")
        return Plain(word)

    stores = section.get("Stores")
    return Choices(
        data=path("DataFolder"),
        stores=None if stores is None or stores.is_list else stores.number(),
        places=None if stores is None or not stores.is_list else _places(stores),
        workers=number("Workers"),
        host=text("Host"),
        plain=plain("Plain"),
        amqp_port=number("AmqpPort"),
        http_port=number("HttpPort"),
        tls_cert=path("TlsCert"),
        tls_key=path("TlsKey"),
        amqps_port=number("AmqpsPort"),
        https_port=number("HttpsPort"),
        flight_port=port_or_none("FlightPort"),
        flight_tls_port=number("FlightTlsPort"),
        key_file=path("KeyFile"),
        transaction_messages=number("TransactionMessages"),
        transaction_seconds=number("TransactionSeconds"),
        requests_per_second=number("RequestsPerSecond"),
        connection_requests_per_second=number("ConnectionRequestsPerSecond"),
    )


def _places(value: Value) -> tuple[StorePlace, ...]:
    """Read the URLs of stores; a refusal points to the wrong one, and does not repeat it."""
    places = []
    for item in value.items():
        try:
            places.append(read_place(item.text(), "it"))
        except SettingInvalid as error:
            raise item.refuse(str(error)) from None
    if not places:
        raise value.refuse("must name at least one store")
    return tuple(places)
