"""What a broker needs to know to start, and what its options may say."""

import ipaddress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from bendybus.model.access import AccessRule
from bendybus.model.access_rules import ROOT_RULE_NAME
from bendybus.model.namespace import Namespace
from bendybus.model.store_place import StorePlace
from bendybus.model.transaction import TransactionLimits

DEFAULT_RULE_NAME: Final = ROOT_RULE_NAME
# The literal text that Microsoft's emulator takes for a key. Everyone knows it, so it opens the
# broker only to this machine.
DEVELOPMENT_KEY: Final = "SAS_KEY_VALUE"

LOOPBACK: Final = "127.0.0.1"
# In place of a port, where there is to be no door.
NO_DOOR: Final = -1
_TRANSACTIONS: Final = TransactionLimits()


class Plain(StrEnum):
    """Where the broker may be spoken to without encryption."""

    LOOPBACK = "loopback"
    ANYWHERE = "anywhere"
    NEVER = "never"


class MetricsReaders(StrEnum):
    """Who may read the figures of the broker."""

    ALL = "all"
    MANAGERS = "managers"


class LogFormat(StrEnum):
    """How the log is written."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """What is written: this and what is worse."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the certificate and its key are, in PEM form."""

    cert: Path
    key: Path


@dataclass(frozen=True, slots=True)
class ChosenNamespace:
    """A namespace, and the rules that open it, first the one that can do everything."""

    namespace: Namespace
    access_rules: tuple[AccessRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a broker needs to know to start. Port 0 takes any free port."""

    # The first is the default one.
    namespaces: tuple[ChosenNamespace, ...]
    data: Path = Path("bendybus-data")
    # How many embedded stores, in that folder; of no effect where servers keep them.
    stores: int = 16
    # Where servers keep the stores, if they do; by number.
    places: tuple[StorePlace, ...] = ()
    # How many front ends on this machine share the doors.
    workers: int = 1
    host: str = LOOPBACK
    plain: Plain = Plain.LOOPBACK
    amqp_port: int = 5672
    http_port: int = 5300
    tls: TlsFiles | None = None
    amqps_port: int = 5671
    https_port: int = 5443
    # Arrow Flight; `NO_DOOR` for none, also none with TLS.
    flight_port: int = 5301
    flight_tls_port: int = 5302
    transaction_messages: int = _TRANSACTIONS.messages_max
    transaction_seconds: int = _TRANSACTIONS.seconds_max
    # None lets any number through.
    requests_per_second: int | None = None
    connection_requests_per_second: int | None = None
    # None: everybody, as long as only this machine can reach the broker.
    metrics: MetricsReaders | None = None
    log_format: LogFormat = LogFormat.TEXT
    log_level: LogLevel = LogLevel.WARNING

    @property
    def namespace(self) -> Namespace:
        """The default namespace."""
        return self.namespaces[0].namespace

    @property
    def access_rules(self) -> tuple[AccessRule, ...]:
        """The rules of the default namespace."""
        return self.namespaces[0].access_rules

    def with_ports(self, ports: "RunningPorts") -> "Settings":
        """Return the settings with the ports that were taken, where 0 was asked for."""
        taken: dict[str, Any] = {
            name: port for name, port in asdict(ports).items() if port is not None
        }
        return replace(self, **taken)

    @property
    def store_count(self) -> int:
        """How many stores there are, wherever they are kept."""
        return len(self.places) or self.stores

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the broker."""
        return is_loopback(self.host)

    @property
    def has_flight(self) -> bool:
        """Whether messages can be read and written in bulk, if the parts for that are there."""
        return self.flight_port != NO_DOOR

    @property
    def is_metrics_open(self) -> bool:
        """Whether the figures are shown without a token."""
        if self.metrics is None:
            return self.is_loopback
        return self.metrics is MetricsReaders.ALL

    @property
    def plain_host(self) -> str | None:
        """Where AMQP and HTTP are served without encryption, if anywhere.

        Beyond this machine only when that was asked for by name; else this machine's own
        programs still have them.
        """
        if self.plain is Plain.NEVER:
            return None
        return self.host if self.is_loopback or self.plain is Plain.ANYWHERE else LOOPBACK

    @property
    def has_development_key(self) -> bool:
        """Whether the well-known key opens a namespace."""
        return any(
            DEVELOPMENT_KEY in rule.keys
            for chosen in self.namespaces
            for rule in chosen.access_rules
        )


@dataclass(frozen=True, slots=True)
class RunningPorts:
    """The ports a started broker listens on; real ones, also where 0 was asked for.

    None where the broker has no such door.
    """

    amqp_port: int | None = None
    http_port: int | None = None
    amqps_port: int | None = None
    https_port: int | None = None
    flight_port: int | None = None
    flight_tls_port: int | None = None


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only. An unknown name counts as not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
