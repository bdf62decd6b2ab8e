"""Figures: what was committed is counted, once, and nothing else is."""
# ruff: noqa: D102 - the name of a test is its sentence

import asyncio

import pytest

from bendybus.model.errors import MessageLockLost, QuotaExceeded
from bendybus.model.ids import QueueNumber
from bendybus.model.message import Lock, Marks, Message, MessageState
from bendybus.model.operations import (
    Activate,
    Append,
    Guard,
    Move,
    Operation,
    Purge,
    Remove,
    Requeue,
    Requeued,
    SetAside,
    Transfer,
    Unlock,
)
from bendybus.store.figures import Event
from bendybus.store.port import Store
from bendybus.testing.store_contract.subject import (
    DEAD,
    MAIN,
    NOON,
    ORDERS,
    PART,
    ROOMY,
    StoreSubject,
    after,
    lock,
    locks,
    promise,
    send,
)

LATER = after(120)


def counted(store: Store, queue: QueueNumber = MAIN) -> dict[Event | tuple[Event, str], int]:
    """Return what happened in a queue so far; with the reason where there is one."""
    return {
        (event, reason) if reason else event: count
        for (number, event, reason), count in store.figures().traffic.items()
        if number == queue
    }


class FiguresContract(StoreSubject):
    """Promise 12."""

    @promise(12)
    async def test_arrivals_are_counted_with_their_bytes_by_queue(self, store: Store) -> None:
        await send(store, b"12", b"345")
        await send(store, b"6", queue=PART)
        assert counted(store) == {Event.ACCEPTED: 2, Event.ACCEPTED_BYTES: 5}
        assert counted(store, PART) == {Event.ACCEPTED: 1, Event.ACCEPTED_BYTES: 1}

    @promise(12)
    async def test_what_came_before_is_counted_as_dropped(self, store: Store) -> None:
        message = Message(b"x", message_id="same")
        for _ in range(3):
            await store.apply([Append(MAIN, [message], ROOMY, after(-60))], now=NOON)
        assert counted(store)[Event.ACCEPTED] == 1
        assert counted(store)[Event.DROPPED] == 2

    @promise(12)
    async def test_what_another_queue_sent_on_is_told_apart(self, store: Store) -> None:
        transfers = [Transfer(7, 1)]
        for _ in range(2):
            await store.apply([Append(MAIN, [Message(b"x")], ROOMY, transfers=transfers)], now=NOON)
        assert counted(store) == {Event.FORWARDED: 1, Event.ACCEPTED_BYTES: 1, Event.DROPPED: 1}

    @promise(12)
    async def test_every_settlement_is_counted_as_what_it_was(self, store: Store) -> None:
        await send(store, b"a", b"b", b"c", b"d", b"e", b"f")
        a, b, c, d, e, f = locks(await lock(store))
        marks = Marks(dead_letter_reason="MaxDeliveryCountExceeded")
        own_words = Marks(dead_letter_reason="the customer's own words")
        await store.apply(
            [
                Remove(MAIN, [a]),
                Unlock(MAIN, [b], is_counted=True),
                Unlock(MAIN, [c], is_counted=False),
                SetAside(MAIN, [d]),
                Move(MAIN, DEAD, e, marks, is_counted=True),
                Move(MAIN, DEAD, f, own_words, is_counted=False),
            ],
            now=NOON,
        )
        assert counted(store) == {
            Event.ACCEPTED: 6,
            Event.ACCEPTED_BYTES: 6,
            Event.DELIVERED: 6,
            Event.COMPLETED: 1,
            Event.ABANDONED: 1,
            Event.RETURNED: 1,
            Event.DEFERRED: 1,
            (Event.DEAD_LETTERED, "MaxDeliveryCountExceeded"): 1,
            (Event.DEAD_LETTERED, "other"): 1,
        }

    @promise(12)
    async def test_a_lost_lock_is_counted_when_it_ends_and_when_it_is_used(
        self, store: Store
    ) -> None:
        await send(store, b"a")
        [held] = locks(await lock(store))
        assert await store.apply([Remove(MAIN, [held])], now=LATER) == [[held.sequence]]
        await store.apply([Unlock(MAIN, [held], is_counted=True, guard=Guard.LAPSED)], now=LATER)
        figures = counted(store)
        assert (figures[Event.REFUSED], figures[Event.LAPSED]) == (1, 1)
        assert Event.COMPLETED not in figures
        assert Event.ABANDONED not in figures

    @promise(12)
    async def test_what_time_does_is_counted(self, store: Store) -> None:
        scheduled = Message(b"later", scheduled_at=after(60))
        cancelled = Message(b"never", scheduled_at=after(600))
        expiring = Message(b"soon", expires_at=after(60))
        await store.apply([Append(MAIN, [scheduled, cancelled, expiring], ROOMY)], now=NOON)
        due = {each.guard: each for each in await store.due(now=LATER, count_max=10)}
        await store.apply(
            [
                Activate(MAIN, [due[Guard.DUE].lock.sequence]),
                Remove(MAIN, [due[Guard.FREE].lock], Guard.FREE),
            ],
            now=LATER,
        )
        left = Lock(due[Guard.DUE].lock.sequence + 1, 0, 0)
        await store.apply([Remove(MAIN, [left], Guard.SCHEDULED)], now=LATER)
        figures = counted(store)
        assert (figures[Event.ACTIVATED], figures[Event.EXPIRED]) == (1, 1)
        assert figures[Event.CANCELLED] == 1

    @promise(12)
    async def test_what_is_purged_and_what_is_redriven_is_counted_where_it_was(
        self, store: Store
    ) -> None:
        await send(store, b"a", b"b", b"c", queue=DEAD)
        first = Lock(1, 0, 0)
        await store.apply([Requeue(DEAD, MAIN, [Requeued(first, None, None)])], now=NOON)
        await store.apply([Purge(DEAD, MessageState.ACTIVE, 10, LATER)], now=NOON)
        figures = counted(store, DEAD)
        assert (figures[Event.REDRIVEN], figures[Event.PURGED]) == (1, 2)

    @promise(12)
    async def test_what_was_refused_is_not_counted_alone_or_beside_others(
        self, store: Store
    ) -> None:
        await send(store, b"a")
        [held] = locks(await lock(store))
        before = counted(store)
        lost = held._replace(nonce=held.nonce + 1)
        strict: list[Operation] = [Append(MAIN, [Message(b"new")], ROOMY), Remove(MAIN, [lost])]
        with pytest.raises(MessageLockLost):
            await store.apply(strict, now=NOON, is_strict=True)
        assert counted(store) == before
        good = Append(MAIN, [Message(b"good")], ROOMY)
        refused = [Append(MAIN, [Message(b"x")], ROOMY), Append(MAIN, [Message(b"y")], 1)]
        # All under way at once, so that they are committed together.
        answers = await asyncio.gather(
            store.apply([good], now=NOON),
            store.apply(refused, now=NOON),
            store.apply([good], now=NOON),
            return_exceptions=True,
        )
        assert isinstance(answers[1], QuotaExceeded)
        assert counted(store)[Event.ACCEPTED] == before[Event.ACCEPTED] + 2

    @promise(12)
    async def test_a_store_that_is_away_still_tells_and_counts_on_when_it_is_back(
        self, store: Store
    ) -> None:
        await send(store, b"a")
        await store.take_offline("a drill")
        assert counted(store)[Event.ACCEPTED] == 1
        await store.bring_online()
        await send(store, b"b")
        assert counted(store)[Event.ACCEPTED] == 2

    @promise(12)
    async def test_nothing_is_kept_of_a_queue_that_is_gone(self, store: Store) -> None:
        await send(store, b"a")
        while not await store.remove_entity(ORDERS.number, count_max=10):
            pass
        await send(store, b"b", queue=PART)
        assert counted(store) == {}
        assert counted(store, PART)[Event.ACCEPTED] == 1

    @promise(12)
    async def test_every_commit_is_in_both_distributions_once(self, store: Store) -> None:
        before = store.figures()
        await asyncio.gather(*(send(store, b"x") for _ in range(20)))
        figures = store.figures()
        commits = sum(figures.commit_seconds.counts) - sum(before.commit_seconds.counts)
        assert 1 <= commits <= 20
        assert sum(figures.commit_callers.counts) - sum(before.commit_callers.counts) == commits
        assert figures.commit_callers.sum - before.commit_callers.sum == 20
        assert figures.commit_seconds.sum > before.commit_seconds.sum
