"""What the calls of both clients have in common: their defaults, and how they take messages."""

import ssl
import uuid
from collections.abc import Sequence
from typing import Final, TypeVar

from bendybus.client.connecting import Connector
from bendybus.client.endpoint import credential_of, endpoint_of
from bendybus.model.connection_string import parse_connection_string

MessageT = TypeVar("MessageT")

TIMEOUT_SECONDS: Final = 30.0
"""How long a call may take unless the client is told otherwise, connecting again included."""
CLOSE_SECONDS: Final = 5.0
"""How long a broker is given to say goodbye."""


def connector_for(connection_string: str, tls: ssl.SSLContext | None) -> Connector:
    """Read a connection string. Raises the model's `ArgumentInvalid` if it is not one."""
    given = parse_connection_string(connection_string)
    return Connector(
        endpoint_of(given, tls), credential_of(given), f"bendybus-client-{uuid.uuid4()}"
    )


def listed(messages: MessageT | Sequence[MessageT]) -> Sequence[MessageT]:
    """Return the messages of a call that takes one or several."""
    return messages if isinstance(messages, Sequence) else [messages]
