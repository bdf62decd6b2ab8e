"""The connections of a port that gRPC serves, found among this process's own sockets.

gRPC tells who is at the other end of a call, but leaves no way to end a connection, nor to see
those that ask for nothing. The sockets are ours, so both can be done beside it.
"""

import ipaddress
import os
import socket
import stat
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

Peer = tuple[str, int]

_OPEN_FILES: Final = Path("/dev/fd")
_FAMILIES: Final = frozenset({socket.AF_INET, socket.AF_INET6})


def parse_peer(text: str) -> Peer:
    """Read an address as gRPC writes it: ipv4:127.0.0.1:50912 or ipv6:%5B::1%5D:50912."""
    host, _, port = unquote(text).partition(":")[2].rpartition(":")
    return _plain(host.strip("[]")), int(port) if port.isdecimal() else 0


def peers_at(ports: AbstractSet[int]) -> set[Peer]:
    """Return who is connected to some ports of this process."""
    found: set[Peer] = set()
    _each_connection(ports, lambda peer, _: found.add(peer))
    return found


def cut_off(ports: AbstractSet[int], peers: AbstractSet[Peer]) -> None:
    """End the connections of some to our ports."""

    def end(peer: Peer, connection: socket.socket) -> None:
        if peer in peers:
            with suppress(OSError):  # it ended by itself
                connection.shutdown(socket.SHUT_RDWR)

    _each_connection(ports, end)


def _each_connection(ports: AbstractSet[int], visit: Callable[[Peer, socket.socket], None]) -> None:
    for file in list(_OPEN_FILES.iterdir()):
        try:
            number = int(file.name)
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            # A copy: the number may mean something else in the next moment, the copy does not.
            copy = os.dup(number)
        except OSError:
            continue
        with socket.socket(fileno=copy) as connection:
            if connection.family not in _FAMILIES:
                continue
            try:
                if connection.getsockname()[1] in ports:
                    host, peer_port = connection.getpeername()[:2]
                    visit((_plain(host), peer_port), connection)
            except OSError:
                continue  # it listens, or ended


def _plain(host: str) -> str:
    """Write an address in one way, also one of IPv4 that came by a socket of IPv6."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
