"""Which store a database says it is: read, and written when it becomes one."""

import json
from typing import Final

import psycopg

from bendybus.model.errors import StoreMismatch
from bendybus.store.identity import StoreIdentity
from bendybus.store.postgres.locks import TAKE_TURN
from bendybus.store.postgres.migrating import make_tables

_READ = "SELECT cluster, number, count, namespaces, moved_to FROM bendybus.identity"
_CLAIM = (
    "INSERT INTO bendybus.identity (cluster, number, count, namespaces) VALUES (%s, %s, %s, %s)"
)
_RENEW = "UPDATE bendybus.identity SET cluster = %s, count = %s, namespaces = %s"
# Before the name of the cluster, while a store is copied here.
MOVING: Final = "moving:"


class StoreMoved(Exception):
    """What the store held is in another database now; the URL of that one may have a password."""

    def __init__(self, url: str) -> None:
        super().__init__("the store has moved to another database")
        self.url = url


def read_identity(connection: "psycopg.Connection[tuple[object, ...]]") -> StoreIdentity | None:
    """Return what the database says; None if nobody has claimed it. Raises `StoreMoved`.

    Its tables must be there.
    """
    row = connection.execute(_READ).fetchone()
    if row is None:
        return None
    cluster, number, count, namespaces, moved_to = row
    if moved_to is not None:
        raise StoreMoved(str(moved_to))
    names = tuple(map(str, json.loads(str(namespaces))))
    name = str(cluster)
    return StoreIdentity(
        name.removeprefix(MOVING),
        int(str(number)),
        int(str(count)),
        names,
        is_copy=name.startswith(MOVING),
    )


def claim(
    connection: "psycopg.Connection[tuple[object, ...]]", identity: StoreIdentity, shown: str
) -> None:
    """Make the tables of a database, and claim it unless it is ours already."""
    make_tables(connection, shown)
    with connection.transaction():
        connection.execute(TAKE_TURN)
        check_or_claim(connection, identity, shown)


def check_or_claim(
    connection: "psycopg.Connection[tuple[object, ...]]", identity: StoreIdentity, shown: str
) -> None:
    """Compare, and take up what is new; claim the database if nobody has.

    Within a transaction that no other front end can be in. Raises `StoreMismatch`, `StoreMoved`.
    """
    there = read_identity(connection)
    if there is None:
        if not identity.may_claim:
            raise StoreMismatch(identity.is_empty(shown))
        names = json.dumps(identity.namespaces)
        connection.execute(_CLAIM, (identity.cluster, identity.number, identity.count, names))
        return
    known = identity.taken_up(there, shown)
    if known != there:
        connection.execute(_RENEW, (known.cluster, known.count, json.dumps(known.namespaces)))
