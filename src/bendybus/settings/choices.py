"""What one source says about the settings: the command line, the environment or the file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from bendybus.model.errors import SettingInvalid
from bendybus.model.store_place import StorePlace, read_place
from bendybus.settings.settled import NO_DOOR, LogFormat, LogLevel, MetricsReaders, Plain

_NO_DOOR_WORD: Final = "none"
_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What one source says about the settings; None where it says nothing."""

    data: Path | None = None
    stores: int | None = None
    places: tuple[StorePlace, ...] | None = None
    workers: int | None = None
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

    stores = text("BENDYBUS_STORES")
    has_places = stores is not None and "://" in stores
    return Choices(
        data=path("BENDYBUS_DATA"),
        stores=None if has_places else number("BENDYBUS_STORES"),
        places=places_from((stores or "").split(), "BENDYBUS_STORES") if has_places else None,
        workers=number("BENDYBUS_WORKERS"),
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


def places_from(urls: Sequence[str] | None, source: str) -> tuple[StorePlace, ...] | None:
    """Read the URLs of stores; None where none is given, so that a weaker source may say."""
    if not urls:
        return None
    return tuple(read_place(url, f"{source} {at}") for at, url in enumerate(urls, start=1))


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
