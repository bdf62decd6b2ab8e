"""Messages deleted many at a time, by state and time."""
# ruff: noqa: D102 - the name of a test is its sentence

from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import Marks, Message, MessageState
from bendybus.model.operations import Append, Move, Purge, Purged, SetAside
from bendybus.store.port import QueueCounts, Store
from bendybus.testing.store_contract.subject import (
    DEAD,
    MAIN,
    NOON,
    PART,
    ROOMY,
    StoreMaker,
    StoreSubject,
    after,
    contents_of,
    lock,
    promise,
    send,
)

FOREVER = after(1e6)


async def purge(
    store: Store,
    count_max: int = 100,
    *,
    queue: QueueNumber = MAIN,
    state: MessageState = MessageState.ACTIVE,
    until: Instant = FOREVER,
    from_sequence: int = 0,
    session_id: str | None = None,
) -> Purged:
    """Delete messages, one turn."""
    operation = Purge(queue, state, count_max, until, from_sequence, session_id)
    [answer] = await store.apply([operation], now=NOON)
    assert isinstance(answer, Purged)
    return answer


class PurgingContract(StoreSubject):
    """Promise 4: a purge takes what it names and nothing else."""

    @promise(4)
    async def test_the_oldest_go_first_as_many_as_were_named(self, store: Store) -> None:
        await send(store, b"a", b"b", b"c")
        assert await purge(store, 2) == Purged(2, 3)
        assert await contents_of(store) == [b"c"]
        assert await purge(store, 2) == Purged(1, None)
        assert await purge(store, 2) == Purged(0, None)
        assert await store.counts(MAIN) == QueueCounts(messages=0, bytes=0)

    @promise(4)
    async def test_what_was_enqueued_later_stays(self, store: Store) -> None:
        await send(store, b"a")
        await send(store, b"b", now=after(1))
        await send(store, b"c", now=after(2))
        assert await purge(store, until=after(1)) == Purged(2, None)
        assert await contents_of(store) == [b"c"]

    @promise(2)
    async def test_what_is_locked_or_of_another_state_stays(self, store: Store) -> None:
        scheduled = Message(b"scheduled", scheduled_at=after(50))
        await store.apply([Append(MAIN, [scheduled], ROOMY)], now=NOON)
        await send(store, b"locked", b"deferred", b"active")
        [_, deferred] = await lock(store, 2)
        await store.apply([SetAside(MAIN, [deferred.lock])], now=NOON)
        assert await purge(store) == Purged(1, None)
        assert await contents_of(store) == [b"scheduled", b"locked", b"deferred"]
        assert await purge(store, state=MessageState.DEFERRED) == Purged(1, None)
        assert await purge(store, state=MessageState.SCHEDULED, until=after(49)) == Purged(0, None)
        assert await purge(store, state=MessageState.SCHEDULED, until=after(50)) == Purged(1, None)
        assert await contents_of(store) == [b"locked"]

    @promise(4)
    async def test_other_queues_are_left_alone(self, store: Store) -> None:
        await send(store, b"main")
        await send(store, b"dead", queue=DEAD)
        await send(store, b"part", queue=PART)
        assert await purge(store, queue=DEAD) == Purged(1, None)
        assert await purge(store, queue=PART) == Purged(1, None)
        assert await contents_of(store) == [b"main"]

    @promise(4)
    async def test_dead_letters_that_moved_are_no_longer_counted(self, store: Store) -> None:
        await send(store, b"x" * 100, b"y" * 100)
        before = await store.counts(MAIN)
        [held, _] = await lock(store)
        await store.apply([Move(MAIN, DEAD, held.lock, Marks(), is_counted=False)], now=NOON)
        assert await purge(store, queue=DEAD) == Purged(1, None)
        assert await store.counts(MAIN) == QueueCounts(messages=1, bytes=before.bytes // 2)

    @promise(4)
    async def test_only_the_named_session_is_purged(self, store: Store) -> None:
        messages = [Message(b"%d" % n, session_id="ab"[n % 2]) for n in range(6)]
        await store.apply([Append(MAIN, messages, ROOMY)], now=NOON)
        await send(store, b"without")
        assert await purge(store, 2, session_id="b") == Purged(2, 6)
        assert await purge(store, session_id="b", from_sequence=6) == Purged(1, None)
        assert await purge(store, session_id="c") == Purged(0, None)
        assert await contents_of(store) == [b"0", b"2", b"4", b"without"]

    @promise(4)
    async def test_a_turn_looks_at_a_bounded_number_and_says_where_to_go_on(
        self, store: Store
    ) -> None:
        await send(store, *[b"new"] * 3000, now=after(10))
        await send(store, b"old")
        at: int | None = 0
        turns = deleted = 0
        while at is not None:
            answer = await purge(store, until=NOON, from_sequence=at)
            turns, deleted, at = turns + 1, deleted + answer.deleted, answer.next_sequence
        assert (deleted, turns) == (1, 4)

    @promise(4)
    async def test_a_turn_deletes_a_bounded_number_of_bytes(self, store: Store) -> None:
        await send(store, *[b"x" * 1_000_000] * 9)
        answer = await purge(store)
        assert answer == Purged(4, 5)

    @promise(1)
    async def test_what_was_purged_is_gone_after_reopening(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b")
        await purge(store, 1)
        again = await make_store()
        assert await contents_of(again) == [b"b"]
