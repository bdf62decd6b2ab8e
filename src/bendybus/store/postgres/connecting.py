"""Connects to a PostgreSQL server, or says in plain words why that cannot be.

Every session bounds how long anything may take, on both sides. Above all a front end that is
paused or cut off in the middle of a transaction must not keep the others from their turn: the
server ends a transaction that is idle, and a connection whose other end does not answer.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bendybus.model.errors import StoreRefused
from bendybus.store.postgres.bounded import BoundedConnection
from bendybus.store.postgres.planning import SESSION_SETTINGS

SCHEMA: Final = "bendybus"
# The first with `idle_session_timeout`.
OLDEST_SERVER: Final = 140_000

# How long to wait for a connection to each of the hosts that the URL names.
CONNECT_SECONDS: Final = 3
# How long a statement may take at the server.
STATEMENT_SECONDS: Final = 6
# How long we wait for an answer: longer than the server works on it.
ANSWER_SECONDS: Final = 8.0
# How long a transaction may be idle: between two statements there is only our own Python.
IDLE_SECONDS: Final = 3
# How long what was sent may stay unacknowledged by the other side's kernel.
UNACKNOWLEDGED_SECONDS: Final = 5

_BOUNDS: Final[Mapping[str, str]] = {
    "statement_timeout": f"{STATEMENT_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    "tcp_user_timeout": f"{UNACKNOWLEDGED_SECONDS}s",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    # Also where the server's own default is to answer before it is safe.
    "synchronous_commit": "on",
    "search_path": SCHEMA,
    "client_min_messages": "warning",
}

_PARAMETERS: Final[Mapping[str, str | int]] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives": 1,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": UNACKNOWLEDGED_SECONDS * 1000,
    "client_encoding": "UTF8",
}

# What people have to mend, by what the server says of it.
_MISTAKES: Final = (
    (r"password authentication failed|no password supplied", "check user and password in the URL"),
    (r'role ".*" does not exist', "create the role, or name another in the URL"),
    (r'database ".*" does not exist', "create the database (createdb), or name another"),
    (r"no pg_hba.conf entry|pg_hba.conf rejects", "allow this host and user in pg_hba.conf"),
    (r"permission denied for database", "GRANT CONNECT ON DATABASE to the role"),
    (r"not permitted to log in", "ALTER ROLE ... LOGIN"),
    (r"server does not support SSL|certificate verify failed", "check sslmode in the URL"),
)


class StoreUnreachable(Exception):
    """A server cannot be reached now; it may be by and by."""


def connect(
    url: str,
    *,
    purpose: str = "",
    settings: Mapping[str, str] | None = None,
    patience: float | None = ANSWER_SECONDS,
) -> BoundedConnection:
    """Connect, each statement a transaction of its own. `purpose` is seen in pg_stat_activity.

    Whoever lets the server take longer than usual by his settings has more patience, too.

    Raises `StoreRefused` for what somebody has to mend, and `StoreUnreachable`.
    """
    bounds = {**_BOUNDS, **SESSION_SETTINGS, **(settings or {})}
    try:
        connection = BoundedConnection.connect(_conninfo(url, purpose, bounds), autocommit=True)
    except psycopg.Error as error:
        raise _failure(url, str(error)) from None
    connection.patience = patience
    try:
        _check(connection, url)
    except BaseException:
        connection.close()
        raise
    return connection


def shown(url: str) -> str:
    """Return the URL without its password."""
    return re.sub(r"(?<=://)([^/@:]*):[^/]*@", r"\1@", re.sub(r"password=[^&]*&?", "", url))


def _conninfo(url: str, purpose: str, bounds: Mapping[str, str]) -> str:
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        # The reason would repeat parts of the URL, perhaps the password.
        raise StoreRefused(
            f"{shown(url)} is no URL of a PostgreSQL database; write"
            " postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters as %XX"
        ) from None
    options = " ".join(f"-c {name}={value}" for name, value in bounds.items())
    asked = {
        # Of several hosts the one that can be written to: after a failover, the new primary.
        "target_session_attrs": "read-write",
        "application_name": f"bendybus {purpose}".rstrip(),
        **_PARAMETERS,
        **given,
        "options": f"{given.get('options', '')} {options}".lstrip(),
    }
    return make_conninfo("", **asked)


def _check(connection: psycopg.Connection[tuple[Any, ...]], url: str) -> None:
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        raise StoreRefused(
            f"{shown(url)} is PostgreSQL {version // 10_000}; {OLDEST_SERVER // 10_000} or later"
            " is needed"
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreRefused(
            f"{shown(url)} has the encoding {encoding}; make the database with ENCODING 'UTF8'"
        )


def _failure(url: str, said: str) -> StoreRefused | StoreUnreachable:
    """Tell what people have to mend from what may pass."""
    reason = " ".join(said.split())
    for pattern, advice in _MISTAKES:
        if re.search(pattern, reason):
            return StoreRefused(f"{shown(url)}: {reason}; {advice}")
    return StoreUnreachable(f"{shown(url)}: {reason}")
