"""Calling rest.cpp: requests over HTTP on a pool of connections that are kept."""

import os
from datetime import UTC, datetime, timedelta
from typing import Final

from bench.clients import finish, load_rate
from bench.scenarios import Turn
from bendybus.model.access import make_sas

CONNECTIONS: Final = 16
TOKEN_VARIABLE: Final = "LOAD_TOKEN"  # noqa: S105 - its name


def rate_over_http(turn: Turn, mode: str, path: str, count: int, *, body_bytes: int = 0) -> float:
    """Make requests; answered ones per second. Every one must be answered as it should."""
    broker = turn.broker
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    token = make_sas("http://127.0.0.1/", broker.user, broker.password, expires_at)
    command = (mode, f"127.0.0.1:{broker.http_port}", path)
    numbers = (str(count), str(body_bytes), str(CONNECTIONS))
    environment = os.environ | {TOKEN_VARIABLE: token}
    with turn.clients.running_with("rest", (*command, *numbers), environment) as process:
        return load_rate(finish(process))
