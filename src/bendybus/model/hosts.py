"""What the host that a client addresses says of where it means to go."""

import ipaddress


def host_alone(host: str) -> str:
    """Return a host name or address without the port and the brackets that it may have."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host


def address_of(host: str) -> str:
    """Return where a host is: every name under `localhost` is this machine (RFC 6761, 6.3).

    Many systems do not know that. So what a namespace is called on this machine need not be told
    to any of them.
    """
    return "localhost" if host.lower().endswith(".localhost") else host


def host_beside(host: str, name: str) -> str:
    """Return a host for a namespace of that name, from one that leads to the same broker."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"{name}.{host}"
    return f"{name}.localhost" if address.is_loopback else name


def names_nothing(host: str) -> bool:
    """Whether it is an address, or the name that every machine has for itself."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host.lower() in ("", "localhost")
    return True
