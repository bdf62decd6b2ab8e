"""The shipped contract, on every kind of store."""

from collections.abc import AsyncIterator

import pytest

from bendybus.model.message import Marks
from bendybus.model.operations import Move, Remove
from bendybus.store.port import Store
from bendybus.testing.store_contract import StoreContract, StoreMaker
from bendybus.testing.store_contract.subject import DEAD, MAIN, NOON, lock, send
from tests.store.makers import POSTGRESQL, SHARED_SQLITE, SQLITE, Maker, place_of

ENGINES = [SQLITE, POSTGRESQL, pytest.param(SHARED_SQLITE, marks=pytest.mark.prove)]


class TestStore(StoreContract):
    @pytest.fixture(params=ENGINES)
    async def make_store(self, request: pytest.FixtureRequest) -> AsyncIterator[StoreMaker]:
        maker = Maker(place_of(request.param, request))
        yield maker
        await maker.close()

    async def test_no_content_is_left_behind_by_removals(
        self, store: Store, make_store: Maker
    ) -> None:
        await send(store, b"sent there", queue=DEAD)
        await send(store, b"moved", b"moved too", b"removed here")
        [first, second, third] = await lock(store)
        marks = Marks("why")
        await store.apply(
            [
                Move(MAIN, DEAD, first.lock, marks, is_counted=False),
                Move(MAIN, DEAD, second.lock, marks, is_counted=False),
                Remove(MAIN, [third.lock]),
            ],
            now=NOON,
        )
        [sent, *moved] = await lock(store, queue=DEAD)
        await store.apply([Remove(DEAD, [sent.lock, moved[0].lock])], now=NOON)
        assert make_store.contents_left() == 1
        await store.apply([Remove(DEAD, [moved[1].lock])], now=NOON)
        assert make_store.contents_left() == 0
