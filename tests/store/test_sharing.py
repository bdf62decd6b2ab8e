"""The shipped contract of stores that several front ends share, on every kind of them."""

from collections.abc import AsyncIterator

import pytest

from bendybus.store.port import Store
from bendybus.store.postgres.store import PostgresStore
from bendybus.store.sharing import Heard
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.store_contract.sharing import Joiner, SharingContract
from tests.store.makers import POSTGRESQL, SHARED_SQLITE, Place, place_of


class FrontEnds:
    """Opens the store of one place any number of times."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._stores: list[PostgresStore | SqliteStore] = []

    async def __call__(self, heard: Heard | None = None) -> Store:
        store = self._place.opened()
        if heard is not None:
            store.listen(heard)
        await store.start()
        self._stores.append(store)
        return store

    async def leave(self, store: Store) -> None:
        [leaving] = [each for each in self._stores if each is store]
        await leaving.close()

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


class TestSharedStore(SharingContract):
    @pytest.fixture(params=[SHARED_SQLITE, POSTGRESQL])
    async def join(self, request: pytest.FixtureRequest) -> AsyncIterator[Joiner]:
        front_ends = FrontEnds(place_of(request.param, request))
        yield front_ends
        await front_ends.close()
