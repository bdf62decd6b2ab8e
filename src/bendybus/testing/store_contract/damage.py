"""Messages whose bytes changed on disk."""
# ruff: noqa: D102 - the name of a test is its sentence

import logging

import pytest

from bendybus.model.ids import Instant
from bendybus.model.message import Marks, Message
from bendybus.model.operations import Append, Guard, Move, Remove, Rewrite, Unlock
from bendybus.store.port import Store
from bendybus.testing.store_contract.subject import (
    DEAD,
    LOCK_MS,
    MAIN,
    NOON,
    ROOMY,
    StoreMaker,
    StoreSubject,
    contents,
    contents_of,
    lock,
    promise,
    send,
)

FIVE = (b"a", b"b", b"c", b"d", b"e")
some_of_five = pytest.mark.parametrize(
    "spoiled", [[1], [5], [2, 3, 4], [1, 3, 5], [1, 2, 3, 4, 5]], ids=str
)


def rest(spoiled: list[int]) -> list[bytes]:
    """Return what is left of the five."""
    return [content for at, content in enumerate(FIVE, 1) if at not in spoiled]


class DamageContract(StoreSubject):
    """Promise 7."""

    @promise(7)
    @some_of_five
    async def test_spoiled_messages_are_set_aside_and_the_rest_goes_on(
        self, store: Store, make_store: StoreMaker, spoiled: list[int]
    ) -> None:
        await send(store, *FIVE)
        for sequence in spoiled:
            make_store.spoil_content(MAIN, sequence)
        assert contents(await lock(store)) == rest(spoiled)
        assert await contents_of(store) == rest(spoiled)

    @promise(7)
    @some_of_five
    async def test_messages_without_content_are_set_aside_and_the_rest_goes_on(
        self, store: Store, make_store: StoreMaker, spoiled: list[int]
    ) -> None:
        await send(store, *FIVE)
        for sequence in spoiled:
            make_store.lose_content(MAIN, sequence)
        assert contents(await lock(store)) == rest(spoiled)
        assert await contents_of(store) == rest(spoiled)

    @promise(7)
    async def test_behind_a_page_of_damage_the_good_ones_are_found(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, *FIVE)
        for sequence in (1, 2, 3):
            make_store.spoil_content(MAIN, sequence)
        make_store.lose_content(MAIN, 4)
        found = await store.browse(MAIN, from_sequence=0, count_max=1, bytes_max=1)
        assert contents(found) == [b"e"]
        assert contents(await lock(store, 1)) == [b"e"]

    @promise(7)
    async def test_acquiring_finds_the_good_ones_behind_a_page_of_damage(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, *FIVE)
        for sequence in (1, 2, 3, 4):
            make_store.spoil_content(MAIN, sequence)
        assert contents(await lock(store, 2)) == [b"e"]

    @promise(7)
    async def test_damage_is_reported_once(
        self, store: Store, make_store: StoreMaker, caplog: pytest.LogCaptureFixture
    ) -> None:
        await send(store, *FIVE)
        make_store.spoil_content(MAIN, 2)
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                await contents_of(store)
                await lock(store)
        again = await make_store()
        with caplog.at_level(logging.ERROR):
            await contents_of(again)
        assert len(caplog.records) == 1
        assert "sequence=2" in caplog.text

    @promise(7)
    async def test_damage_under_a_lock_ends_the_lock(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b")
        [a, b] = await lock(store)
        make_store.spoil_content(MAIN, a.sequence)
        assert await store.find_locked(MAIN, [a.lock, b.lock], now=NOON) == [b]
        assert await store.apply([Remove(MAIN, [a.lock])], now=NOON) == [[a.sequence]]
        assert await store.due(now=Instant(NOON + LOCK_MS - 1), count_max=9) == []

    @promise(7)
    async def test_a_damaged_message_is_neither_due_nor_expired(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        message = Message(b"a", expires_at=Instant(NOON + LOCK_MS))
        await store.apply([Append(MAIN, [message], ROOMY)], now=NOON)
        [held] = await lock(store)
        make_store.spoil_content(MAIN, held.sequence)
        assert await contents_of(store) == []
        later = Instant(NOON + 10 * LOCK_MS)
        assert await store.due(now=later, count_max=9) == []
        removal = Remove(MAIN, [held.lock], Guard.FREE)
        assert await store.apply([removal], now=later) == [[held.sequence]]

    @promise(7)
    async def test_a_message_whose_marks_changed_is_set_aside(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b", b"c")
        [a, b, c] = await lock(store)
        for held in (a, b, c):
            await store.apply([Rewrite(MAIN, held.lock, Marks("reason"))], now=NOON)
        make_store.spoil_marks(MAIN, b.sequence)
        due = await store.due(now=Instant(NOON + LOCK_MS), count_max=9)
        assert [each.lock.sequence for each in due] == [a.sequence, c.sequence]
        held_locks = [a.lock, b.lock, c.lock]
        [lost] = await store.apply([Unlock(MAIN, held_locks, is_counted=False)], now=NOON)
        assert lost == [b.sequence]
        make_store.spoil_marks(MAIN, a.sequence)
        assert contents(await lock(store)) == [b"c"]

    @promise(7)
    async def test_a_moved_message_is_still_checked(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b")
        moves = [
            Move(MAIN, DEAD, each.lock, Marks(), is_counted=False) for each in await lock(store)
        ]
        await store.apply(moves, now=NOON)
        make_store.spoil_content(DEAD, 1)
        assert contents(await lock(store, queue=DEAD)) == [b"b"]
