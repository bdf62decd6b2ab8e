"""Folds what the sources say into settings that are safe to start with."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from bendybus.model.access import AccessRule, Right
from bendybus.model.access_rules import KEY_LENGTH_MIN, RULES_MAX
from bendybus.model.errors import EncryptionRequired, KeyRequired, SettingInvalid
from bendybus.model.namespace import Namespace
from bendybus.model.store_place import StorePlace
from bendybus.settings.choices import Choices
from bendybus.settings.settled import (
    DEFAULT_RULE_NAME,
    DEVELOPMENT_KEY,
    ChosenNamespace,
    Plain,
    Settings,
    TlsFiles,
)

STORES_MAX: Final = 256
WORKERS_MAX: Final = 64
PORT_MAX: Final = 65_535
TRANSACTION_MESSAGES_MAX: Final = 1000
TRANSACTION_SECONDS_MAX: Final = 3600
REQUESTS_PER_SECOND_MAX: Final = 10_000_000
KEY_FILE_BYTES_MAX: Final = 4096


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
    if chosen.stores is not None and chosen.places is not None:
        raise SettingInvalid(
            "a number of embedded stores and URLs of stores are both given; give one of them"
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


def _fill_gaps(strong: Choices, weak: Choices) -> Choices:
    # A key and a key file are one choice: a file named by the stronger source must not lose to
    # a key of the weaker.
    if strong.key is not None or strong.key_file is not None:
        weak = replace(weak, key=None, key_file=None)
    # Likewise a number of embedded stores and the URLs of others.
    if strong.stores is not None or strong.places is not None:
        weak = replace(weak, stores=None, places=None)
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
    _check_bound("the number of stores", settings.store_count, 1, STORES_MAX)
    _check_places_apart(settings)
    _check_bound("the number of workers", settings.workers, 1, WORKERS_MAX)
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


def _check_places_apart(settings: Settings) -> None:
    """Refuse a database that is listed twice, as far as URLs show it."""
    seen: dict[StorePlace, int] = {}
    for number, place in enumerate(settings.places):
        if place in seen:
            raise SettingInvalid(
                f"stores {seen[place]} and {number} are the same database, {place}; every store"
                " needs one of its own"
            )
        seen[place] = number


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
