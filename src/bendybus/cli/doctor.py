"""`bendybus doctor`: what is wrong, and what to do about it."""

import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

import typer

from bendybus.atom.properties import Kind
from bendybus.cli.administered import listed_here, managing
from bendybus.cli.options import Output, OutputOption
from bendybus.cli.shown_entity import print_json
from bendybus.cli.status import all_entities
from bendybus.client.administration import Administration, Described
from bendybus.client.endpoint import endpoint_of
from bendybus.client.errors import ClientError
from bendybus.model.entity import EntityStatus
from bendybus.settings import DEVELOPMENT_KEY, is_loopback

FULL_FROM: Final = 0.9
SKEW_MAX: Final = timedelta(minutes=1)
CERTIFICATE_LEFT_MIN: Final = timedelta(days=14)
CONNECT_SECONDS: Final = 5.0


class Verdict(StrEnum):
    """How bad it is."""

    GOOD = "good"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    verdict: Verdict
    what: str
    remedy: str = ""


Check = Callable[[Administration], Iterator[Finding]]


@managing
def doctor(namespace: Administration, output: OutputOption = Output.TABLE) -> None:
    """Look for what is wrong, and say what to do. Ends with 1 if anything is.

    Looks at the address, the key, the clock, AMQP, the certificate, the stores, and every entity.
    """
    findings = list(examined(namespace))
    if output is Output.JSON:
        print_json([asdict(each) for each in findings])
    else:
        for each in findings:
            typer.echo(f"{each.verdict.value:8}{each.what}")
            if each.remedy:
                typer.echo(f"{'':8}→ {each.remedy}")
    if any(each.verdict is Verdict.WRONG for each in findings):
        raise typer.Exit(1)


def examined(namespace: Administration) -> Iterator[Finding]:
    """Return what was found, one thing after the other; the rest is left out if a door is shut."""
    try:
        for check in (_http, _amqp, _certificate, _key, _stores, _entities, _readers):
            yield from check(namespace)
    except ClientError as error:
        yield Finding(Verdict.WRONG, str(error), _remedy_of(error))


def _http(namespace: Administration) -> Iterator[Finding]:
    url = namespace.http.url
    info = namespace.namespace()
    yield Finding(Verdict.GOOD, f"{url} answers as namespace '{info.name}', and takes the key")
    date = namespace.http.exchange("GET", "/$namespaceinfo?api-version=2021-05").date
    if date is not None and abs(date - datetime.now(UTC)) > SKEW_MAX:
        yield Finding(
            Verdict.WRONG,
            f"the clocks differ by {abs(date - datetime.now(UTC)).total_seconds():.0f} s",
            "set both by NTP: tokens are made and judged by the clock",
        )


def _amqp(namespace: Administration) -> Iterator[Finding]:
    endpoint = endpoint_of(namespace.http.connection, namespace.http.tls)
    try:
        with socket.create_connection((endpoint.address, endpoint.port), CONNECT_SECONDS):
            yield Finding(Verdict.GOOD, f"AMQP answers at {endpoint}")
    except OSError as error:
        yield Finding(
            Verdict.WRONG,
            f"nothing answers AMQP at {endpoint} ({error.strerror or error})",
            "is the port in the connection string that of --amqp-port or --amqps-port, and open?",
        )


def _certificate(namespace: Administration) -> Iterator[Finding]:
    parts = urlsplit(namespace.http.url)
    if parts.scheme != "https":
        return
    context = namespace.http.tls or ssl.create_default_context()
    where = (parts.hostname or "", parts.port or 443)
    with (
        socket.create_connection(where, CONNECT_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=parts.hostname) as encrypted,
    ):
        told = str((encrypted.getpeercert() or {}).get("notAfter", ""))
    if not told:
        return
    ends_at = datetime.fromtimestamp(ssl.cert_time_to_seconds(told), UTC)
    if ends_at - datetime.now(UTC) < CERTIFICATE_LEFT_MIN:
        yield Finding(
            Verdict.WARNING,
            f"the certificate ends at {ends_at:%Y-%m-%d %H:%M} UTC",
            "renew it; one of `bendybus cert` with `bendybus cert --renew`",
        )


def _key(namespace: Administration) -> Iterator[Finding]:
    connection = namespace.http.connection
    if connection.key == DEVELOPMENT_KEY and not is_loopback(connection.host):
        yield Finding(
            Verdict.WARNING,
            "the key is the one that everybody knows",
            "start the broker with a key of your own, see docs/security.md",
        )


def _stores(namespace: Administration) -> Iterator[Finding]:
    stores = listed_here(namespace, "/$stores")
    for store in stores:
        if store["state"] != "online":
            yield Finding(
                Verdict.WRONG,
                f"store {store['number']} is {store['state']}: {store['reason']}",
                f"mend {store['path']}, then `bendybus store online {store['number']}`",
            )
    if stores and all(store["state"] == "online" for store in stores):
        yield Finding(Verdict.GOOD, f"all {len(stores)} messaging stores are online")


def _readers(namespace: Administration) -> Iterator[Finding]:
    for each in listed_here(namespace, "/$readers"):
        if each["reservedMessages"] and not each["isActive"]:
            yield Finding(
                Verdict.WARNING,
                f"the reader '{each['reader']}' keeps {each['reservedMessages']:,} messages of"
                f" '{each['address']}' and is not in use",
                "start its program again, or `bendybus reader release` them",
            )


def _entities(namespace: Administration) -> Iterator[Finding]:
    entities = all_entities(namespace)
    found = [finding for each in entities for finding in _entity(each)]
    yield from found or [Finding(Verdict.GOOD, f"{len(entities):,} entities are as they should be")]


def _entity(shown: Described) -> Iterator[Finding]:
    facts, counts, properties = shown.facts, shown.facts.counts, shown.properties
    name = shown.name
    if not facts.is_available:
        yield Finding(
            Verdict.WRONG,
            f"'{name}' has fragments that cannot be reached",
            "bring the store back: `bendybus store list`",
        )
    size = properties.get("max_size_megabytes", 0) * 1024 * 1024
    if shown.kind is not Kind.SUBSCRIPTION and size and facts.size_bytes >= size * FULL_FROM:
        yield Finding(
            Verdict.WARNING,
            f"'{name}' is {facts.size_bytes / size:.0%} full; a full one refuses messages",
            "receive faster, `bendybus purge`, or a larger --max-size",
        )
    if counts.dead_letter:
        yield Finding(
            Verdict.WARNING,
            f"'{name}' has {counts.dead_letter:,} dead letters",
            f"`bendybus peek` them with --dead-letter, then `bendybus redrive` ({name})",
        )
    if counts.transfer_dead_letter:
        yield Finding(
            Verdict.WARNING,
            f"'{name}' has {counts.transfer_dead_letter:,} messages that could not be forwarded",
            "mend the target, then `bendybus redrive --transfer`",
        )
    if properties.get("status", EntityStatus.ACTIVE) is not EntityStatus.ACTIVE:
        yield Finding(
            Verdict.WARNING,
            f"'{name}' is {properties['status'].value}",
            "set --status Active when it should work again",
        )


def _remedy_of(error: ClientError) -> str:
    if error.is_retryable:
        return "start the broker with `bendybus serve`, or say where it is with --management-url"
    return "check the connection string: its rule must have the right Manage"
