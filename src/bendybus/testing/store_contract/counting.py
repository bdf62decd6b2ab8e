"""How many messages a queue holds, by state, however they came to it."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import Lock, Marks, MessageState
from bendybus.model.operations import (
    Activate,
    Guard,
    Move,
    Operation,
    Purge,
    Remove,
    SetAside,
    Unlock,
)
from bendybus.store.port import Store, Tally
from bendybus.testing.store_contract.deferring import had_back
from bendybus.testing.store_contract.scheduling import later, schedule
from bendybus.testing.store_contract.subject import (
    DEAD,
    MAIN,
    NOON,
    PART,
    StoreMaker,
    StoreSubject,
    after,
    browse,
    lock,
    promise,
    send,
)

DUE = after(100)
EMPTY = (0, 0, 0)


async def tally(store: Store, queue: QueueNumber = MAIN) -> tuple[int, int, int]:
    """Return how many messages are active, scheduled and deferred."""
    [found] = (await store.tallies([queue])).values()
    return found.active, found.scheduled, found.deferred


async def defer(store: Store, *contents: bytes) -> list[int]:
    """Send messages and set them aside; return their numbers."""
    await send(store, *contents)
    held = await lock(store, nonce=77)
    assert await store.apply([SetAside(MAIN, [each.lock for each in held])], now=NOON) == [[]]
    return [each.sequence for each in held]


class CountingContract(StoreSubject):
    """What `tallies` and `locked` say."""

    @promise(1)
    @pytest.mark.spec("R7.2")
    async def test_messages_are_counted_by_state(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        assert await tally(store) == EMPTY
        await defer(store, b"d")
        await send(store, b"a", b"b")
        await lock(store, 1)
        await schedule(store, later(b"s"), later(b"t"), later(b"past", -1))
        assert await tally(store) == (3, 2, 1)
        assert await tally(await make_store()) == (3, 2, 1)

    @promise(1)
    async def test_scheduled_ones_are_counted_no_longer_however_they_go(self, store: Store) -> None:
        numbers = await schedule(store, *[later(b"s")] * 5)
        cancelled, due, purged = numbers[0], numbers[1], numbers[2:4]
        await store.apply([Remove(MAIN, [Lock(cancelled, 0)], Guard.SCHEDULED)], now=NOON)
        assert await tally(store) == (0, 4, 0)
        await store.apply([Activate(MAIN, [due])], now=DUE)
        assert await tally(store) == (1, 3, 0)
        await store.apply([purge(MessageState.SCHEDULED, len(purged))], now=NOON)
        assert await tally(store) == (1, 1, 0)
        await store.apply([Remove(MAIN, [Lock(numbers[4], 0)], Guard.DUE)], now=DUE)
        assert await tally(store) == (1, 0, 0)

    @promise(1)
    async def test_deferred_ones_are_counted_no_longer_however_they_go(self, store: Store) -> None:
        numbers = await defer(store, *[b"d"] * 6)
        held = await had_back(store, numbers[:4])
        completed, moved, again, freed = [each.lock for each in held]
        await store.apply([Unlock(MAIN, [freed], is_counted=True)], now=NOON)
        assert await tally(store) == (0, 0, 6)
        await store.apply([SetAside(MAIN, [again])], now=NOON)
        assert await tally(store) == (0, 0, 6)
        await store.apply([Remove(MAIN, [completed])], now=NOON)
        assert await tally(store) == (0, 0, 5)
        await store.apply([Move(MAIN, DEAD, moved, Marks("why"), is_counted=True)], now=NOON)
        assert await tally(store) == (0, 0, 4)
        assert await tally(store, DEAD) == (1, 0, 0)
        await store.apply([purge(MessageState.DEFERRED, 3)], now=NOON)
        assert await tally(store) == (0, 0, 1)

    @promise(8)
    async def test_a_batch_that_is_undone_changes_no_count(self, store: Store) -> None:
        numbers = await defer(store, b"d")
        [held] = await had_back(store, numbers)
        stranger = Lock(numbers[0], 4711)
        undone: list[Operation] = [Remove(MAIN, [held.lock]), Remove(MAIN, [stranger])]
        with pytest.raises(Exception, match="lock"):
            await store.apply(undone, now=NOON, is_strict=True)
        assert await tally(store) == (0, 0, 1)

    @promise(7)
    async def test_a_damaged_message_is_neither_scheduled_nor_deferred(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        [number] = await defer(store, b"d")
        make_store.spoil_content(MAIN, number)
        store = await make_store()
        assert await browse(store) == []
        assert await tally(store) == (1, 0, 0)

    @promise(3)
    async def test_the_oldest_free_message_says_how_long_it_waits(self, store: Store) -> None:
        assert await oldest(store) is None
        await schedule(store, later(b"s"))
        assert await oldest(store) is None
        await send(store, b"a", now=after(1))
        await send(store, b"b", now=after(2))
        assert await oldest(store) == after(1)
        await lock(store, 1, now=after(3))
        assert await oldest(store) == after(2)

    @promise(4)
    async def test_all_queues_are_counted_if_none_is_named_and_strange_ones_left_out(
        self, store: Store
    ) -> None:
        await send(store, b"a")
        await send(store, b"b", b"c", queue=PART)
        found = await store.tallies()
        assert {queue: each.active for queue, each in found.items() if each.active} == {
            MAIN: 1,
            PART: 2,
        }
        assert len(found) == 8
        assert (await store.tallies([QueueNumber(99), DEAD])) == {DEAD: Tally(0, 0, 0, None, 0)}
        assert await store.tallies([]) == {}

    @promise(2)
    async def test_locked_messages_are_counted_by_queue(self, store: Store) -> None:
        assert await store.locked() == {}
        await send(store, b"a", b"b", b"c")
        await send(store, b"d", queue=PART)
        await lock(store, 2)
        await lock(store, queue=PART)
        assert await store.locked() == {MAIN: 2, PART: 1}


async def oldest(store: Store) -> Instant | None:
    """Say when the oldest free message came."""
    return (await store.tallies([MAIN]))[MAIN].oldest_at


def purge(state: MessageState, count: int) -> Purge:
    """Delete so many of the oldest in a state."""
    return Purge(MAIN, state, count, Instant(1 << 60))
