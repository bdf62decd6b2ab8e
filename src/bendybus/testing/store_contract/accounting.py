"""Counts and quota."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.errors import QuotaExceeded
from bendybus.model.ids import QueueNumber
from bendybus.model.message import Marks, Message
from bendybus.model.operations import Append, Guard, Move, Remove, Unlock
from bendybus.store.port import QueueCounts, Store
from bendybus.testing.store_contract.subject import (
    DEAD,
    MAIN,
    NOON,
    PART,
    StoreMaker,
    StoreSubject,
    after,
    contents_of,
    lock,
    locks,
    promise,
    send,
)

NOTHING = QueueCounts(messages=0, bytes=0)


async def append(store: Store, count: int, *, bytes_max: int, queue: QueueNumber = MAIN) -> None:
    """Send messages of a hundred bytes."""
    messages = [Message(b"x" * 100)] * count
    await store.apply([Append(queue, messages, bytes_max)], now=NOON)


class AccountingContract(StoreSubject):
    """Promise 4: constraints are the store's to keep."""

    @promise(4)
    async def test_counts_follow_what_comes_and_goes(self, store: Store) -> None:
        assert await store.counts(MAIN) == NOTHING
        await send(store, b"x" * 100, b"y" * 50)
        full = await store.counts(MAIN)
        assert full.messages == 2
        assert full.bytes >= 150
        [first, second] = await lock(store)
        assert await store.counts(MAIN) == full
        await store.apply([Unlock(MAIN, [first.lock], is_counted=True)], now=NOON)
        assert await store.counts(MAIN) == full
        await store.apply([Remove(MAIN, [second.lock])], now=NOON)
        await store.apply([Remove(MAIN, locks(await lock(store, nonce=2)))], now=NOON)
        assert await store.counts(MAIN) == NOTHING

    @promise(4)
    async def test_messages_are_counted_per_queue_and_bytes_on_the_main_one(
        self, store: Store
    ) -> None:
        await send(store, b"x" * 100, b"y" * 100)
        before = await store.counts(MAIN)
        [held, _] = await lock(store)
        await store.apply([Move(MAIN, DEAD, held.lock, Marks(), is_counted=False)], now=NOON)
        assert await store.counts(MAIN) == QueueCounts(messages=1, bytes=before.bytes)
        assert await store.counts(DEAD) == QueueCounts(messages=1, bytes=0)
        await store.apply([Remove(DEAD, locks(await lock(store, queue=DEAD)))], now=NOON)
        assert await store.counts(DEAD) == NOTHING
        assert await store.counts(MAIN) == QueueCounts(messages=1, bytes=before.bytes // 2)

    @promise(4)
    async def test_bytes_sent_straight_to_a_sub_queue_are_counted_on_the_main_one(
        self, store: Store
    ) -> None:
        await send(store, b"x" * 100, queue=DEAD)
        assert (await store.counts(DEAD)).bytes == 0
        assert (await store.counts(MAIN)).bytes >= 100
        await store.apply([Remove(DEAD, locks(await lock(store, queue=DEAD)))], now=NOON)
        assert await store.counts(MAIN) == NOTHING

    @promise(4)
    async def test_expired_messages_that_are_removed_are_no_longer_counted(
        self, store: Store
    ) -> None:
        message = Message(b"a", expires_at=after(1))
        await store.apply([Append(MAIN, [message] * 3, 1000)], now=NOON)
        due = await store.due(now=after(1), count_max=10)
        await store.apply([Remove(MAIN, [each.lock for each in due], Guard.FREE)], now=after(1))
        assert await store.counts(MAIN) == NOTHING

    @promise(4)
    @pytest.mark.spec("R1.6")
    async def test_a_full_fragment_refuses_until_there_is_room(self, store: Store) -> None:
        await append(store, 2, bytes_max=300)
        with pytest.raises(QuotaExceeded, match="300"):
            await append(store, 1, bytes_max=300)
        [first, _] = await lock(store)
        await store.apply([Remove(MAIN, [first.lock])], now=NOON)
        await append(store, 1, bytes_max=300)
        assert (await store.counts(MAIN)).messages == 2

    @promise(4)
    @pytest.mark.spec("R1.6")
    async def test_a_fragment_may_be_filled_to_the_last_byte(self, store: Store) -> None:
        await append(store, 1, bytes_max=1000)
        size = (await store.counts(MAIN)).bytes
        await append(store, 2, bytes_max=3 * size)
        with pytest.raises(QuotaExceeded):
            await store.apply([Append(MAIN, [Message(b"")], 3 * size)], now=NOON)

    @promise(4)
    @pytest.mark.spec("R1.6")
    async def test_dead_letters_count_towards_the_quota(self, store: Store) -> None:
        await append(store, 2, bytes_max=300)
        moves = [
            Move(MAIN, DEAD, each.lock, Marks(), is_counted=False) for each in await lock(store)
        ]
        await store.apply(moves, now=NOON)
        for queue in (MAIN, DEAD):
            with pytest.raises(QuotaExceeded):
                await append(store, 1, bytes_max=300, queue=queue)

    @promise(4)
    @pytest.mark.spec("R1.6")
    async def test_one_full_fragment_leaves_the_others_alone(self, store: Store) -> None:
        await append(store, 2, bytes_max=300)
        await append(store, 2, bytes_max=300, queue=PART)
        assert len(await contents_of(store, PART)) == 2

    @promise(1)
    async def test_counts_are_there_after_reopening(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b")
        before = await store.counts(MAIN)
        again = await make_store()
        assert await again.counts(MAIN) == before
