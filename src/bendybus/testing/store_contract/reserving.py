"""Messages that a reader keeps for itself."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.errors import ReaderLost
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import Lock, Marks, Message, MessageState, StoredMessage
from bendybus.model.operations import (
    Append,
    CommitReserved,
    GiveBack,
    Guard,
    Move,
    OpenReader,
    Operation,
    Purge,
    Purged,
    ReaderPlace,
    Remove,
    Requeue,
    Requeued,
    Reserve,
    ReserveChosen,
    Reserved,
    SetAside,
    Unlock,
)
from bendybus.store.port import AcquireDeferred, QueueCounts, Store
from bendybus.testing.store_contract.subject import (
    DEAD,
    LOCK_MS,
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
    promise,
    send,
)

NAME, TOKEN, RELEASED = "capture", "first", "released"
IDLE_MS = 60_000
every_queue = pytest.mark.parametrize(
    "queue", [MAIN, DEAD, PART], ids=["main", "dead letters", "partitioned"]
)


async def open_reader(
    store: Store,
    *,
    queue: QueueNumber = MAIN,
    name: str = NAME,
    token: str = TOKEN,
    now: Instant = NOON,
    readers_max: int = 10,
) -> ReaderPlace:
    """Open a reader that nobody has used for a minute."""
    operation = OpenReader(queue, name, token, now, Instant(now - IDLE_MS), readers_max)
    [place] = await store.apply([operation], now=now)
    assert isinstance(place, ReaderPlace)
    return place


async def reserve(
    store: Store,
    count_max: int = 100,
    *,
    queue: QueueNumber = MAIN,
    token: str = TOKEN,
    at: int = 0,
    before: int | None = None,
    now: Instant = NOON,
) -> Reserved:
    """Reserve messages behind a position."""
    return await reserved(store, Reserve(queue, NAME, token, at, count_max, ROOMY, before), now)


async def reserved(
    store: Store, operation: Reserve | ReserveChosen, now: Instant = NOON
) -> Reserved:
    """Reserve messages as an operation says."""
    [made] = await store.apply([operation], now=now)
    assert isinstance(made, Reserved)
    return made


async def commit(
    store: Store,
    until: int,
    *,
    queue: QueueNumber = MAIN,
    token: str = TOKEN,
    now: Instant = NOON,
) -> int:
    """Commit one turn."""
    [committed] = await store.apply([CommitReserved(queue, NAME, token, until)], now=now)
    assert isinstance(committed, int)
    return committed


async def give_back(
    store: Store,
    *,
    queue: QueueNumber = MAIN,
    token: str | None = TOKEN,
    now: Instant = NOON,
) -> Reserved:
    """Give back one turn."""
    [freed] = await store.apply([GiveBack(queue, NAME, token, RELEASED)], now=now)
    assert isinstance(freed, Reserved)
    return freed


async def read(
    store: Store,
    at: int = 0,
    until: int = 1,
    *,
    queue: QueueNumber = MAIN,
    name: str = NAME,
    token: str = TOKEN,
) -> list[StoredMessage]:
    """Read back what is reserved between two positions."""
    found: list[StoredMessage] = []
    for each in await store.reservations(queue, name, token, after=at, until=until, now=NOON):
        start = 0
        while messages := await store.read_reserved(
            queue, each.number, from_sequence=start, count_max=3, bytes_max=ROOMY
        ):
            found += messages
            start = messages[-1].sequence + 1
    return found


class ReservingContract(StoreSubject):
    """Promise 14."""

    @promise(14)
    @every_queue
    async def test_what_is_reserved_nobody_else_receives(
        self, store: Store, queue: QueueNumber
    ) -> None:
        await send(store, b"a", b"b", b"c", queue=queue)
        assert await open_reader(store, queue=queue) == ReaderPlace(0, 0)
        made = await reserve(store, 2, queue=queue)
        assert (made.position, made.messages) == (1, 2)
        assert contents(await lock(store, queue=queue)) == [b"c"]
        found = await read(store, queue=queue)
        assert contents(found) == [b"a", b"b"]
        assert {each.state for each in found} == {MessageState.RESERVED}
        assert [each.state for each in await browse(store, queue)] == [3, 3, 0]

    @promise(14)
    async def test_what_is_locked_deferred_or_scheduled_is_not_reserved(self, store: Store) -> None:
        later = Message(b"scheduled", scheduled_at=after(50))
        await store.apply([Append(MAIN, [later], ROOMY)], now=NOON)
        await send(store, b"locked", b"deferred", b"free")
        [_, deferred] = await lock(store, 2)
        await store.apply([SetAside(MAIN, [deferred.lock])], now=NOON)
        await open_reader(store)
        await reserve(store)
        assert contents(await read(store)) == [b"free"]
        await store.apply([Unlock(MAIN, [Lock(2, 1)], is_counted=True)], now=NOON)
        assert (await reserve(store, at=1)).messages == 1
        [returned] = await read(store, 1, 2)
        assert (returned.content, returned.delivery_count) == (b"locked", 1)

    @promise(14)
    async def test_it_reads_back_the_same_any_number_of_times_and_over_restarts(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        message = Message(b"a", session_id="s", partition_key="s", expires_at=after(100))
        await store.apply([Append(MAIN, [message] * 5, ROOMY)], now=NOON)
        await open_reader(store)
        await reserve(store, 3)
        await reserve(store, 3, at=1)
        before = await read(store, 0, 2)
        assert len(before) == 5
        assert await read(store, 0, 2) == before
        store = await make_store()
        assert await read(store, 0, 2) == before
        assert await read(store, 1, 2) == before[3:]
        assert await lock(store) == []

    @promise(14)
    async def test_who_asks_again_is_given_the_same(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b", b"c")
        await open_reader(store)
        made = await reserve(store, 2)
        assert await reserve(store, 100) == made
        store = await make_store()
        assert await reserve(store, 1) == made
        following = await reserve(store, 1, at=1)
        assert (following.position, following.messages) == (2, 1)
        assert await reserve(store, at=2) == Reserved(2, 0, 0)

    @promise(14)
    async def test_it_does_not_expire(self, store: Store) -> None:
        messages = [Message(each, expires_at=after(10)) for each in (b"reserved", b"free")]
        await store.apply([Append(MAIN, messages, ROOMY)], now=NOON)
        await open_reader(store)
        await reserve(store, 1)
        [due] = await store.due(now=after(20), count_max=10)
        assert due.lock.sequence == 2
        # As a sweep would that found it before it was reserved.
        removal: list[Operation] = [Remove(MAIN, [Lock(1, 0), due.lock], Guard.FREE)]
        assert await store.apply(removal, now=after(20)) == [[1]]
        assert await store.next_due() is None
        assert contents(await read(store)) == [b"reserved"]

    @promise(14)
    async def test_what_has_expired_is_not_reserved(self, store: Store) -> None:
        messages = [Message(b"old", expires_at=after(10)), Message(b"new")]
        await store.apply([Append(MAIN, messages, ROOMY)], now=NOON)
        await open_reader(store)
        await reserve(store, now=after(10))
        assert contents(await read(store)) == [b"new"]

    @promise(14)
    async def test_nobody_else_changes_or_deletes_it(self, store: Store) -> None:
        await send(store, b"a")
        await open_reader(store)
        await reserve(store)
        deferred = AcquireDeferred(MAIN, [1], after(60), 7)
        assert await store.acquire_deferred(deferred, now=NOON) == []
        assert await store.find_locked(MAIN, [Lock(1, 1)], now=NOON) == []
        for guard in Guard:
            removal: list[Operation] = [Remove(MAIN, [Lock(1, 1)], guard)]
            assert await store.apply(removal, now=after(1e6)) == [[1]], guard
        requeue = Requeue(MAIN, DEAD, [Requeued(Lock(1, 0), None, None)])
        move = Move(MAIN, DEAD, Lock(1, 1), Marks(), is_counted=False)
        assert await store.apply([requeue, move], now=NOON) == [[1], [1]]
        for state in (MessageState.ACTIVE, MessageState.DEFERRED, MessageState.SCHEDULED):
            purge = Purge(MAIN, state, 100, after(1e6))
            assert await store.apply([purge], now=NOON) == [Purged(0, None)]
        assert contents(await read(store)) == [b"a"]

    @promise(14)
    @every_queue
    async def test_what_is_committed_is_deleted(self, store: Store, queue: QueueNumber) -> None:
        await send(store, *[b"x"] * 5, queue=queue)
        await open_reader(store, queue=queue)
        for at in range(3):
            await reserve(store, 2, queue=queue, at=at)
        assert await commit(store, 2, queue=queue) == 1
        assert await commit(store, 2, queue=queue) == 2
        assert await commit(store, 1, queue=queue) == 2
        assert len(await browse(store, queue)) == 1
        assert (await store.counts(queue)).messages == 1
        with pytest.raises(ReaderLost, match="done with"):
            await read(store, 1, 2, queue=queue)
        assert len(await read(store, 2, 3, queue=queue)) == 1
        assert await commit(store, 3, queue=queue) == 3
        assert await store.counts(queue) == QueueCounts(0, 0)

    @promise(1)
    async def test_what_was_committed_stays_deleted(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b")
        await open_reader(store)
        await reserve(store, 1)
        await commit(store, 1)
        store = await make_store()
        assert await contents_of(store) == [b"b"]
        assert await commit(store, 1) == 1
        assert await reserve(store, at=1) == Reserved(2, 1, (await store.counts(MAIN)).bytes)

    @promise(14)
    async def test_dead_letters_that_moved_are_committed_with_their_contents(
        self, store: Store
    ) -> None:
        await send(store, b"x" * 100, b"y" * 100)
        [held, _] = await lock(store)
        await store.apply([Move(MAIN, DEAD, held.lock, Marks("why"), is_counted=True)], now=NOON)
        await open_reader(store, queue=DEAD)
        await reserve(store, queue=DEAD)
        [dead] = await read(store, queue=DEAD)
        assert dead.marks == Marks("why")
        before = await store.counts(MAIN)
        await commit(store, 1, queue=DEAD)
        assert await store.counts(MAIN) == QueueCounts(1, before.bytes // 2)
        assert await browse(store, DEAD) == []

    @promise(14)
    async def test_what_is_given_back_is_free_at_its_old_place_and_not_counted(
        self, store: Store
    ) -> None:
        await send(store, b"a", b"b", b"c")
        await open_reader(store)
        await reserve(store, 1)
        await reserve(store, 1, at=1)
        assert (await give_back(store)).position == 2
        with pytest.raises(ReaderLost):
            await reserve(store, at=1)
        with pytest.raises(ReaderLost):
            await give_back(store)
        assert (await give_back(store, token=RELEASED)).position == 1
        assert (await give_back(store, token=RELEASED)).messages == 0
        assert await store.readers() == []
        found = await lock(store)
        assert [(each.content, each.delivery_count) for each in found] == [
            (b"a", 0),
            (b"b", 0),
            (b"c", 0),
        ]

    @promise(14)
    async def test_what_is_given_back_after_its_time_is_due(self, store: Store) -> None:
        await store.apply([Append(MAIN, [Message(b"a", expires_at=after(10))], ROOMY)], now=NOON)
        await open_reader(store)
        await reserve(store)
        await give_back(store, token=None, now=after(20))
        [due] = await store.due(now=after(20), count_max=10)
        assert due.guard is Guard.FREE

    @promise(14)
    async def test_bounds_of_count_bytes_and_number_are_kept(self, store: Store) -> None:
        await send(store, *[b"x" * 100] * 6)
        one = (await store.counts(MAIN)).bytes // 6
        await open_reader(store)
        for at, room, expected in ((0, 2 * one, (1, 2, 2 * one)), (1, 1, (2, 1, one))):
            assert await reserved(store, Reserve(MAIN, NAME, TOKEN, at, 9, room)) == expected
        assert await reserve(store, at=2, before=4) == Reserved(2, 0, 0)
        assert await reserve(store, at=2, before=6) == Reserved(3, 2, 2 * one)
        assert await reserve(store, at=3, before=-1) == Reserved(3, 0, 0)
        assert await reserve(store, at=3, count_max=1) == Reserved(4, 1, one)

    @promise(14)
    async def test_chosen_messages_are_reserved_if_they_are_free(self, store: Store) -> None:
        await send(store, b"a", b"b", b"c", b"d")
        await lock(store, 1)
        await open_reader(store)
        await reserve(store, 1)
        chosen = ReserveChosen(MAIN, NAME, TOKEN, [4, 1, 2, 99, 3, 1 << 50], ROOMY)
        made = await reserved(store, chosen)
        assert (made.position, made.messages) == (2, 2)
        assert contents(await read(store, 1, 2)) == [b"c", b"d"]
        assert await store.apply([chosen], now=NOON) == [Reserved(2, 0, 0)]

    @promise(7)
    async def test_damaged_messages_are_left_out_and_the_rest_goes_on(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b", b"c", b"d")
        await open_reader(store)
        await reserve(store)
        make_store.spoil_content(MAIN, 1)
        make_store.lose_content(MAIN, 3)
        assert contents(await read(store)) == [b"b", b"d"]
        assert contents(await read(store)) == [b"b", b"d"]
        await commit(store, 1)
        assert await browse(store) == []
        # They still take room.
        assert (await store.counts(MAIN)).messages == 2

    @promise(7)
    async def test_all_damaged_is_nothing_left(self, store: Store, make_store: StoreMaker) -> None:
        await send(store, b"a")
        await open_reader(store)
        await reserve(store)
        make_store.spoil_content(MAIN, 1)
        assert await read(store) == []
        assert await commit(store, 1) == 1

    @promise(2)
    async def test_a_lock_that_ends_is_no_reservations_business(self, store: Store) -> None:
        await send(store, b"a", b"b")
        await lock(store, 1)
        await open_reader(store)
        await reserve(store)
        assert await store.locked() == {MAIN: 1}
        [due] = await store.due(now=Instant(NOON + LOCK_MS), count_max=10)
        assert due.guard is Guard.LAPSED
        assert contents(await read(store)) == [b"b"]
