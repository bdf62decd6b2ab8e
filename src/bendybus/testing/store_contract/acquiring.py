"""Acquire, find what is locked, and tell what is due."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.ids import Instant
from bendybus.model.message import Lock, Marks, Message, StoredMessage
from bendybus.model.operations import Append, Guard, Remove, Renew, Rewrite, Unlock
from bendybus.store.port import Acquire, Due, Store
from bendybus.testing.store_contract.subject import (
    DEAD,
    LOCK_MS,
    MAIN,
    NOON,
    PART,
    ROOMY,
    StoreSubject,
    after,
    browse,
    contents,
    lock,
    locks,
    promise,
    send,
)

AWKWARD_TEXTS = ["", "plain", "née €", "a\x00b", '"quoted"\\', "1", "null", "🚌" * 128, "\x7f\x01"]
CONTENT_SIZES = [0, 1, 3, 4, 5, 100, 4096, 5000, 300_000]


def wish(count_max: int, bytes_max: int) -> Acquire:
    """Ask for a lock of a minute within bounds."""
    return Acquire(MAIN, count_max, bytes_max, Instant(NOON + LOCK_MS), 1)


class AcquiringContract(StoreSubject):
    """Promises 3 and 6."""

    @promise(6)
    async def test_the_oldest_free_messages_come_first(self, store: Store) -> None:
        await send(store, b"a", b"b", b"c")
        await send(store, b"d")
        assert contents(await lock(store, 2)) == [b"a", b"b"]
        assert contents(await lock(store, 10)) == [b"c", b"d"]
        assert await lock(store, 10) == []

    @promise(6)
    async def test_an_empty_queue_yields_nothing_at_once(self, store: Store) -> None:
        assert await lock(store) == []

    @promise(6)
    async def test_queues_do_not_see_each_others_messages(self, store: Store) -> None:
        await send(store, b"main")
        await send(store, b"dead", queue=DEAD)
        await send(store, b"part", queue=PART)
        assert contents(await lock(store, queue=DEAD)) == [b"dead"]
        assert contents(await lock(store, queue=PART)) == [b"part"]
        assert contents(await lock(store)) == [b"main"]

    @promise(6)
    async def test_a_message_past_its_time_to_live_is_not_handed_out(self, store: Store) -> None:
        messages = [Message(b"short", expires_at=after(10)), Message(b"long", expires_at=after(20))]
        await store.apply([Append(MAIN, messages, ROOMY)], now=NOON)
        assert contents(await lock(store, now=after(10))) == [b"long"]
        assert await lock(store, now=after(11)) == []

    @promise(6)
    async def test_a_message_lives_until_its_last_moment(self, store: Store) -> None:
        message = Message(b"a", expires_at=after(10))
        await store.apply([Append(MAIN, [message], ROOMY)], now=NOON)
        [held] = await lock(store, now=Instant(after(10) - 1))
        assert held.expires_at == after(10)

    @promise(3)
    async def test_a_lock_that_ended_is_not_free_until_somebody_says_so(self, store: Store) -> None:
        await send(store, b"a")
        await lock(store)
        assert await lock(store, nonce=2, now=after(1e6)) == []

    @promise(6)
    @pytest.mark.parametrize(("bytes_max", "expected"), [(1, 1), (250, 2), (10_000, 4)])
    async def test_bytes_bound_what_is_acquired_but_one_always_comes(
        self, store: Store, bytes_max: int, expected: int
    ) -> None:
        await send(store, *[b"x" * 100] * 4)
        assert len(await store.acquire(wish(10, bytes_max), now=NOON)) == expected

    @promise(6)
    async def test_all_that_was_sent_comes_back_as_it_was(self, store: Store) -> None:
        messages = [
            Message(
                text.encode() * 3,
                session_id=text,
                partition_key=text or None,
                expires_at=after(at + 1),
            )
            for at, text in enumerate(AWKWARD_TEXTS)
        ]
        await store.apply([Append(MAIN, messages, ROOMY)], now=NOON)
        held = await lock(store)
        expected = [
            StoredMessage(
                sequence=at + 1,
                enqueued_at=NOON,
                delivery_count=0,
                content=message.content,
                expires_at=message.expires_at,
                session_id=message.session_id,
                partition_key=message.partition_key,
                marks=None,
                state=0,
                locked_until=NOON + LOCK_MS,
                nonce=1,
            )
            for at, message in enumerate(messages)
        ]
        assert held == expected
        assert await browse(store) == expected
        assert await store.find_locked(MAIN, locks(held), now=NOON) == expected

    @promise(6)
    async def test_any_bytes_of_any_size_come_back_as_they_were(self, store: Store) -> None:
        sent = [
            bytes(range(256)) * (size // 256) + b"\x00" * (size % 256) for size in CONTENT_SIZES
        ]
        await send(store, *sent)
        assert contents(await lock(store)) == sent

    @promise(2)
    async def test_only_locks_held_now_are_found(self, store: Store) -> None:
        await send(store, b"a", b"b", b"c")
        [a, b, c] = await lock(store)
        await store.apply([Unlock(MAIN, [b.lock], is_counted=False)], now=NOON)
        asked = [a.lock, b.lock, Lock(c.sequence, 99), Lock(77, 1)]
        assert await store.find_locked(MAIN, asked, now=NOON) == [a]
        assert await store.find_locked(MAIN, asked, now=Instant(NOON + LOCK_MS)) == []
        assert await store.find_locked(MAIN, [], now=NOON) == []

    @promise(2)
    async def test_what_is_found_carries_marks_and_delivery_count(self, store: Store) -> None:
        await send(store, b"a")
        [first] = await lock(store)
        await store.apply([Unlock(MAIN, [first.lock], is_counted=True)], now=NOON)
        [held] = await lock(store, nonce=2)
        marks = Marks(dead_letter_description="née")
        await store.apply([Rewrite(MAIN, held.lock, marks)], now=NOON)
        [found] = await store.find_locked(MAIN, [held.lock], now=NOON)
        assert (found.delivery_count, found.marks) == (1, marks)

    @promise(3)
    async def test_locks_and_lives_that_ended_are_due_the_longest_first(self, store: Store) -> None:
        messages = [Message(b"%d" % s, expires_at=after(s)) for s in (30, 10, 90)]
        await store.apply([Append(MAIN, messages, ROOMY)], now=NOON)
        await send(store, b"held", queue=PART)
        [held] = await lock(store, queue=PART, nonce=5, now=after(-40))  # until 20
        expected = [
            Due(MAIN, Lock(2, 0, 0), Guard.FREE, None),
            Due(PART, held.lock, Guard.LAPSED, None),
            Due(MAIN, Lock(1, 0, 0), Guard.FREE, None),
        ]
        assert await store.due(now=after(9), count_max=10) == []
        assert await store.due(now=after(30), count_max=10) == expected
        assert await store.due(now=after(30), count_max=2) == expected[:2]

    @promise(3)
    async def test_what_is_due_carries_marks_and_delivery_count(self, store: Store) -> None:
        await send(store, b"a")
        [first] = await lock(store)
        await store.apply([Unlock(MAIN, [first.lock], is_counted=True)], now=NOON)
        [held] = await lock(store, nonce=2)
        marks = Marks(property_changes=b"\xff")
        await store.apply([Rewrite(MAIN, held.lock, marks)], now=NOON)
        found = await store.due(now=Instant(NOON + LOCK_MS), count_max=1)
        assert found == [Due(MAIN, Lock(1, 2, 1), Guard.LAPSED, marks)]

    @promise(3)
    async def test_a_locked_message_is_due_for_its_lock_alone(self, store: Store) -> None:
        await store.apply([Append(MAIN, [Message(b"a", expires_at=after(10))], ROOMY)], now=NOON)
        [held] = await lock(store)
        assert await store.due(now=after(30), count_max=10) == []
        [due] = await store.due(now=Instant(NOON + LOCK_MS), count_max=10)
        assert (due.lock, due.guard) == (held.lock, Guard.LAPSED)

    @promise(3)
    async def test_a_renewed_lock_is_due_at_its_new_end(self, store: Store) -> None:
        await send(store, b"a")
        [held] = await lock(store)
        await store.apply([Renew(MAIN, [held.lock], after(300))], now=NOON)
        assert await store.due(now=after(299), count_max=10) == []
        assert len(await store.due(now=after(300), count_max=10)) == 1

    @promise(3)
    async def test_due_next_is_the_first_end_of_a_lock_or_a_life(self, store: Store) -> None:
        assert await store.next_due() is None
        await store.apply([Append(MAIN, [Message(b"a", expires_at=after(90))], ROOMY)], now=NOON)
        assert await store.next_due() == after(90)
        await send(store, b"held", queue=PART)
        [held] = await lock(store, queue=PART)
        assert await store.next_due() == Instant(NOON + LOCK_MS)
        await store.apply([Remove(PART, [held.lock])], now=NOON)
        assert await store.next_due() == after(90)
