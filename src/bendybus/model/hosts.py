"""What the host that a client addresses says of where it means to go."""

import ipaddress


def host_alone(host: str) -> str:
    """Return a host name or address without the port and the brackets that it may have."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host


def names_nothing(host: str) -> bool:
    """Whether it is an address, or the name that every machine has for itself."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host.lower() in ("", "localhost")
    return True


def is_host_of(host: str, name: str) -> bool:
    """Whether a host name is that name, or begins with it as `name.servicebus.windows.net` does."""
    return f"{host.lower()}.".startswith(f"{name.lower()}.")
