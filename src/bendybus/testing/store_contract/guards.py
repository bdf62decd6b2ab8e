"""Locks: who may do what while, and after, a lock is held."""
# ruff: noqa: D102 - the name of a test is its sentence

from collections.abc import Callable

import pytest

from bendybus.model.ids import Instant
from bendybus.model.message import Lock, Marks, Message, StoredMessage
from bendybus.model.operations import (
    Append,
    Guard,
    Move,
    Operation,
    Remove,
    Renew,
    Rewrite,
    SetAside,
    Unlock,
)
from bendybus.store.port import Store
from bendybus.testing.store_contract.subject import (
    DEAD,
    LOCK_MS,
    MAIN,
    NOON,
    ROOMY,
    StoreSubject,
    after,
    browse,
    contents,
    contents_of,
    lock,
    locks,
    promise,
    send,
)

LAST_MOMENT = Instant(NOON + LOCK_MS - 1)
JUST_ENDED = Instant(NOON + LOCK_MS)
MakeOperation = Callable[[Lock, Guard], Operation]

GUARDED: dict[str, MakeOperation] = {
    "remove": lambda held, guard: Remove(MAIN, [held], guard),
    "unlock": lambda held, guard: Unlock(MAIN, [held], is_counted=True, guard=guard),
    "move": lambda held, guard: Move(MAIN, DEAD, held, Marks(), is_counted=True, guard=guard),
}
HELD_ONLY: dict[str, MakeOperation] = {
    "renew": lambda held, _: Renew(MAIN, [held], Instant(NOON + 9 * LOCK_MS)),
    "set aside": lambda held, _: SetAside(MAIN, [held]),
    "rewrite": lambda held, _: Rewrite(MAIN, held, Marks(dead_letter_reason="changed")),
}
every_operation = pytest.mark.parametrize(
    "make", (GUARDED | HELD_ONLY).values(), ids=GUARDED | HELD_ONLY
)
guarded_operation = pytest.mark.parametrize("make", GUARDED.values(), ids=GUARDED)


async def one_held(store: Store) -> StoredMessage:
    """Lock one message that ends at the same moment as its lock."""
    message = Message(b"a", expires_at=JUST_ENDED)
    await store.apply([Append(MAIN, [message], ROOMY)], now=NOON)
    [held] = await lock(store, nonce=7)
    return held


class GuardsContract(StoreSubject):
    """Promise 2, and 3 and 4 as far as locks go."""

    @promise(2)
    @every_operation
    async def test_the_holder_may_act_until_the_lock_ends(
        self, store: Store, make: MakeOperation
    ) -> None:
        held = await one_held(store)
        assert await store.apply([make(held.lock, Guard.HELD)], now=LAST_MOMENT) == [[]]
        assert await browse(store) != [held]

    @promise(3)
    @every_operation
    async def test_at_the_moment_a_lock_ends_its_holder_has_lost_it(
        self, store: Store, make: MakeOperation
    ) -> None:
        held = await one_held(store)
        assert await store.apply([make(held.lock, Guard.HELD)], now=JUST_ENDED) == [[1]]
        assert await browse(store) == [held]

    @promise(2)
    @every_operation
    async def test_a_token_with_another_nonce_holds_nothing(
        self, store: Store, make: MakeOperation
    ) -> None:
        held = await one_held(store)
        assert await store.apply([make(Lock(1, 8), Guard.HELD)], now=NOON) == [[1]]
        assert await store.apply([make(Lock(1, 8), Guard.LAPSED)], now=JUST_ENDED) == [[1]]
        assert await browse(store) == [held]

    @promise(2)
    @every_operation
    async def test_a_free_message_is_held_by_nobody(
        self, store: Store, make: MakeOperation
    ) -> None:
        held = await one_held(store)
        await store.apply([Unlock(MAIN, [held.lock], is_counted=False)], now=NOON)
        [free] = await browse(store)
        assert await store.apply([make(held.lock, Guard.HELD)], now=NOON) == [[1]]
        assert await store.apply([make(Lock(1, 0), Guard.HELD)], now=NOON) == [[1]]
        assert await browse(store) == [free]

    @promise(2)
    @guarded_operation
    async def test_lapsed_means_that_this_very_lock_has_ended(
        self, store: Store, make: MakeOperation
    ) -> None:
        held = await one_held(store)
        assert await store.apply([make(held.lock, Guard.LAPSED)], now=LAST_MOMENT) == [[1]]
        assert await browse(store) == [held]
        assert await store.apply([make(held.lock, Guard.LAPSED)], now=JUST_ENDED) == [[]]
        assert await browse(store) != [held]

    @promise(2)
    @guarded_operation
    async def test_a_lock_that_was_renewed_has_not_lapsed(
        self, store: Store, make: MakeOperation
    ) -> None:
        held = await one_held(store)
        renewal = Renew(MAIN, [held.lock], Instant(JUST_ENDED + 1))
        assert await store.apply([renewal], now=LAST_MOMENT) == [[]]
        assert await store.apply([make(held.lock, Guard.LAPSED)], now=JUST_ENDED) == [[1]]
        assert await store.apply([make(held.lock, Guard.HELD)], now=JUST_ENDED) == [[]]

    @promise(4)
    @guarded_operation
    async def test_free_means_unlocked_and_past_its_time_to_live(
        self, store: Store, make: MakeOperation
    ) -> None:
        held = await one_held(store)
        token = Lock(1, 0)
        assert await store.apply([make(token, Guard.FREE)], now=JUST_ENDED) == [[1]]
        await store.apply([Unlock(MAIN, [held.lock], is_counted=False)], now=NOON)
        assert await store.apply([make(token, Guard.FREE)], now=LAST_MOMENT) == [[1]]
        assert len(await browse(store)) == 1
        assert await store.apply([make(token, Guard.FREE)], now=JUST_ENDED) == [[]]

    @promise(4)
    async def test_a_message_without_end_never_passes_as_expired(self, store: Store) -> None:
        await send(store, b"a")
        assert await store.apply([Remove(MAIN, [Lock(1, 0)], Guard.FREE)], now=after(1e9)) == [[1]]
        assert await contents_of(store) == [b"a"]

    @promise(4)
    async def test_there_means_whoever_holds_it(self, store: Store) -> None:
        await send(store, b"held", b"deferred", b"free")
        [held, deferred] = await lock(store, 2)
        await store.apply([SetAside(MAIN, [deferred.lock])], now=NOON)
        asked = [Lock(number, 0) for number in (held.sequence, deferred.sequence, 3, 99)]
        assert await store.apply([Remove(MAIN, asked, Guard.THERE)], now=NOON) == [[99]]
        assert await store.apply([Remove(MAIN, asked, Guard.THERE)], now=NOON) == [[1, 2, 3, 99]]
        counts = await store.counts(MAIN)
        assert (await contents_of(store), counts.messages, counts.bytes) == ([], 0, 0)

    @promise(2)
    async def test_only_the_lost_ones_of_a_batch_are_named_and_the_rest_is_done(
        self, store: Store
    ) -> None:
        await send(store, b"a", b"b", b"c", b"d")
        [a, b, c, d] = await lock(store)
        await store.apply([Unlock(MAIN, [b.lock], is_counted=False)], now=NOON)
        asked = [d.lock, b.lock, Lock(99, 1), a.lock, a.lock, Lock(c.sequence, 8)]
        [lost] = await store.apply([Remove(MAIN, asked)], now=NOON)
        assert isinstance(lost, list)
        assert sorted(lost) == [b.sequence, c.sequence, 99]
        assert await contents_of(store) == [b"b", b"c"]
        assert (await store.counts(MAIN)).messages == 2

    @promise(2)
    async def test_one_operation_may_name_locks_of_several_acquires(self, store: Store) -> None:
        await send(store, b"a", b"b", b"c")
        held = [*await lock(store, 1, nonce=-5), *await lock(store, nonce=(1 << 63) - 1)]
        assert await store.apply([Remove(MAIN, locks(held))], now=NOON) == [[]]
        assert await contents_of(store) == []

    @promise(2)
    async def test_a_token_never_holds_twice(self, store: Store) -> None:
        held = await one_held(store)
        await store.apply([Unlock(MAIN, [held.lock], is_counted=True)], now=NOON)
        [other] = await lock(store, nonce=8)
        assert await store.apply([Remove(MAIN, [held.lock])], now=NOON) == [[1]]
        assert await store.apply([Remove(MAIN, [other.lock])], now=NOON) == [[]]

    @promise(4)
    @pytest.mark.parametrize(("is_counted", "expected"), [(True, 1), (False, 0)])
    async def test_giving_back_raises_the_delivery_count_if_told_to(
        self, store: Store, *, is_counted: bool, expected: int
    ) -> None:
        held = await one_held(store)
        assert held.delivery_count == 0
        await store.apply([Unlock(MAIN, [held.lock], is_counted=is_counted)], now=NOON)
        [again] = await lock(store, nonce=8)
        assert again.delivery_count == expected

    @promise(6)
    async def test_a_message_given_back_keeps_its_place(self, store: Store) -> None:
        await send(store, b"a", b"b", b"c", b"d")
        [_, b, c, _] = await lock(store)
        await store.apply([Unlock(MAIN, [c.lock, b.lock], is_counted=True)], now=NOON)
        await send(store, b"e")
        assert contents(await lock(store)) == [b"b", b"c", b"e"]

    @promise(2)
    async def test_rewriting_marks_keeps_the_lock(self, store: Store) -> None:
        held = await one_held(store)
        marks = Marks("reason", "description", "source", 3, b"\x00changes")
        await store.apply([Rewrite(MAIN, held.lock, marks)], now=NOON)
        assert await browse(store) == [held._replace(marks=marks)]
        await store.apply([Unlock(MAIN, [held.lock], is_counted=False)], now=NOON)
        [again] = await lock(store, nonce=8)
        assert again.marks == marks

    @promise(2)
    async def test_renewing_moves_the_end_of_the_lock(self, store: Store) -> None:
        held = await one_held(store)
        until = Instant(NOON + 5 * LOCK_MS)
        await store.apply([Renew(MAIN, [held.lock], until)], now=NOON)
        assert await browse(store) == [held._replace(locked_until=until)]
