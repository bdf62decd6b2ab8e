"""Opens the stores: files in the data folder, or databases that servers keep."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bendybus.model.errors import StartRefused, StoreRefused
from bendybus.model.store_place import StorePlace, read_place
from bendybus.settings import Settings
from bendybus.store.identity import StoreIdentity
from bendybus.store.port import Store
from bendybus.store.sqlite.data_folder import store_file, url_file
from bendybus.store.sqlite.shared_store import SharedSqliteStore, is_surely_moved
from bendybus.store.sqlite.store import SqliteStore

URL_BYTES_MAX: Final = 4096
# How often a worker looks whether another one is done with moving a store.
SURE_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Crew:
    """What a worker knows of all of them when it opens the stores."""

    # How many of them it must find room for at the servers.
    front_ends: int
    # The stores that were at servers when the broker started. Others were moved there since, by one
    # of the workers, and are theirs alone until the broker is started anew.
    at_servers: frozenset[int]


class OpenedStore(Store, Protocol):
    """A store, as the one who opens it sees it."""

    async def start(self) -> None:
        """Open it; one that cannot be opened has failed, and is tried again by itself."""
        ...

    async def close(self) -> None:
        """Finish what waits, and let it go."""
        ...


@asynccontextmanager
async def open_stores(
    settings: Settings, crew: Crew | None = None
) -> AsyncIterator[Sequence[Store]]:
    """Open every store; one that fails is served without, and retried.

    A worker, which has a `crew`, shares the files with others; databases are always shared.
    """
    stores = await _stores(settings, crew)
    try:
        await asyncio.gather(*(store.start() for store in stores))
        if not any(store.is_online for store in stores):
            raise StartRefused(f"no store can be opened: {stores[0].status().reason}")
        yield stores
    finally:
        await asyncio.gather(*(store.close() for store in stores))


def store_at(
    number: int,
    place: Path | StorePlace,
    *,
    identity: StoreIdentity | None = None,
    is_shared: bool = False,
    is_alone: bool = False,
) -> OpenedStore:
    """Make the store that is kept in a file or a database; it is not open yet.

    A database must be the store that `identity` says, and may be one that no other broker serves
    from at the same time; a file may be shared by several workers.
    """
    if isinstance(place, Path):
        return SharedSqliteStore(number, place) if is_shared else SqliteStore(number, place)
    assert identity is not None, "a database is some store of some cluster"
    # Only who has such stores needs the driver.
    from bendybus.store.postgres.store import PostgresStore

    return PostgresStore(number, place.url, identity=identity, is_alone=is_alone)


def places_of(settings: Settings) -> list[Path | StorePlace]:
    """Say where each store is, by number. A store of the folder may have moved to a server."""
    if settings.places:
        return list(settings.places)
    return [place_in(settings.data, number) for number in range(settings.stores)]


def stores_at_servers(settings: Settings) -> frozenset[int]:
    """Say which stores are at servers, by number."""
    places = enumerate(places_of(settings))
    return frozenset(number for number, place in places if isinstance(place, StorePlace))


def place_in(folder: Path, number: int) -> Path | StorePlace:
    """Say where a store of the folder is. Raises `SettingInvalid` if a file says nonsense."""
    moved = url_file(folder, number)
    try:
        with moved.open("rb") as file:
            url = file.read(URL_BYTES_MAX).decode()
    except FileNotFoundError:
        return store_file(folder, number)
    return read_place(url, str(moved))


async def _stores(settings: Settings, crew: Crew | None) -> Sequence[OpenedStore]:
    places = places_of(settings)
    if crew is not None and not settings.places:
        places = await _sure_places(settings, places, crew)
    at_servers = {
        number: place for number, place in enumerate(places) if isinstance(place, StorePlace)
    }
    identities: dict[int, StoreIdentity] = {}
    if at_servers:
        _require_driver(next(iter(at_servers.values())))
        from bendybus.assemble.servers import identify

        front_ends = settings.workers if crew is None else crew.front_ends
        for number, found in (await identify(settings, at_servers, front_ends=front_ends)).items():
            places[number], identities[number] = found
    return [
        store_at(
            number,
            place,
            identity=identities.get(number),
            is_shared=crew is not None,
            is_alone=crew is not None and number not in crew.at_servers,
        )
        for number, place in enumerate(places)
    ]


async def _sure_places(
    settings: Settings, places: list[Path | StorePlace], crew: Crew
) -> list[Path | StorePlace]:
    """Wait until it is certain where stores are that one of the other workers is just moving."""
    for number, place in enumerate(places):
        if isinstance(place, StorePlace) and number not in crew.at_servers:
            while not is_surely_moved(store_file(settings.data, number)):
                if isinstance(place_in(settings.data, number), Path):
                    break
                await asyncio.sleep(SURE_SECONDS)
    return places_of(settings)


def _require_driver(place: StorePlace) -> None:
    """Say what to install where the driver is not; without stores at servers nobody needs it."""
    try:
        import psycopg  # noqa: F401 - whether it is there, with the library that it needs
    except ImportError:
        raise StoreRefused(
            f"{place} needs the driver for PostgreSQL: pip install 'bendybus[postgres]'"
        ) from None
