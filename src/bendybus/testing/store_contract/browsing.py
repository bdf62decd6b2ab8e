"""Reading without touching."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.errors import EntityNotFound
from bendybus.model.ids import QueueNumber, sequence_number
from bendybus.model.message import StoredMessage
from bendybus.model.operations import Remove
from bendybus.store.port import Store
from bendybus.testing.store_contract.subject import (
    FRAGMENT_HERE,
    MAIN,
    NOON,
    PART,
    ROOMY,
    StoreSubject,
    browse,
    contents,
    lock,
    promise,
    send,
)


async def page(
    store: Store, start: int, count: int = 100, *, room: int = ROOMY, queue: QueueNumber = MAIN
) -> list[StoredMessage]:
    """Browse one page."""
    return await store.browse(queue, from_sequence=start, count_max=count, bytes_max=room)


class BrowsingContract(StoreSubject):
    """Promise 4: reading changes nothing and hides nothing."""

    @promise(4)
    async def test_pages_follow_each_other_until_all_is_seen_once(self, store: Store) -> None:
        await send(store, *(b"%d" % n for n in range(7)))
        seen: list[bytes] = []
        start = 0
        while found := await page(store, start, 3):
            seen += contents(found)
            start = found[-1].sequence + 1
        assert seen == [b"%d" % n for n in range(7)]

    @promise(4)
    async def test_gaps_are_skipped(self, store: Store) -> None:
        await send(store, b"a", b"b", b"c", b"d")
        [_, b, c, _] = await lock(store)
        await store.apply([Remove(MAIN, [b.lock, c.lock])], now=NOON)
        assert contents(await page(store, 2)) == [b"d"]
        assert contents(await page(store, 1, 2)) == [b"a", b"d"]

    @promise(4)
    @pytest.mark.parametrize(("room", "expected"), [(1, 1), (250, 2), (10_000, 4)])
    async def test_bytes_bound_a_page_but_one_message_always_comes(
        self, store: Store, room: int, expected: int
    ) -> None:
        await send(store, *[b"x" * 100] * 4)
        assert len(await page(store, 0, room=room)) == expected

    @promise(4)
    async def test_browsing_shows_locked_messages_and_changes_nothing(self, store: Store) -> None:
        await send(store, b"a", b"b")
        held = await lock(store, 1)
        before = await browse(store)
        assert before[0] == held[0]
        assert (before[1].locked_until, before[1].nonce, before[1].state) == (None, None, 0)
        assert await browse(store) == before
        assert contents(await lock(store)) == [b"b"]

    @promise(4)
    @pytest.mark.parametrize(
        ("start", "expected"),
        [
            (-(1 << 63), [b"a", b"b"]),
            (0, [b"a", b"b"]),
            (sequence_number(FRAGMENT_HERE, 0), [b"a", b"b"]),
            (sequence_number(FRAGMENT_HERE, 2), [b"b"]),
            (sequence_number(FRAGMENT_HERE, 3), []),
            (sequence_number(FRAGMENT_HERE, 2 + (1 << 44)), []),
            (sequence_number(FRAGMENT_HERE + 1, 0), []),
            ((1 << 64) - 1, []),
        ],
    )
    async def test_any_number_may_be_the_start(
        self, store: Store, start: int, expected: list[bytes]
    ) -> None:
        await send(store, b"a", b"b", queue=PART)
        assert contents(await page(store, start, queue=PART)) == expected

    @promise(4)
    async def test_a_queue_that_is_not_here_is_refused(self, store: Store) -> None:
        with pytest.raises(EntityNotFound):
            await page(store, 0, queue=QueueNumber(99))
        with pytest.raises(EntityNotFound):
            await store.counts(QueueNumber(99))
        with pytest.raises(EntityNotFound):
            await lock(store, queue=QueueNumber(99))
