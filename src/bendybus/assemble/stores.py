"""Opens the stores: files in the data folder, or databases that servers keep."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from bendybus.model.errors import StartRefused, StoreRefused
from bendybus.model.store_place import StorePlace, read_place
from bendybus.settings import Settings
from bendybus.store.port import Store
from bendybus.store.sqlite.data_folder import store_file, url_file
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
    settings: Settings, *, is_shared: bool = False
) -> AsyncIterator[Sequence[Store]]:
    """Open every store; one that fails is served without, and retried.

    Files may be shared with other workers; databases always are.
    """
    stores = await _stores(settings, is_shared=is_shared)
    try:
        await asyncio.gather(*(store.start() for store in stores))
        if not any(store.is_online for store in stores):
            raise StartRefused(f"no store can be opened: {stores[0].status().reason}")
        yield stores
    finally:
        await asyncio.gather(*(store.close() for store in stores))


def store_at(number: int, place: Path | StorePlace, *, is_shared: bool) -> OpenedStore:
    """Make the store that is kept in a file or a database; it is not open yet."""
    if isinstance(place, Path):
        if is_shared:
            raise StoreRefused("workers cannot share embedded stores yet")
        return SqliteStore(number, place)
    raise StoreRefused(f"{place} cannot be served yet")


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


async def _stores(settings: Settings, *, is_shared: bool) -> Sequence[OpenedStore]:
    return [
        store_at(number, place, is_shared=is_shared)
        for number, place in enumerate(places_of(settings))
    ]
