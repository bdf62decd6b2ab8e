"""Looks at the databases of all stores before any of them is opened, whether they are the ones.

What somebody has to mend is refused, and nothing was written then; a server that cannot be reached
is left out, as a store may be away at any time. New databases are claimed one after the other, in
the order of the list, so that a start that was cut off, and front ends that start at once, find
some of the first ones claimed, and the rest may follow.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any, Final

import psycopg

from bendybus.model.errors import StartRefused, StoreMismatch, StoreRefused
from bendybus.model.store_place import StorePlace, read_place
from bendybus.settings import Settings
from bendybus.store.identity import StoreIdentity, agree
from bendybus.store.postgres.connecting import StoreUnreachable, connect
from bendybus.store.postgres.identity import StoreMoved, claim, read_identity
from bendybus.store.postgres.migrating import check_tables
from bendybus.store.postgres.store import CONNECTIONS_PER_STORE
from bendybus.store.sqlite.data_folder import cluster_of

# A store that moved may have moved before.
MOVES_MAX: Final = 8
CONNECTING_MAX: Final = 16
# A server is known by when it started: two of its names are one server.
_LOOK: Final = """
SELECT extract(epoch FROM pg_postmaster_start_time())::text,
    (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
    has_database_privilege(current_database(), 'CREATE'),
    (SELECT system_identifier::text FROM pg_control_system())
"""
_HAS_TABLES: Final = "SELECT to_regclass('bendybus.identity') IS NOT NULL"

_log = logging.getLogger(__name__)
_Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Looked:
    """What a database says of itself and its server."""

    place: StorePlace
    server: str
    database: int
    # Says the same to all who look, and of no other database: made of numbers given at creation.
    birthmark: str
    # How many sessions the server allows, and has, those of this look among them.
    sessions_max: int
    sessions: int
    identity: StoreIdentity | None


async def identify(
    settings: Settings, places: Mapping[int, StorePlace], *, front_ends: int
) -> dict[int, tuple[StorePlace, StoreIdentity]]:
    """Say where each store is now, and which one it must be.

    `front_ends` is how many of them this process counts for. Raises `StartRefused`.
    """
    try:
        found, identities = await asyncio.to_thread(_agreed, settings, places, front_ends)
    except StoreMismatch:
        # Another front end may have claimed some between two glances; a second look sees all.
        found, identities = await asyncio.to_thread(_agreed, settings, places, front_ends)
    await asyncio.to_thread(_claim, found, identities)
    now_at = dict(places)
    for number, looked in found.items():
        now_at[number] = looked.place
        if looked.place != places[number]:
            _log.warning(
                "store %d has moved from %s to %s: list that one at the next start",
                number,
                places[number],
                looked.place,
            )
    return {
        number: (
            now_at[number],
            # A file, or the database before, says that the store is there.
            replace(identities[number], follows=not settings.places or now_at[number] != place),
        )
        for number, place in places.items()
    }


def check_room(place: StorePlace, *, front_ends: int) -> None:
    """Refuse a database whose server has no room for so many front ends.

    Raises `StoreRefused`, and `StoreUnreachable`.
    """
    with closing(connect(place.url, purpose="look")) as connection:
        looked = _look(place, connection)
    if looked is None:
        raise StoreUnreachable(f"{place} cannot be reached any more")
    _check_sessions([looked], front_ends)


def _agreed(
    settings: Settings, places: Mapping[int, StorePlace], front_ends: int
) -> tuple[dict[int, Looked], dict[int, StoreIdentity]]:
    """Look at the databases, and say which stores they are to be."""
    found = _look_at_all(places, is_needed=bool(settings.places))
    _check_apart(found)
    _check_sessions(list(found.values()), front_ends)
    return found, _identities(settings, places, found)


def _claim(found: Mapping[int, Looked], identities: Mapping[int, StoreIdentity]) -> None:
    """Make those that are empty ours. The count is what there is so far; opening makes it whole."""
    for number, looked in sorted(found.items()):
        if looked.identity is None:
            identity = replace(identities[number], count=number + 1)
            try:
                with closing(connect(looked.place.url, purpose="claim")) as connection:
                    claim(connection, identity, str(looked.place))
            except (StoreUnreachable, psycopg.Error) as error:
                raise StartRefused(f"{looked.place} cannot be set up: {error}") from None


def _look_at_all(places: Mapping[int, StorePlace], *, is_needed: bool) -> dict[int, Looked]:
    """Look at every database that can be reached, all connected at the same time."""
    with ExitStack() as stack, ThreadPoolExecutor(CONNECTING_MAX) as threads:
        asked = {number: threads.submit(_reach, place) for number, place in places.items()}
        reached: dict[int, tuple[StorePlace, _Connection]] = {}
        refusals: list[StartRefused] = []
        reason = ""
        for number, each in asked.items():
            try:
                place, connection = each.result()
            except StoreUnreachable as error:
                reason = str(error)
                _log.warning("store %d cannot be reached: %s", number, reason)
            except StartRefused as refusal:
                refusals.append(refusal)
            else:
                reached[number] = place, stack.enter_context(closing(connection))
        if refusals:
            raise refusals[0]
        if not reached and is_needed:
            raise StartRefused(f"no store can be reached: {reason}")
        looked = {number: _look(*each) for number, each in reached.items()}
        return {number: each for number, each in looked.items() if each is not None}


def _reach(place: StorePlace) -> tuple[StorePlace, _Connection]:
    """Connect to a store, wherever it has moved. Raises `StoreRefused`, `StoreUnreachable`."""
    for _ in range(MOVES_MAX):
        connection = connect(place.url, purpose="look")
        try:
            _read_identity(connection, place)
        except StoreMoved as moved:
            connection.close()
            place = read_place(moved.url, f"where {place} says that it has moved to")
        except BaseException:
            connection.close()
            raise
        else:
            return place, connection
    raise StoreRefused(f"{place}: stores say that they have moved to each other")


def _read_identity(connection: _Connection, place: StorePlace) -> StoreIdentity | None:
    try:
        check_tables(connection, str(place))
        [(has_tables,)] = connection.execute(_HAS_TABLES).fetchall()
        return read_identity(connection) if has_tables else None
    except psycopg.errors.InsufficientPrivilege as error:
        raise StoreRefused(
            f"{place}: {error.diag.message_primary}; log in as the role that made the tables"
        ) from None
    except psycopg.Error as error:
        raise StoreUnreachable(f"{place}: {error.diag.message_primary or error}") from None


def _look(place: StorePlace, connection: _Connection) -> Looked | None:
    """Return what a database says; None if its server went away just now."""
    try:
        [row] = connection.execute(_LOOK).fetchall()
        identity = _read_identity(connection, place)
    except (psycopg.OperationalError, StoreUnreachable) as error:
        _log.warning("%s cannot be reached any more: %s", place, error)
        return None
    server, database, sessions_max, sessions, may_create, system = row
    if identity is None and not may_create:
        role = connection.info.user
        raise StoreRefused(
            f"{place}: the role {role} may not make tables there; GRANT CREATE ON DATABASE"
            f" {connection.info.dbname} TO {role}"
        )
    birthmark = f"{system}-{database}"
    return Looked(place, server, database, birthmark, sessions_max, sessions, identity)


def _check_apart(found: Mapping[int, Looked]) -> None:
    """Refuse a database that is listed by two names."""
    seen: dict[tuple[str, int], int] = {}
    for number, looked in found.items():
        first = seen.setdefault((looked.server, looked.database), number)
        if first != number:
            raise StoreMismatch(
                f"stores {first} and {number} are the same database ({found[first].place} and"
                f" {looked.place}); every store needs one of its own"
            )


def _check_sessions(found: Sequence[Looked], front_ends: int) -> None:
    """Refuse to start where a server has not room for our sessions: some would fail later."""
    servers: dict[str, list[Looked]] = defaultdict(list)
    for looked in found:
        servers[looked.server].append(looked)
    for stores in servers.values():
        first = stores[0]
        others = first.sessions - len(stores)
        needed = len(stores) * CONNECTIONS_PER_STORE * front_ends
        if others + needed > first.sessions_max:
            raise StoreRefused(
                f"the server of {first.place} allows {first.sessions_max} sessions, others have"
                f" {others}, and {needed} are needed here ({CONNECTIONS_PER_STORE} for each of"
                f" {len(stores)} stores and each of {front_ends} front ends); raise max_connections"
                " in its postgresql.conf and start it again"
            )


def _identities(
    settings: Settings, places: Mapping[int, StorePlace], found: Mapping[int, Looked]
) -> dict[int, StoreIdentity]:
    names = sorted(chosen.namespace.name for chosen in settings.namespaces)
    if settings.places:
        identities = agree(
            {
                number: _completed(looked, is_followed=looked.place != places[number])
                for number, looked in found.items()
            },
            [str(place) for place in settings.places],
            names,
            # Front ends that start at once must not name it each for itself.
            new_cluster=found[min(found)].birthmark,
        )
        return dict(enumerate(identities))
    # Stores that were moved out of the data folder, one by one.
    cluster = cluster_of(settings.data)
    moved = {
        number: StoreIdentity(cluster, number, settings.stores, tuple(names), follows=True)
        for number in places
    }
    for number, looked in found.items():
        if looked.identity is None:
            raise StoreMismatch(moved[number].is_empty(str(looked.place)))
        moved[number].taken_up(looked.identity, str(looked.place))
    return moved


def _completed(looked: Looked, *, is_followed: bool) -> StoreIdentity | None:
    """Say which store it is: a copy that the place before has sent us to is the store."""
    if looked.identity is None or not is_followed:
        return looked.identity
    return replace(looked.identity, is_copy=False)
