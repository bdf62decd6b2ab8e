"""The shipped contract, on an SQLite file that others may have open as well."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.store.port import Store
from bendybus.store.sharing import Heard
from bendybus.store.sqlite.database import Pacing
from bendybus.store.sqlite.shared_store import SharedSqliteStore
from bendybus.testing.store_contract import StoreContract, StoreMaker
from bendybus.testing.store_contract.sharing import Joiner, SharingContract
from tests.store.test_sqlite import SqliteMaker

HASTY = Pacing(attend_seconds=0.02, retry_seconds=0.01)


class FrontEnds:
    """Opens one file any number of times."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stores: list[SharedSqliteStore] = []

    async def __call__(self, heard: Heard | None = None) -> Store:
        store = SharedSqliteStore(0, self._path, pacing=HASTY)
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


class TestSharedSqliteStore(SharingContract):
    @pytest.fixture
    async def join(self, tmp_path: Path) -> AsyncIterator[Joiner]:
        front_ends = FrontEnds(tmp_path / "store.db")
        yield front_ends
        await front_ends.close()


@pytest.mark.prove
class TestSharedSqliteStoreOfOne(StoreContract):
    @pytest.fixture
    async def make_store(self, tmp_path: Path) -> AsyncIterator[StoreMaker]:
        maker = SqliteMaker(tmp_path / "store.db", SharedSqliteStore)
        yield maker
        await maker.close()
