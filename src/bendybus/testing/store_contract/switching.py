"""Taking a store out of service and back."""
# ruff: noqa: D102 - the name of a test is its sentence

import asyncio

import pytest

from bendybus.model.errors import StoreUnavailable
from bendybus.model.store_status import StoreState
from bendybus.store.port import Store
from bendybus.testing.store_contract.subject import (
    MAIN,
    NOON,
    ORDERS,
    StoreSubject,
    browse,
    contents_of,
    lock,
    promise,
    send,
)


class SwitchingContract(StoreSubject):
    """Promise 9, as far as it goes without a broken disk."""

    @promise(9)
    async def test_a_store_taken_offline_refuses_every_call_and_says_why(
        self, store: Store
    ) -> None:
        await store.take_offline("a drill")
        status = store.status()
        assert (status.state, status.reason) == (StoreState.OFFLINE, "a drill")
        assert not store.is_online
        calls = [
            send(store, b"a"),
            lock(store),
            browse(store),
            store.find_locked(MAIN, [], now=NOON),
            store.due(now=NOON, count_max=1),
            store.counts(MAIN),
            store.entities(),
            store.put_entities([ORDERS]),
        ]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * len(calls)
        assert "a drill" in str(outcomes[0])

    @promise(9)
    async def test_a_store_brought_back_has_all_it_had(self, store: Store) -> None:
        await send(store, b"a", b"b")
        held = await lock(store, 1)
        await store.take_offline("a drill")
        await store.bring_online()
        assert (store.status().state, store.status().reason) == (StoreState.ONLINE, None)
        assert (await browse(store))[0] == held[0]
        assert await send(store, b"c") == [3]

    @promise(9)
    async def test_every_return_of_a_store_can_be_seen(self, store: Store) -> None:
        openings = store.openings
        await store.bring_online()
        assert store.openings == openings
        await store.take_offline("a drill")
        assert store.openings == openings
        await store.bring_online()
        assert store.openings == openings + 1

    @promise(9)
    async def test_calls_made_before_going_offline_are_finished(self, store: Store) -> None:
        calls = [asyncio.ensure_future(send(store, b"%d" % n)) for n in range(50)]
        await asyncio.sleep(0)
        await store.take_offline("a drill")
        assert [await call for call in calls] == [[n] for n in range(1, 51)]
        with pytest.raises(StoreUnavailable):
            await send(store, b"late")
        await store.bring_online()
        assert await contents_of(store) == [b"%d" % n for n in range(50)]

    @promise(9)
    async def test_switching_twice_is_harmless(self, store: Store) -> None:
        await store.bring_online()
        assert await send(store, b"a") == [1]
        await store.take_offline("first")
        await store.take_offline("second")
        assert store.status().reason == "second"
        await store.bring_online()
        await store.bring_online()
        assert await contents_of(store) == [b"a"]
