"""Readers: whose one is, how far it has come, and who is told of it."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.errors import EntityNotFound, QuotaExceeded, ReaderInUse, ReaderLost
from bendybus.model.ids import QueueNumber
from bendybus.model.operations import CloseReader, OpenReader, ReaderPlace, Reserve
from bendybus.store.port import Store, Tally
from bendybus.testing.store_contract.reserving import (
    NAME,
    TOKEN,
    commit,
    give_back,
    open_reader,
    read,
    reserve,
    reserved,
)
from bendybus.testing.store_contract.subject import (
    DEAD,
    MAIN,
    NOON,
    ORDERS,
    PART,
    ROOMY,
    StoreSubject,
    after,
    contents,
    contents_of,
    promise,
    send,
)

OTHER = "second"


class ReadersContract(StoreSubject):
    """Promise 14, as far as it says who may."""

    @promise(14)
    async def test_two_readers_have_nothing_in_common(self, store: Store) -> None:
        await send(store, b"a", b"b")
        await open_reader(store)
        await open_reader(store, name="other")
        await reserve(store, 1)
        await reserved(store, Reserve(MAIN, "other", TOKEN, 0, 100, ROOMY))
        assert contents(await read(store)) == [b"a"]
        assert contents(await read(store, name="other")) == [b"b"]
        await commit(store, 1)
        assert await contents_of(store) == [b"b"]

    @promise(14)
    async def test_a_reader_in_use_is_not_given_to_another(self, store: Store) -> None:
        await send(store, b"a", b"b")
        await open_reader(store)
        await reserve(store, 1, now=after(30))
        with pytest.raises(ReaderInUse, match="59 seconds"):
            await open_reader(store, token=OTHER, now=after(89))
        assert await open_reader(store, now=after(89)) == ReaderPlace(1, 0)
        assert await open_reader(store, token=OTHER, now=after(149)) == ReaderPlace(1, 0)
        for refused in (reserve(store, at=1), commit(store, 1), read(store), give_back(store)):
            with pytest.raises(ReaderLost, match="taken over"):
                await refused
        assert contents(await read(store, token=OTHER)) == [b"a"]
        assert await commit(store, 1, token=OTHER) == 1

    @promise(14)
    async def test_whoever_waits_for_messages_is_active(self, store: Store) -> None:
        await open_reader(store)
        await reserve(store, now=after(50))
        with pytest.raises(ReaderInUse):
            await open_reader(store, token=OTHER, now=after(100))

    @promise(14)
    async def test_a_reader_that_was_closed_is_given_to_another_at_once(self, store: Store) -> None:
        await send(store, b"a")
        await open_reader(store)
        await reserve(store)
        closing = CloseReader(MAIN, NAME, TOKEN)
        assert await store.apply([closing], now=after(1)) == [ReaderPlace(1, 0)]
        assert await open_reader(store, token=OTHER, now=after(1)) == ReaderPlace(1, 0)
        assert contents(await read(store, token=OTHER)) == [b"a"]
        with pytest.raises(ReaderLost):
            await store.apply([closing], now=after(2))

    @promise(14)
    async def test_who_opened_earlier_does_not_get_it_back(self, store: Store) -> None:
        await open_reader(store, token=OTHER, now=after(10))
        late = OpenReader(MAIN, NAME, TOKEN, after(9), None, 10)
        with pytest.raises(ReaderLost):
            await store.apply([late], now=after(20))
        soon = OpenReader(MAIN, NAME, TOKEN, after(11), None, 10)
        assert await store.apply([soon], now=after(20)) == [ReaderPlace(0, 0)]

    @promise(14)
    async def test_places_that_are_not_the_readers_are_refused(self, store: Store) -> None:
        with pytest.raises(ReaderLost, match="no reader"):
            await reserve(store)
        await send(store, b"a")
        await open_reader(store)
        await reserve(store)
        for refused in (
            reserve(store, at=2),
            reserve(store, at=-1),
            commit(store, 2),
            read(store, 0, 2),
        ):
            with pytest.raises(ReaderLost, match="none beyond 1"):
                await refused
        await commit(store, 1)
        with pytest.raises(ReaderLost, match="up to 1"):
            await reserve(store, at=0)

    @promise(4)
    async def test_a_queue_has_only_so_many_readers(self, store: Store) -> None:
        await open_reader(store, name="a", readers_max=1)
        with pytest.raises(QuotaExceeded):
            await open_reader(store, name="b", readers_max=1)
        await open_reader(store, name="a", readers_max=1)
        with pytest.raises(EntityNotFound):
            await open_reader(store, queue=QueueNumber(999))

    @promise(14)
    async def test_readers_are_listed_with_what_they_keep(self, store: Store) -> None:
        await send(store, b"a", b"b", b"c")
        await open_reader(store)
        await open_reader(store, queue=PART, name="idle")
        made = await reserve(store, 1, now=after(1))
        await reserve(store, 1, at=1, now=after(2))
        [record] = await store.readers([MAIN])
        assert record[:5] == (MAIN, NAME, TOKEN, 2, 0)
        assert record.opened_at == NOON
        assert (record.messages, record.bytes) == (2, 2 * made.bytes)
        assert (record.active_at, record.oldest_at) == (after(2), after(1))
        assert [(each.name, each.oldest_at) for each in await store.readers()] == [
            (NAME, after(1)),
            ("idle", None),
        ]
        assert await store.readers([DEAD]) == []

    @promise(14)
    async def test_reserved_messages_are_active_and_told_apart(self, store: Store) -> None:
        await send(store, b"a", b"b")
        size = (await store.counts(MAIN)).bytes
        await open_reader(store)
        await reserve(store, 1)
        tallies = await store.tallies([MAIN])
        assert tallies[MAIN] == Tally(2, 0, 0, NOON, size, reserved=1)
        await commit(store, 1)
        tallies = await store.tallies([MAIN])
        assert tallies[MAIN] == Tally(1, 0, 0, NOON, size // 2, reserved=0)

    @promise(14)
    async def test_what_a_deleted_entity_had_reserved_goes_with_it(self, store: Store) -> None:
        await send(store, b"a")
        await send(store, b"b", queue=PART)
        await open_reader(store)
        await open_reader(store, queue=PART)
        await reserve(store)
        await reserve(store, queue=PART)
        while not await store.remove_entity(ORDERS.number, count_max=1):
            continue
        await store.put_entities([ORDERS])
        assert [each.queue for each in await store.readers()] == [PART]
        with pytest.raises(ReaderLost):
            await read(store)
        assert contents(await read(store, queue=PART)) == [b"b"]
