"""Every option of the broker, settled once before it starts.

A value comes from the first of these that gives one: the command line, the environment
(`BENDYBUS_…`), the configuration file, the default below. Each source is read into `Choices`,
and `settle` folds them into `Settings`, which nothing changes afterwards.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from bendybus.model.access import AccessRule, Right
from bendybus.model.access_rules import KEY_LENGTH_MIN, RULES_MAX
from bendybus.model.errors import EncryptionRequired, KeyRequired, SettingInvalid
from bendybus.model.namespace import Namespace
from bendybus.model.transaction import TransactionLimits

DEFAULT_RULE_NAME: Final = "RootManageSharedAccessKey"
# The literal text that Microsoft's emulator takes for a key. Everyone knows it, so it opens the
# broker only to this machine.
DEVELOPMENT_KEY: Final = "SAS_KEY_VALUE"

STORES_MAX: Final = 256
PORT_MAX: Final = 65_535
TRANSACTION_MESSAGES_MAX: Final = 1000
TRANSACTION_SECONDS_MAX: Final = 3600
REQUESTS_PER_SECOND_MAX: Final = 10_000_000
KEY_FILE_BYTES_MAX: Final = 4096
LOOPBACK: Final = "127.0.0.1"
# In place of a port, where there is to be no door.
NO_DOOR: Final = -1
_NO_DOOR_WORD: Final = "none"
_Word = TypeVar("_Word", bound=StrEnum)
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
    stores: int = 16
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What one source says about the settings; None where it says nothing."""

    data: Path | None = None
    stores: int | None = None
    host: str | None = None
    plain: Plain | None = None
    amqp_port: int | None = None
    http_port: int | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    amqps_port: int | None = None
    https_port: int | None = None
    flight_port: int | None = None
    flight_tls_port: int | None = None
    key: str | None = field(default=None, repr=False)
    key_file: Path | None = None
    transaction_messages: int | None = None
    transaction_seconds: int | None = None
    requests_per_second: int | None = None
    connection_requests_per_second: int | None = None
    metrics: MetricsReaders | None = None
    log_format: LogFormat | None = None
    log_level: LogLevel | None = None


def choices_from_environment(environment: Mapping[str, str]) -> Choices:
    """Read the `BENDYBUS_…` variables. An empty one counts as not set."""

    def text(name: str) -> str | None:
        return environment.get(name) or None

    def path(name: str) -> Path | None:
        value = text(name)
        return None if value is None else Path(value)

    def number(name: str) -> int | None:
        value = text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdecimal()):
            raise SettingInvalid(f"{name} must be a whole number, not {value!r}")
        return int(value)

    return Choices(
        data=path("BENDYBUS_DATA"),
        stores=number("BENDYBUS_STORES"),
        host=text("BENDYBUS_HOST"),
        plain=plain_from(text("BENDYBUS_PLAIN"), "BENDYBUS_PLAIN"),
        amqp_port=number("BENDYBUS_AMQP_PORT"),
        http_port=number("BENDYBUS_HTTP_PORT"),
        tls_cert=path("BENDYBUS_TLS_CERT"),
        tls_key=path("BENDYBUS_TLS_KEY"),
        amqps_port=number("BENDYBUS_AMQPS_PORT"),
        https_port=number("BENDYBUS_HTTPS_PORT"),
        flight_port=port_or_none(text("BENDYBUS_FLIGHT_PORT"), "BENDYBUS_FLIGHT_PORT"),
        flight_tls_port=number("BENDYBUS_FLIGHT_TLS_PORT"),
        key=text("BENDYBUS_KEY"),
        key_file=path("BENDYBUS_KEY_FILE"),
        transaction_messages=number("BENDYBUS_TRANSACTION_MESSAGES"),
        transaction_seconds=number("BENDYBUS_TRANSACTION_SECONDS"),
        requests_per_second=number("BENDYBUS_REQUESTS_PER_SECOND"),
        connection_requests_per_second=number("BENDYBUS_CONNECTION_REQUESTS_PER_SECOND"),
        metrics=_word_from(MetricsReaders, text("BENDYBUS_METRICS"), "BENDYBUS_METRICS"),
        log_format=_word_from(LogFormat, text("BENDYBUS_LOG_FORMAT"), "BENDYBUS_LOG_FORMAT"),
        log_level=_word_from(LogLevel, text("BENDYBUS_LOG_LEVEL"), "BENDYBUS_LOG_LEVEL"),
    )


def plain_from(text: str | None, source: str) -> Plain | None:
    """Read where plain listeners may be, as the environment and the file say it."""
    return _word_from(Plain, text, source)


def port_or_none(text: str | None, source: str) -> int | None:
    """Read a port that may also be the word for no door at all."""
    if text is None:
        return None
    if text.lower() == _NO_DOOR_WORD:
        return NO_DOOR
    if not (text.isascii() and text.isdecimal()):
        raise SettingInvalid(f"{source} must be a port or {_NO_DOOR_WORD}, not {text!r}")
    return int(text)


def _word_from(words: type[_Word], text: str | None, source: str) -> _Word | None:
    try:
        return None if text is None else words(text)
    except ValueError:
        raise SettingInvalid(f"{source} must be {', '.join(words)}; not {text!r}") from None


def settle(
    sources: Sequence[Choices], namespace: Namespace, others: Sequence[Namespace] = ()
) -> Settings:
    """Fold the sources, the strongest first, into settings that are safe to start with.

    A key that they give is that of the default namespace; others have theirs in the file.

    Raises `SettingInvalid` for a value out of its bounds, `EncryptionRequired` when others could
    reach the broker without encryption though nobody asked for that, and `KeyRequired` when they
    could with the key that everyone knows. Reads the key file, if there is one.
    """
    chosen = Choices()
    for source in sources:
        chosen = _fill_gaps(chosen, source)
    namespaces = (
        ChosenNamespace(namespace, _access_rules(namespace, chosen)),
        *(ChosenNamespace(each, _access_rules(each, Choices())) for each in others),
    )
    settings = Settings(namespaces=namespaces, tls=_chosen_tls(chosen), **_given(chosen))
    _check_bounds(settings)
    if settings.has_development_key and not settings.is_loopback:
        raise KeyRequired(
            f"{settings.host} can be reached from other machines, so the well-known development"
            " key must not open the broker. Give a key of your own in BENDYBUS_KEY or by"
            " --key-file FILE, and every other namespace one in its AuthorizationRules; or listen"
            " on 127.0.0.1"
        )
    _check_encryption(settings)
    return settings


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only. An unknown name counts as not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _fill_gaps(strong: Choices, weak: Choices) -> Choices:
    # A key and a key file are one choice: a file named by the stronger source must not lose to
    # a key of the weaker.
    if strong.key is not None or strong.key_file is not None:
        weak = replace(weak, key=None, key_file=None)
    gaps = {
        each.name: getattr(weak, each.name)
        for each in fields(strong)
        if getattr(strong, each.name) is None
    }
    return replace(strong, **gaps)


def _given(chosen: Choices) -> dict[str, Any]:
    names = {each.name for each in fields(Settings)} & {each.name for each in fields(Choices)}
    values = {name: getattr(chosen, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _chosen_key(chosen: Choices) -> str:
    if chosen.key is not None and chosen.key_file is not None:
        raise SettingInvalid("a key and a key file are both given; give one of them")
    if chosen.key is not None:
        return _checked_key(chosen.key, "BENDYBUS_KEY")
    if chosen.key_file is not None:
        return _checked_key(_read_key(chosen.key_file), f"the key file {chosen.key_file}")
    return DEVELOPMENT_KEY


def _access_rules(namespace: Namespace, chosen: Choices) -> tuple[AccessRule, ...]:
    """Return the rules of a namespace, first the one that can do everything from the start."""
    others = tuple(rule for rule in namespace.access_rules if rule.name != DEFAULT_RULE_NAME)
    if len(others) < len(namespace.access_rules):
        if chosen.key is not None or chosen.key_file is not None:
            raise SettingInvalid(
                f"the key of {DEFAULT_RULE_NAME} is given twice, as a setting and in the"
                " AuthorizationRules of the configuration file; give one of them"
            )
        root = next(rule for rule in namespace.access_rules if rule.name == DEFAULT_RULE_NAME)
    else:
        root = AccessRule(DEFAULT_RULE_NAME, _chosen_key(chosen), frozenset(Right))
    if len(others) >= RULES_MAX:
        raise SettingInvalid(
            f"the namespace {namespace.name} has more than {RULES_MAX} authorization rules,"
            f" {DEFAULT_RULE_NAME} among them"
        )
    return (root, *others)


def _chosen_tls(chosen: Choices) -> TlsFiles | None:
    if chosen.tls_cert is None and chosen.tls_key is None:
        return None
    if chosen.tls_cert is None or chosen.tls_key is None:
        missing = "--tls-key" if chosen.tls_key is None else "--tls-cert"
        raise SettingInvalid(
            f"a certificate needs its key and a key its certificate: {missing} is missing"
        )
    return TlsFiles(chosen.tls_cert, chosen.tls_key)


def _check_encryption(settings: Settings) -> None:
    if settings.tls is not None:
        return
    if settings.plain is Plain.NEVER:
        raise EncryptionRequired(
            "without plain listeners the broker needs a certificate: make one with bendybus cert,"
            " and give it with --tls-cert and --tls-key"
        )
    if not settings.is_loopback and settings.plain is not Plain.ANYWHERE:
        raise EncryptionRequired(
            f"{settings.host} can be reached from other machines, so the broker needs a"
            " certificate: make one with bendybus cert, and give it with --tls-cert and"
            " --tls-key. Or say --plain anywhere if others may read keys and messages on their way"
        )


def _read_key(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(KEY_FILE_BYTES_MAX + 1)
        if len(content) > KEY_FILE_BYTES_MAX:
            raise SettingInvalid(f"the key file {path} is too large to be a key")
        return content.decode().strip()
    except UnicodeDecodeError:
        raise SettingInvalid(f"the key file {path} is not text") from None
    except OSError as error:
        raise SettingInvalid(f"cannot read the key file {path}: {error.strerror}") from None


def _checked_key(key: str, source: str) -> str:
    if key == DEVELOPMENT_KEY:
        return key
    if len(key) < KEY_LENGTH_MIN:
        raise SettingInvalid(f"{source} must have at least {KEY_LENGTH_MIN} characters")
    if ";" in key or any(character.isspace() for character in key):
        raise SettingInvalid(
            f"{source} must not contain ';' or spaces: connection strings end there"
        )
    return key


def _check_bounds(settings: Settings) -> None:
    _check_bound("the number of stores", settings.stores, 1, STORES_MAX)
    _check_bound("the AMQP port", settings.amqp_port, 0, PORT_MAX)
    _check_bound("the HTTP port", settings.http_port, 0, PORT_MAX)
    _check_bound("the AMQPS port", settings.amqps_port, 0, PORT_MAX)
    _check_bound("the HTTPS port", settings.https_port, 0, PORT_MAX)
    if settings.has_flight:
        _check_bound("the Flight port", settings.flight_port, 0, PORT_MAX)
        _check_bound("the Flight port with TLS", settings.flight_tls_port, 0, PORT_MAX)
    _check_bound(
        "the number of messages in a transaction",
        settings.transaction_messages,
        1,
        TRANSACTION_MESSAGES_MAX,
    )
    _check_bound(
        "the seconds that a transaction may last",
        settings.transaction_seconds,
        1,
        TRANSACTION_SECONDS_MAX,
    )
    for what, rate in (
        ("a namespace", settings.requests_per_second),
        ("a connection", settings.connection_requests_per_second),
    ):
        if rate is not None:
            _check_bound(f"the requests per second of {what}", rate, 1, REQUESTS_PER_SECOND_MAX)
    _check_ports_apart(settings)


def _check_ports_apart(settings: Settings) -> None:
    ports: dict[int, str] = {}
    doors = {"AMQP": settings.amqp_port, "HTTP": settings.http_port}
    if settings.tls is not None:
        doors |= {"AMQPS": settings.amqps_port, "HTTPS": settings.https_port}
    if settings.has_flight:
        doors["Flight"] = settings.flight_port
        if settings.tls is not None:
            doors["Flight with TLS"] = settings.flight_tls_port
    for name, port in doors.items():
        if port != 0 and port in ports:
            raise SettingInvalid(f"{ports[port]} and {name} cannot share port {port}")
        ports[port] = name


def _check_bound(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise SettingInvalid(f"{what} must be between {least} and {most}, not {value}")
