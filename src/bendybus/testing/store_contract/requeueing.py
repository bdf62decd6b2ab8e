"""Messages that begin anew in another queue, many at a time."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.entity import Subscription, Topic
from bendybus.model.errors import EntityNotFound
from bendybus.model.ids import EntityNumber, Instant, QueueNumber, SubQueue
from bendybus.model.message import Lock, Marks, Message, StoredMessage
from bendybus.model.operations import (
    Append,
    Guard,
    Move,
    Operation,
    Publish,
    Remove,
    Requeue,
    Requeued,
    SetAside,
    Taker,
    Unlock,
)
from bendybus.store.port import (
    AcceptSession,
    AcquireDeferred,
    EntityRecord,
    FragmentPlace,
    ParentTopic,
    QueueCounts,
    QueueExtent,
    Store,
)
from bendybus.testing.store_contract.sessions import DEAD_SESSIONS, LEDGERS, SESSIONS
from bendybus.testing.store_contract.subject import (
    DEAD,
    HERE,
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
    locks,
    promise,
    send,
)

WHY = Marks("Rejected", "why", "orders")
KEPT = Marks(property_changes=b"\x01", enqueued_sequence=7)


def anew(
    message: StoredMessage, marks: Marks | None = None, expires_at: Instant | None = None
) -> Requeued:
    """Have a message begin anew that was looked at."""
    return Requeued(Lock(message.sequence, 0, message.delivery_count), marks, expires_at)


def back(messages: list[StoredMessage]) -> Requeue:
    """Have dead letters go back."""
    return Requeue(DEAD, MAIN, [anew(each) for each in messages])


async def bury(store: Store, *bodies: bytes) -> list[StoredMessage]:
    """Send messages and dead-letter them; return them as they are then."""
    await send(store, *bodies)
    moves: list[Operation] = [
        Move(MAIN, DEAD, each.lock, WHY, is_counted=True) for each in await lock(store)
    ]
    await store.apply(moves, now=NOON)
    return await browse(store, DEAD)


class RequeueingContract(StoreSubject):
    """Promises 1, 4 and 5, of messages that begin anew."""

    @promise(5)
    async def test_they_come_to_the_end_of_the_other_queue_in_the_order_given(
        self, store: Store
    ) -> None:
        [a, b, c] = await bury(store, b"a", b"b", b"c")
        await send(store, b"there before")
        assert await store.apply([back([c, a, b])], now=after(9)) == [[]]
        assert await contents_of(store, DEAD) == []
        assert await contents_of(store) == [b"there before", b"c", b"a", b"b"]
        assert [each.sequence for each in await browse(store)] == [4, 5, 6, 7]

    @promise(4)
    async def test_they_are_free_as_if_never_delivered(self, store: Store) -> None:
        [dead] = await bury(store, b"a")
        given = Requeue(DEAD, MAIN, [anew(dead, KEPT, after(90))])
        assert dead.delivery_count == 1
        await store.apply([given], now=after(9))
        assert await browse(store) == [
            dead._replace(sequence=2, delivery_count=0, marks=KEPT, expires_at=after(90))
        ]
        assert contents(await lock(store)) == [b"a"]

    @promise(4)
    async def test_those_that_somebody_touched_stay_and_are_told(self, store: Store) -> None:
        seen = await bury(store, b"free", b"locked", b"given back", b"set aside", b"gone")
        held = {each.content: each.lock for each in await lock(store, queue=DEAD)}
        await store.apply(
            [
                Unlock(DEAD, [held[b"free"]], is_counted=False),
                Unlock(DEAD, [held[b"given back"]], is_counted=True),
                SetAside(DEAD, [held[b"set aside"]]),
                Remove(DEAD, [held[b"gone"]]),
            ],
            now=NOON,
        )
        nowhere = seen[0]._replace(sequence=1 << 50)
        [lost] = await store.apply([back([*seen, nowhere])], now=NOON)
        assert isinstance(lost, list)
        assert sorted(lost) == [*(each.sequence for each in seen[1:]), 1 << 50]
        assert await contents_of(store) == [b"free"]
        assert await contents_of(store, DEAD) == [b"locked", b"given back", b"set aside"]

    @promise(4)
    async def test_a_second_time_moves_nothing(self, store: Store) -> None:
        dead = await bury(store, b"a", b"b")
        await store.apply([back(dead)], now=NOON)
        assert await store.apply([back(dead)], now=NOON) == [[1, 2]]
        assert await contents_of(store) == [b"a", b"b"]

    @promise(4)
    async def test_bytes_stay_and_messages_are_counted_where_they_are(self, store: Store) -> None:
        dead = await bury(store, b"a" * 100, b"b" * 50)
        before = await store.counts(MAIN)
        await store.apply([back(dead)], now=NOON)
        assert await store.counts(MAIN) == QueueCounts(messages=2, bytes=before.bytes)
        assert (await store.counts(DEAD)).messages == 0
        await store.apply([Remove(MAIN, locks(await lock(store)))], now=NOON)
        assert await store.counts(MAIN) == QueueCounts(messages=0, bytes=0)

    @promise(4)
    async def test_bytes_go_along_to_another_entity(self, store: Store) -> None:
        dead = await bury(store, b"a" * 100)
        before = await store.counts(MAIN)
        await store.apply([Requeue(DEAD, PART, [anew(dead[0])])], now=NOON)
        assert (await store.counts(MAIN)).bytes == 0
        assert (await store.counts(PART)).bytes == before.bytes

    @promise(1)
    async def test_they_are_where_they_were_or_where_they_go_and_that_is_durable(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        dead = await bury(store, b"a", b"b")
        with pytest.raises(EntityNotFound):
            await store.apply(
                [back(dead[:1]), Requeue(DEAD, QueueNumber(99), [anew(dead[1])])], now=NOON
            )
        assert await browse(store, DEAD) == dead
        await store.apply([back(dead)], now=NOON)
        reopened = await make_store()
        assert await contents_of(reopened) == [b"a", b"b"]
        assert await contents_of(reopened, DEAD) == []

    @promise(4)
    async def test_expiry_counts_from_then_on(self, store: Store) -> None:
        [a, b] = await bury(store, b"a", b"b")
        given = Requeue(DEAD, MAIN, [anew(a, expires_at=after(5)), anew(b)])
        await store.apply([given], now=NOON)
        [due] = await store.due(now=after(5), count_max=9)
        assert (due.lock.sequence, due.guard) == (3, Guard.FREE)

    @promise(6)
    async def test_their_sessions_can_be_accepted_again(self, store: Store) -> None:
        await store.put_entities([LEDGERS])
        message = Message(b"a", session_id="s")
        await store.apply([Append(DEAD_SESSIONS, [message], ROOMY)], now=NOON)
        [dead] = await browse(store, DEAD_SESSIONS)
        await store.apply([Requeue(DEAD_SESSIONS, SESSIONS, [anew(dead)])], now=NOON)
        wish = AcceptSession(SESSIONS, None, Instant(NOON + LOCK_MS), 5)
        assert await store.accept_session(wish, now=NOON) == "s"

    @promise(4)
    async def test_a_content_that_subscriptions_share_goes_with_the_last(
        self, store: Store
    ) -> None:
        queues = await _news(store)
        both = [Taker(queue, range(5), [None] * 5) for queue in queues]
        messages = [Message(b"%d" % number) for number in range(5)]
        await store.apply([Publish(QueueNumber(9), messages, both, [], ROOMY)], now=NOON)
        held = await lock(store, queue=queues[0])
        dead = QueueNumber(queues[0] + SubQueue.DEAD_LETTER)
        await store.apply(
            [Move(queues[0], dead, each.lock, WHY, is_counted=False) for each in held], now=NOON
        )
        given = [anew(each) for each in await browse(store, dead)]
        assert await store.apply([Requeue(dead, queues[0], given)], now=NOON) == [[]]
        for queue in queues:
            held = await lock(store, queue=queue)
            assert contents(held) == [message.content for message in messages]
            await store.apply([Remove(queue, locks(held))], now=NOON)
        assert await store.counts(QueueNumber(9)) == QueueCounts(messages=0, bytes=0)

    # Removing what was looked at

    @promise(4)
    async def test_what_was_looked_at_is_removed_unless_it_was_touched(self, store: Store) -> None:
        seen = await bury(store, b"free", b"given back", b"locked")
        [_, returned, _] = await lock(store, queue=DEAD)
        await store.apply(
            [
                Unlock(DEAD, [Lock(seen[0].sequence, 1)], is_counted=False),
                Unlock(DEAD, [returned.lock], is_counted=True),
            ],
            now=NOON,
        )
        given = [anew(each).lock for each in seen]
        assert await store.apply([Remove(DEAD, given, Guard.UNTOUCHED)], now=NOON) == [[2, 3]]
        assert await contents_of(store, DEAD) == [b"given back", b"locked"]

    @promise(4)
    async def test_only_what_is_set_aside_and_free_is_removed_as_such(self, store: Store) -> None:
        await send(store, b"active", b"aside", b"aside and locked")
        held = await lock(store)
        await store.apply(
            [
                Unlock(MAIN, [held[0].lock], is_counted=False),
                SetAside(MAIN, [held[1].lock, held[2].lock]),
            ],
            now=NOON,
        )
        wish = AcquireDeferred(MAIN, [3], Instant(NOON + LOCK_MS), 9)
        assert len(await store.acquire_deferred(wish, now=NOON)) == 1
        given = [Lock(number, 0) for number in (1, 2, 3)]
        assert await store.apply([Remove(MAIN, given, Guard.SET_ASIDE)], now=NOON) == [[1, 3]]

    # How much there is

    @promise(5)
    async def test_the_extent_ends_with_the_last_number_given_out(self, store: Store) -> None:
        assert await store.extent(MAIN) == QueueExtent(0, 0, 0, 1)
        await send(store, b"a", b"b")
        await store.apply([Remove(MAIN, locks(await lock(store, 1)))], now=NOON)
        size = (await store.counts(MAIN)).bytes
        assert size > 0
        assert await store.extent(MAIN) == QueueExtent(1, size, 2, 2)
        await store.apply([Remove(MAIN, locks(await lock(store, 1)))], now=NOON)
        assert await store.extent(MAIN) == QueueExtent(0, 0, 2, 3)
        [number] = await send(store, b"c", queue=PART)
        assert await store.extent(PART) == QueueExtent(1, size, number, number)
        with pytest.raises(EntityNotFound):
            await store.extent(QueueNumber(99))


async def _news(store: Store) -> list[QueueNumber]:
    """Make a topic with two subscriptions; return their queues."""
    number = EntityNumber(3)
    place = FragmentPlace(HERE, QueueNumber(9))
    await store.put_entities([EntityRecord(number, Topic("news"), 1, (place,))])
    queues = [QueueNumber(13), QueueNumber(17)]
    for at, queue in enumerate(queues, 4):
        place = FragmentPlace(HERE, queue)
        parent = ParentTopic(number, "news")
        record = EntityRecord(EntityNumber(at), Subscription(f"s{at}"), 1, (place,), parent)
        await store.put_entities([record])
    return queues
