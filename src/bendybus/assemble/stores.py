"""Opens the stores: files in the data folder, or databases that servers keep."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from bendybus.doors.arrivals import Arrivals
from bendybus.model.errors import StartRefused, StoreRefused
from bendybus.model.store_place import StorePlace, read_place
from bendybus.settings import Settings
from bendybus.store.identity import StoreIdentity
from bendybus.store.port import Store
from bendybus.store.sqlite.data_folder import store_file, url_file
from bendybus.store.sqlite.shared_store import SharedSqliteStore
from bendybus.store.sqlite.store import SqliteStore

URL_BYTES_MAX: Final = 4096


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
    settings: Settings, arrivals: Arrivals | None = None
) -> AsyncIterator[Sequence[Store]]:
    """Open every store; one that fails is served without, and retried.

    A worker, which has `arrivals`, shares the files with others; databases are always shared.
    """
    stores = await _stores(settings, arrivals)
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
) -> OpenedStore:
    """Make the store that is kept in a file or a database; it is not open yet.

    A database must be the store that `identity` says; a file may be shared by several workers.
    """
    if isinstance(place, Path):
        return SharedSqliteStore(number, place) if is_shared else SqliteStore(number, place)
    assert identity is not None, "a database is some store of some cluster"
    # Only who has such stores needs the driver.
    from bendybus.store.postgres.store import PostgresStore

    return PostgresStore(number, place.url, identity=identity)


def places_of(settings: Settings) -> list[Path | StorePlace]:
    """Say where each store is, by number. A store of the folder may have moved to a server."""
    if settings.places:
        return list(settings.places)
    return [_place_in(settings.data, number) for number in range(settings.stores)]


def _place_in(folder: Path, number: int) -> Path | StorePlace:
    moved = url_file(folder, number)
    try:
        with moved.open("rb") as file:
            url = file.read(URL_BYTES_MAX).decode()
    except FileNotFoundError:
        return store_file(folder, number)
    return read_place(url, str(moved))


async def _stores(settings: Settings, arrivals: Arrivals | None) -> Sequence[OpenedStore]:
    places = places_of(settings)
    at_servers = {
        number: place for number, place in enumerate(places) if isinstance(place, StorePlace)
    }
    identities: dict[int, StoreIdentity] = {}
    if at_servers:
        _require_driver(next(iter(at_servers.values())))
        from bendybus.assemble.servers import identify

        # The first worker looks whether there is room for all, before there are others.
        is_first = arrivals is None or arrivals.number == 0
        front_ends = settings.workers if is_first else 1
        for number, found in (await identify(settings, at_servers, front_ends=front_ends)).items():
            places[number], identities[number] = found
    return [
        store_at(number, place, identity=identities.get(number), is_shared=arrivals is not None)
        for number, place in enumerate(places)
    ]


def _require_driver(place: StorePlace) -> None:
    """Say what to install where the driver is not; without stores at servers nobody needs it."""
    try:
        import psycopg  # noqa: F401 - whether it is there, with the library that it needs
    except ImportError:
        raise StoreRefused(
            f"{place} needs the driver for PostgreSQL: pip install 'bendybus[postgres]'"
        ) from None
