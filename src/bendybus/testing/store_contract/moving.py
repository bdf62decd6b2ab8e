"""Moving a message to another queue of the store."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.errors import EntityNotFound
from bendybus.model.ids import QueueNumber
from bendybus.model.message import Lock, Marks, Message
from bendybus.model.operations import Append, Guard, Move, Remove, Unlock
from bendybus.store.port import Store
from bendybus.testing.store_contract.subject import (
    DEAD,
    MAIN,
    NOON,
    PART,
    ROOMY,
    StoreMaker,
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

MARKS = Marks("TTLExpiredException", "why", "orders", 1, b"\x01")


def move(held: Lock, *, to: QueueNumber = DEAD, guard: Guard = Guard.HELD) -> Move:
    """Dead-letter one message."""
    return Move(MAIN, to, held, MARKS, is_counted=True, guard=guard)


class MovingContract(StoreSubject):
    """Promises 4 and 5, of messages that move."""

    @promise(5)
    async def test_a_moved_message_is_free_at_the_end_of_the_other_queue(
        self, store: Store
    ) -> None:
        await send(store, b"there before", queue=DEAD)
        message = Message(b"a", session_id="s", partition_key="p", expires_at=after(90))
        await store.apply([Append(MAIN, [message], ROOMY)], now=NOON)
        [held] = await lock(store)
        assert await store.apply([move(held.lock)], now=after(5)) == [[]]
        [_, moved] = await browse(store, DEAD)
        assert moved == held._replace(
            sequence=2,
            delivery_count=1,
            expires_at=None,
            marks=MARKS,
            locked_until=None,
            nonce=None,
            enqueued_sequence=held.sequence,
        )
        assert await browse(store) == []

    @promise(5)
    async def test_moved_messages_are_numbered_in_the_order_of_their_moves(
        self, store: Store
    ) -> None:
        await send(store, b"a", b"b", b"c")
        [a, b, c] = await lock(store)
        await store.apply([move(c.lock), move(a.lock), move(b.lock)], now=NOON)
        assert contents(await lock(store, queue=DEAD)) == [b"c", b"a", b"b"]
        assert await send(store, b"d", queue=DEAD) == [4]

    @promise(4)
    async def test_of_moves_made_together_each_has_its_own_answer(self, store: Store) -> None:
        await send(store, b"a", b"b", b"c", b"d")
        [a, b] = await lock(store, 2, nonce=1)
        [c, d] = await lock(store, 2, nonce=2)
        wrong = Lock(b.sequence, 2)
        moves = [move(d.lock), move(wrong), move(a.lock), move(d.lock), move(c.lock)]
        lost = await store.apply(moves, now=NOON)
        assert lost == [[], [b.sequence], [], [d.sequence], []]
        assert contents(await lock(store, queue=DEAD)) == [b"d", b"a", b"c"]
        assert contents(await browse(store)) == [b"b"]

    @promise(4)
    async def test_an_expired_free_message_moves_without_a_lock(self, store: Store) -> None:
        await store.apply([Append(MAIN, [Message(b"a", expires_at=after(1))], ROOMY)], now=NOON)
        [due] = await store.due(now=after(1), count_max=5)
        assert await store.apply([move(due.lock, guard=due.guard)], now=after(1)) == [[]]
        assert await contents_of(store, DEAD) == [b"a"]
        assert await store.due(now=after(1e6), count_max=5) == []

    @promise(4)
    async def test_a_moved_message_can_be_locked_given_back_and_removed(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b")
        await store.apply([move(each.lock) for each in await lock(store)], now=NOON)
        [a, b] = await lock(store, queue=DEAD, nonce=2)
        await store.apply([Unlock(DEAD, [a.lock], is_counted=True)], now=NOON)
        assert await store.apply([Remove(DEAD, [b.lock])], now=NOON) == [[]]
        [again] = await lock(store, queue=DEAD, nonce=3)
        assert (again.content, again.delivery_count) == (b"a", 2)
        assert await store.apply([Remove(DEAD, [again.lock])], now=NOON) == [[]]
        reopened = await make_store()
        assert await contents_of(reopened, DEAD) == []

    @promise(4)
    async def test_moved_and_unmoved_messages_are_removed_together(self, store: Store) -> None:
        await send(store, b"sent there", queue=DEAD)
        await send(store, b"moved there", b"stays")
        [moved, _] = await lock(store)
        await store.apply([move(moved.lock)], now=NOON)
        both = await lock(store, queue=DEAD)
        assert contents(both) == [b"sent there", b"moved there"]
        assert await store.apply([Remove(DEAD, locks(both))], now=NOON) == [[]]
        counts = await store.counts(MAIN)
        await store.apply([Remove(MAIN, locks(await browse(store)))], now=NOON)
        assert (counts.messages, (await store.counts(MAIN)).bytes) == (1, 0)

    @promise(5)
    async def test_a_message_moves_on_to_another_entity(self, store: Store) -> None:
        await send(store, b"a")
        [held] = await lock(store)
        before = await store.counts(MAIN)
        await store.apply([move(held.lock, to=PART)], now=NOON)
        assert await store.counts(PART) == before
        assert (await store.counts(MAIN)).bytes == 0
        [moved] = await lock(store, queue=PART)
        await store.apply([Remove(PART, [moved.lock])], now=NOON)
        assert (await store.counts(PART)).bytes == 0

    @promise(1)
    async def test_a_move_to_a_queue_that_is_not_here_changes_nothing(self, store: Store) -> None:
        await send(store, b"a")
        [held] = await lock(store)
        with pytest.raises(EntityNotFound):
            await store.apply([move(held.lock, to=QueueNumber(99))], now=NOON)
        assert await browse(store) == [held]
