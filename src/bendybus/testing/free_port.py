"""Ports for servers that come back to where they were."""

import random
import socket
from typing import Final

# Below those that the kernel lends to clients: a server that was down finds its port free again.
_PORTS: Final = range(12_000, 32_000)


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    for port in random.sample(_PORTS, 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
