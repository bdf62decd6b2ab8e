"""What `bendybus serve` says once it is ready: where it listens, what it has, how to begin."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from bendybus import __version__
from bendybus.model.connection_string import ConnectionString
from bendybus.model.entity import Queue, Topic
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.namespace import Namespace
from bendybus.settings import DEVELOPMENT_KEY, RunningPorts, Settings

# What the clients take when the endpoint has no port.
AMQP_PORT_OF_CLIENTS: Final = 5672
AMQPS_PORT_OF_CLIENTS: Final = 5671
KEY_NOT_SHOWN: Final = "<your key>"


def announcement(settings: Settings, ports: RunningPorts) -> str:
    """Return the whole text. The same settings give the same text at every start."""
    return "\n".join(
        [
            f"Bendybus {__version__} is ready. Ctrl-C stops it.",
            "",
            *_doors(settings, ports),
            *_stores(settings),
            "",
            *_entities(settings),
            "",
            "Connection string:",
            f"  {connection_string(settings, ports)}",
            "",
            "From Python (pip install azure-servicebus):",
            *(f"  {line}" for line in python_example(settings, ports)),
        ]
    )


def connection_string(settings: Settings, ports: RunningPorts) -> str:
    """Return what clients connect with. A key of one's own is left out: output ends up in logs.

    The encrypted door where other machines can come, else the plain one of this machine, which
    needs no certificate to be trusted.
    """
    [rule, *_] = settings.access_rules
    is_plain = ports.amqp_port is not None and settings.plain_host == settings.host
    port = ports.amqp_port if is_plain else ports.amqps_port
    usual = AMQP_PORT_OF_CLIENTS if is_plain else AMQPS_PORT_OF_CLIENTS
    return ConnectionString(
        host=_reachable_host(settings),
        port=None if port == usual else port,
        rule_name=rule.name,
        key=rule.primary_key if rule.primary_key == DEVELOPMENT_KEY else KEY_NOT_SHOWN,
        use_development_emulator=is_plain,
    ).to_text()


def python_example(settings: Settings, ports: RunningPorts) -> list[str]:
    """Return three lines that send a message to the first queue."""
    queues = settings.namespace.queues
    queue = queues[0].name if queues else "<your queue>"
    text = connection_string(settings, ports)
    return [
        "from azure.servicebus import ServiceBusClient, ServiceBusMessage",
        f'with ServiceBusClient.from_connection_string("{text}") as client:',
        f'    client.get_queue_sender("{queue}").send_messages(ServiceBusMessage("hello"))',
    ]


def _doors(settings: Settings, ports: RunningPorts) -> Iterator[str]:
    if settings.plain_host is not None:
        host = _shown(settings.plain_host)
        yield f"  AMQP   {host}:{ports.amqp_port}, not encrypted"
        yield f"  HTTP   http://{host}:{ports.http_port}/health, not encrypted"
        if ports.flight_port is not None:
            yield f"  Flight grpc://{host}:{ports.flight_port} for Spark, not encrypted"
    if settings.tls is not None:
        host = _shown(settings.host)
        yield f"  AMQPS  {host}:{ports.amqps_port}"
        yield f"  HTTPS  https://{host}:{ports.https_port}/health, and AMQP over WebSocket"
        if ports.flight_tls_port is not None:
            yield f"  Flight grpc+tls://{host}:{ports.flight_tls_port} for Spark"
    if settings.has_flight and ports.flight_port is None and ports.flight_tls_port is None:
        yield "  Flight for Spark needs more packages: pip install 'bendybus[bulk]'"


def _stores(settings: Settings) -> Iterator[str]:
    if not settings.places:
        yield f"  data   {settings.data.resolve()} ({settings.stores} messaging stores)"
    if settings.workers > 1:
        yield f"  {settings.workers} workers share the doors"
    for number, place in enumerate(settings.places):
        yield f"  store  {number}: {place}"


def _entities(settings: Settings) -> Iterator[str]:
    namespaces = [chosen.namespace for chosen in settings.namespaces]
    if len(namespaces) == 1 and not namespaces[0].entities:
        yield "No entities configured: those made before are there, --config FILE brings others."
        return
    for namespace in namespaces:
        yield from _entities_of(namespace)


def _entities_of(namespace: Namespace) -> Iterator[str]:
    if not namespace.entities:
        yield f"No entities configured for namespace {namespace.name}."
        return
    yield f"Configured entities of namespace {namespace.name}:"
    width = max(len(entity.name) for entity in namespace.entities)
    for queue in namespace.queues:
        yield f"  {queue.name:<{width}}  queue, {_kind(queue, namespace)}"
    for topic in namespace.topics:
        count = len(topic.subscriptions)
        subscriptions = f"{count} subscription{'' if count == 1 else 's'}"
        yield f"  {topic.name:<{width}}  topic, {subscriptions}, {_kind(topic, namespace)}"


def _kind(entity: Queue | Topic, namespace: Namespace) -> str:
    # One from before the namespace had its tier is as it was made.
    with suppress(ArgumentInvalid):
        entity = namespace.tier.admitted(entity)
    properties = entity.properties
    gigabytes = properties.effective_max_size_megabytes // 1024
    if properties.enable_partitioning:
        return f"partitioned over {properties.fragment_count} fragments, {gigabytes} GB in all"
    return f"conventional, {gigabytes} GB"


def _reachable_host(settings: Settings) -> str:
    if settings.is_loopback:
        return "localhost"
    # The address that means "every interface" is none that a client could call.
    return socket.gethostname() if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104 - compared, not bound


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
