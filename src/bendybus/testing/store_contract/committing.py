"""All or nothing, for one caller and for many at once."""
# ruff: noqa: D102 - the name of a test is its sentence

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from bendybus.model.errors import BusError, EntityNotFound, QuotaExceeded, ServerBusy
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import Lock, Marks, Message
from bendybus.model.operations import Append, Move, Remove, Renew, Rewrite, Unlock
from bendybus.store.port import Store
from bendybus.testing.store_contract.subject import (
    DEAD,
    LOCK_MS,
    MAIN,
    NOON,
    ROOMY,
    StoreMaker,
    StoreSubject,
    browse,
    contents,
    contents_of,
    lock,
    locks,
    promise,
    send,
)

TOO_SMALL = 1
NO_SUCH_QUEUE = QueueNumber(999)


def fills(content: bytes = b"refused") -> Append:
    """Make an append that the quota refuses."""
    return Append(MAIN, [Message(content)], TOO_SMALL)


class CommittingContract(StoreSubject):
    """Promises 1 and 8."""

    @promise(1)
    async def test_what_cannot_begin_in_time_is_not_made(self, store: Store) -> None:
        await send(store, b"old")
        added = Append(MAIN, [Message(b"new")], ROOMY)
        with pytest.raises(ServerBusy):
            await store.apply([added], now=NOON, within_seconds=-1.0)
        assert await contents_of(store) == [b"old"]
        await store.apply([added], now=NOON, within_seconds=60.0)
        assert await contents_of(store) == [b"old", b"new"]

    @promise(1)
    async def test_a_list_with_one_refused_operation_writes_nothing(self, store: Store) -> None:
        await send(store, b"old", b"older")
        [old, older] = await lock(store)
        with pytest.raises(QuotaExceeded):
            await store.apply(
                [
                    Append(MAIN, [Message(b"new")], ROOMY),
                    Remove(MAIN, [old.lock]),
                    Move(MAIN, DEAD, older.lock, Marks(), is_counted=True),
                    fills(),
                ],
                now=NOON,
            )
        assert await browse(store) == [old, older]
        assert await contents_of(store, DEAD) == []
        assert (await store.counts(MAIN)).messages == 2
        assert (await store.counts(DEAD)).messages == 0

    @promise(1)
    async def test_a_refused_append_takes_no_number(self, store: Store) -> None:
        with pytest.raises(QuotaExceeded):
            await store.apply([Append(MAIN, [Message(b"new")], ROOMY), fills()], now=NOON)
        assert await send(store, b"next") == [1]

    @promise(1)
    async def test_operations_of_a_list_see_those_before_them(self, store: Store) -> None:
        await send(store, b"a")
        [held] = await lock(store)
        renewed = Renew(MAIN, [held.lock], Instant(NOON + 2 * LOCK_MS))
        answers = await store.apply(
            [
                Rewrite(MAIN, held.lock, Marks(dead_letter_reason="r")),
                renewed,
                Remove(MAIN, [held.lock]),
                Remove(MAIN, [held.lock]),
            ],
            now=NOON,
        )
        assert answers == [[], [], [], [held.sequence]]

    @promise(1)
    async def test_an_empty_list_and_empty_operations_change_nothing(self, store: Store) -> None:
        assert await store.apply([], now=NOON) == []
        answers = await store.apply(
            [
                Append(MAIN, [], ROOMY),
                Remove(MAIN, []),
                Unlock(MAIN, [], is_counted=True),
                Renew(MAIN, [], Instant(NOON + LOCK_MS)),
            ],
            now=NOON,
        )
        assert answers == [1, [], [], []]
        assert await send(store, b"first") == [1]

    @promise(1)
    async def test_what_was_applied_is_there_after_reopening(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"kept", b"removed", b"moved")
        [_, removed, moved] = await lock(store)
        marks = Marks(dead_letter_reason="x", property_changes=b"\x00\xff")
        await store.apply(
            [
                Remove(MAIN, [removed.lock]),
                Move(MAIN, DEAD, moved.lock, marks, is_counted=True),
            ],
            now=NOON,
        )
        before = await browse(store), await browse(store, DEAD), await store.counts(MAIN)
        again = await make_store()
        after = await browse(again), await browse(again, DEAD), await again.counts(MAIN)
        assert after == before
        assert contents(after[0]) == [b"kept"]
        assert [(m.content, m.marks) for m in after[1]] == [(b"moved", marks)]

    @promise(8)
    async def test_a_refusal_leaves_those_committed_together_alone(self, store: Store) -> None:
        await send(store, b"held")
        [held] = await lock(store)
        outcomes = await asyncio.gather(
            store.apply([Append(MAIN, [Message(b"one")], ROOMY)], now=NOON),
            store.apply([Append(MAIN, [Message(b"lost")], ROOMY), fills()], now=NOON),
            store.apply([Append(NO_SUCH_QUEUE, [Message(b"lost")], ROOMY)], now=NOON),
            store.apply([Remove(MAIN, [held.lock])], now=NOON),
            store.apply([Append(MAIN, [Message(b"two")], ROOMY)], now=NOON),
            return_exceptions=True,
        )
        assert [outcomes[0], outcomes[3], outcomes[4]] == [[2], [[]], [3]]
        assert isinstance(outcomes[1], QuotaExceeded)
        assert isinstance(outcomes[2], EntityNotFound)
        assert await contents_of(store) == [b"one", b"two"]

    @promise(8)
    async def test_a_defective_call_is_refused_alone(self, store: Store) -> None:
        too_large_for_any_column = 1 << 80
        calls: list[Awaitable[object]] = [
            store.apply([Append(MAIN, [Message(b"one")], ROOMY)], now=NOON),
            store.apply(
                [Append(MAIN, [Message(b"bad")], ROOMY)],
                now=Instant(too_large_for_any_column),
            ),
            store.apply([Append(MAIN, [Message(b"two")], ROOMY)], now=NOON),
        ]
        [one, bad, two] = await asyncio.gather(*calls, return_exceptions=True)
        assert [one, two] == [[1], [2]]
        assert isinstance(bad, BusError)
        with pytest.raises(BusError):
            await store.apply(
                [Append(MAIN, [Message(b"bad")], ROOMY)], now=Instant(too_large_for_any_column)
            )
        assert await contents_of(store) == [b"one", b"two"]

    @promise(8)
    async def test_a_caller_who_is_cancelled_harms_nobody(self, store: Store) -> None:
        calls = [asyncio.ensure_future(send(store, b"%d" % n)) for n in range(20)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        kept = await contents_of(store)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[::2])
        assert {b"%d" % n for n in range(1, 20, 2)} <= set(kept)
        assert len(set(kept)) == len(kept)
        assert await send(store, b"later") == [len(kept) + 1]

    @promise(8)
    async def test_many_callers_at_once_each_get_their_own_numbers(self, store: Store) -> None:
        batches = [[b"%d-%d" % (n, m) for m in range(n % 5)] for n in range(600)]
        numbers = await asyncio.gather(*(send(store, *batch) for batch in batches))
        found = {message.sequence: message.content for message in await browse(store)}
        assert [[found[number] for number in group] for group in numbers] == batches
        assert sorted(found) == list(range(1, len(found) + 1))

    @promise(2)
    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
    @pytest.mark.parametrize("is_together", [True, False], ids=["together", "one by one"])
    async def test_of_three_who_settle_one_lock_the_first_wins(
        self, store: Store, order: tuple[int, ...], *, is_together: bool
    ) -> None:
        await send(store, b"a")
        [held] = await lock(store)
        steps = settlements(store, held.lock)
        if is_together:
            outcomes = await asyncio.gather(*(steps[at]() for at in order))
        else:
            outcomes = [await steps[at]() for at in order]
        assert outcomes == [[[]], [[1]], [[1]]]

    @promise(2)
    @pytest.mark.parametrize("is_together", [True, False], ids=["together", "one by one"])
    async def test_two_who_acquire_at_once_share_nothing(
        self, store: Store, *, is_together: bool
    ) -> None:
        await send(store, *(b"%d" % n for n in range(10)))
        if is_together:
            groups = await asyncio.gather(*(lock(store, 4, nonce=n) for n in range(1, 4)))
        else:
            groups = [await lock(store, 4, nonce=n) for n in range(1, 4)]
        found = [message.sequence for group in groups for message in group]
        assert found == list(range(1, 11))
        assert [len(group) for group in groups] == [4, 4, 2]
        assert {m.nonce for m in groups[1]} == {2}
        assert locks(await browse(store)) == [m.lock for group in groups for m in group]


def settlements(store: Store, held: Lock) -> list[Callable[[], Awaitable[object]]]:
    """Return three calls that each end the same lock."""
    return [
        lambda: store.apply([Remove(MAIN, [held])], now=NOON),
        lambda: store.apply([Unlock(MAIN, [held], is_counted=True)], now=NOON),
        lambda: store.apply([Move(MAIN, DEAD, held, Marks(), is_counted=True)], now=NOON),
    ]
