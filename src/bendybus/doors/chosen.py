"""Which doors a broker has, by its settings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from bendybus.doors.arrivals import Arrivals
from bendybus.doors.door import Door
from bendybus.doors.tls import ServerTls
from bendybus.settings import RunningPorts, Settings

# What HTTPS offers to clients that ask; without it some would try HTTP/2.
_HTTP_PROTOCOLS: Final = ("http/1.1",)
_GRPC_PROTOCOLS: Final = ("h2",)


@dataclass(frozen=True, slots=True)
class ChosenDoors:
    """The doors for AMQP, HTTP and Flight, and the certificate of those that are encrypted."""

    amqp: tuple[Door, ...]
    http: tuple[Door, ...]
    flight: tuple[Door, ...]
    tls: ServerTls | None


def chosen_doors(settings: Settings, arrivals: Arrivals | None = None) -> ChosenDoors:
    """Say where to listen. Raises `CertificateRefused` when the certificate cannot be served.

    With `arrivals` another process listens in our place, except for Flight, whose library must do
    so itself: only the first worker has that door.
    """
    has_flight = settings.has_flight and (arrivals is None or arrivals.number == 0)
    amqp: list[Door] = []
    http: list[Door] = []
    flight: list[Door] = []
    if settings.plain_host is not None:
        amqp.append(Door("amqp", settings.plain_host, settings.amqp_port))
        http.append(Door("http", settings.plain_host, settings.http_port))
        if has_flight:
            flight.append(Door("flight", settings.plain_host, settings.flight_port))
    tls = None
    if settings.tls is not None:
        tls = ServerTls(settings.tls.cert, settings.tls.key)
        amqp.append(Door("amqps", settings.host, settings.amqps_port, tls.served()))
        over_http = tls.served(_HTTP_PROTOCOLS)
        http.append(Door("https", settings.host, settings.https_port, over_http))
        if has_flight:
            over_grpc = tls.served(_GRPC_PROTOCOLS)
            flight.append(Door("flight-tls", settings.host, settings.flight_tls_port, over_grpc))
    if arrivals is not None:
        amqp = [replace(door, arrivals=arrivals) for door in amqp]
        http = [replace(door, arrivals=arrivals) for door in http]
    return ChosenDoors(tuple(amqp), tuple(http), tuple(flight), tls)


def running_ports(ports: Mapping[str, int]) -> RunningPorts:
    """Name the ports of open doors."""
    return RunningPorts(**{f"{name.replace('-', '_')}_port": port for name, port in ports.items()})
