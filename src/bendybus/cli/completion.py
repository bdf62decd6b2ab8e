"""Names of entities, for the shell to complete: quickly or not at all."""

import os
from typing import Final

from bendybus.atom.properties import Kind
from bendybus.cli.options import DEVELOPMENT_CONNECTION
from bendybus.client.administration import Administration
from bendybus.client.errors import ClientError
from bendybus.model.errors import BusError

# Whoever presses a key does not wait for a broker that is far away.
SECONDS_MAX: Final = 1.0
NAMES_MAX: Final = 100


def complete_queue(incomplete: str) -> list[str]:
    """Return the queues whose names begin so."""
    return _names(Kind.QUEUE, incomplete)


def complete_topic(incomplete: str) -> list[str]:
    """Return the topics whose names begin so."""
    return _names(Kind.TOPIC, incomplete)


def _names(kind: Kind, incomplete: str) -> list[str]:
    connection = os.environ.get("BENDYBUS_CONNECTION_STRING") or DEVELOPMENT_CONNECTION
    url = os.environ.get("BENDYBUS_MANAGEMENT_URL") or None
    names: list[str] = []
    try:
        namespace = Administration.from_connection_string(connection, url, seconds_max=SECONDS_MAX)
        for shown in namespace.list(kind):
            if shown.name.lower().startswith(incomplete.lower()):
                names.append(shown.name)
            if len(names) >= NAMES_MAX:
                break
    except (BusError, ClientError):
        return names
    return names
