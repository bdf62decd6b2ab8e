"""Sockets that listen: every address of a host on one port, or a refusal that says what to do."""

import errno
import socket
from typing import Final

from bendybus.model.errors import PortInUse, SettingInvalid

BACKLOG: Final = 1024
_PRIVILEGED_PORTS: Final = 1024


def bound_sockets(host: str, port: int, option: str) -> list[socket.socket]:
    """Listen on every address of the host. Port 0 takes one free port for all of them.

    `option` names the option of the port. Raises `PortInUse` or `SettingInvalid`.
    """
    bound: list[socket.socket] = []
    try:
        for family, address in _addresses(host):
            try:
                listening = socket.create_server((address, port), family=family, backlog=BACKLOG)
            except OSError as error:
                # A name such as localhost may have an address that this machine lacks.
                if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) and bound:
                    continue
                raise
            listening.setblocking(False)
            bound.append(listening)
            port = listening.getsockname()[1]
    except OSError as error:
        for each in bound:
            each.close()
        raise _refusal(error, host, port, option) from None
    return bound


def _addresses(host: str) -> list[tuple[socket.AddressFamily, str]]:
    """Return the addresses of a host, each once; those of IPv4 first, which every machine has."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    unique = {(family, str(address[0])): None for family, _, _, _, address in found}
    return sorted(unique, key=lambda each: each[0] is not socket.AF_INET)


def _refusal(error: OSError, host: str, port: int, option: str) -> PortInUse | SettingInvalid:
    if error.errno == errno.EADDRINUSE:
        return PortInUse(
            f"port {port} on {host} is used by another process; stop it or choose another port"
            f" with {option}"
        )
    text = f"cannot listen on {host}:{port}: {error.strerror}"
    if error.errno == errno.EACCES and port < _PRIVILEGED_PORTS:
        text += (
            f"; ports below {_PRIVILEGED_PORTS} need the right to take them"
            f" (CAP_NET_BIND_SERVICE), or choose another with {option}"
        )
    return SettingInvalid(text)
