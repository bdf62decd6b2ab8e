"""Messages set aside, and had back by their sequence numbers."""
# ruff: noqa: D102 - the name of a test is its sentence

from collections.abc import Sequence

from bendybus.model.ids import Instant
from bendybus.model.message import MessageState, StoredMessage
from bendybus.model.operations import Remove, SetAside, Unlock
from bendybus.store.port import AcquireDeferred, Store
from bendybus.testing.store_contract.subject import (
    LOCK_MS,
    MAIN,
    NOON,
    StoreMaker,
    StoreSubject,
    browse,
    contents,
    contents_of,
    lock,
    promise,
    send,
)

UNTIL = Instant(NOON + LOCK_MS)


async def had_back(
    store: Store, sequences: Sequence[int], *, nonce: int = 50
) -> list[StoredMessage]:
    """Lock deferred messages."""
    request = AcquireDeferred(MAIN, sequences, UNTIL, nonce)
    return await store.acquire_deferred(request, now=NOON)


class DeferringContract(StoreSubject):
    """Promises 2 and 6 as far as deferred messages go."""

    @promise(6)
    async def test_a_deferred_message_is_no_longer_acquired(self, store: Store) -> None:
        await send(store, b"a", b"b")
        [first, _] = await lock(store)
        assert await store.apply([SetAside(MAIN, [first.lock])], now=NOON) == [[]]
        assert await lock(store, nonce=2) == []
        [deferred, _] = await browse(store)
        assert (deferred.content, deferred.state) == (b"a", MessageState.DEFERRED)
        assert (deferred.locked_until, deferred.delivery_count) == (None, 0)

    @promise(2)
    async def test_a_deferred_message_is_had_back_under_one_lock_at_a_time(
        self, store: Store
    ) -> None:
        await send(store, b"a")
        [first] = await lock(store)
        await store.apply([SetAside(MAIN, [first.lock])], now=NOON)
        [held] = await had_back(store, [first.sequence])
        assert (held.content, held.state) == (b"a", MessageState.DEFERRED)
        assert (held.locked_until, held.nonce) == (UNTIL, 50)
        assert await had_back(store, [first.sequence], nonce=51) == []
        await store.apply([Unlock(MAIN, [held.lock], is_counted=True)], now=NOON)
        [again] = await had_back(store, [first.sequence], nonce=52)
        assert (again.state, again.delivery_count) == (MessageState.DEFERRED, 1)
        assert await store.apply([Remove(MAIN, [again.lock])], now=NOON) == [[]]
        assert await contents_of(store) == []

    @promise(4)
    async def test_only_who_holds_the_lock_defers(self, store: Store) -> None:
        await send(store, b"a")
        [held] = await lock(store)
        stranger = held.lock._replace(nonce=held.lock.nonce + 1)
        assert await store.apply([SetAside(MAIN, [stranger])], now=NOON) == [[held.sequence]]
        assert await store.apply([SetAside(MAIN, [held.lock])], now=UNTIL) == [[held.sequence]]

    @promise(6)
    async def test_what_is_not_deferred_is_not_had_back(self, store: Store) -> None:
        await send(store, b"active", b"deferred")
        [_, second] = await lock(store)
        await store.apply([SetAside(MAIN, [second.lock])], now=NOON)
        assert contents(await had_back(store, [1, 2, 3, 1 << 60])) == [b"deferred"]
        assert await had_back(store, []) == []

    @promise(1)
    async def test_a_message_is_deferred_after_reopening_too(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a")
        [first] = await lock(store)
        await store.apply([SetAside(MAIN, [first.lock])], now=NOON)
        again = await make_store()
        assert contents(await had_back(again, [first.sequence])) == [b"a"]
