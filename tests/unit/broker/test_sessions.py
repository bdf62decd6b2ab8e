"""sessions: accepted fairly, received from in order, lost in time, never in anybody's way (R4)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.broker.browse import browse
from bendybus.broker.deferred import receive_deferred
from bendybus.broker.held_sessions import HeldSession
from bendybus.broker.receive import ReceiveMode, check_open_for_receive
from bendybus.broker.send import check_session_ids, group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.served_topic import ServedSubscription
from bendybus.broker.session_listing import SessionListing
from bendybus.broker.session_receiver import SessionReceiver
from bendybus.broker.sessions import (
    accept_session,
    release_session,
    renew_session,
    session_state,
    set_session_state,
)
from bendybus.broker.settle import renew, settle
from bendybus.model.entity import (
    EntityStatus,
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.errors import (
    ArgumentOutOfRange,
    EntityDisabled,
    InvalidOperation,
    MessageLockLost,
    MessageNotFound,
    SessionCannotBeLocked,
    SessionLockLost,
    StoreUnavailable,
)
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Message, StoredMessage
from bendybus.model.outcome import Abandon, Complete, DeadLetter, Defer, Release
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import LOCK_SECONDS, receive_all, verbs

LOCK = timedelta(seconds=LOCK_SECONDS)
LEDGER = Queue(
    "ledger", QueueProperties(lock_duration=LOCK, requires_session=True, max_delivery_count=3)
)
LEDGERS = Queue(
    "ledgers",
    QueueProperties(lock_duration=LOCK, requires_session=True, enable_partitioning=True),
)
PLAIN = Queue("plain", QueueProperties(lock_duration=LOCK))
_SUBSCRIPTION = Subscription(
    "ledger", SubscriptionProperties(lock_duration=LOCK, requires_session=True)
)
FEED = Topic("feed", TopicProperties(), (_SUBSCRIPTION,))
FEEDS = Topic("feeds", TopicProperties(enable_partitioning=True), (_SUBSCRIPTION,))
QUEUES = pytest.mark.parametrize(
    "name", ["ledger", "ledgers", "feed/Subscriptions/ledger", "feeds/Subscriptions/ledger"]
)
PEEK_LOCK, DELETE = ReceiveMode.PEEK_LOCK, ReceiveMode.RECEIVE_AND_DELETE


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock, [LEDGER, LEDGERS, PLAIN, FEED, FEEDS]) as running:
        yield running


async def post(queue: ServedQueue, clock: ManualClock, session_id: str, *contents: bytes) -> None:
    """Send messages of one session, to the topic if it is a subscription that has them."""
    if isinstance(queue, ServedSubscription):
        queue = queue.topic
    messages = [Message(each, session_id=session_id) for each in contents]
    [fragment] = group_by_fragment(queue, messages)
    await send(queue, messages, fragment, clock)


async def accept(
    queue: ServedQueue, clock: ManualClock, session_id: str | None = None
) -> SessionReceiver:
    """Hold a session."""
    held = await asyncio.wait_for(accept_session(queue.main, session_id, clock), 10)
    return SessionReceiver(queue.main, held, PEEK_LOCK, clock)


def contents(messages: list[StoredMessage]) -> list[bytes]:
    return [message.content for message in messages]


async def settled(work: "asyncio.Task[HeldSession]") -> None:
    """Let a task go on until it waits for something that does not come by itself."""
    for _ in range(200):
        await asyncio.sleep(0)
        if work.done():
            return
    await asyncio.wait([work], timeout=0.1)


@pytest.mark.spec("R3.6")
@QUEUES
async def test_a_session_is_received_in_order_and_an_abandoned_message_is_next(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    for number in range(6):
        await post(queue, clock, "s", b"%d" % number)
        await post(queue, clock, "t", b"other")
    receiver = await accept(queue, clock, "s")

    [first, second] = await receiver.receive(2)
    assert await settle(queue.main, [first.lock], Abandon(), clock) == {}

    assert contents(await receiver.receive(2)) == [b"0", b"2"]
    assert await settle(queue.main, [second.lock], Release(), clock) == {}
    assert contents(await receiver.receive(10)) == [b"1", b"3", b"4", b"5"]


@QUEUES
async def test_the_store_is_not_asked_again_for_a_session_that_had_nothing_more(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1", b"2")
    receiver = await accept(queue, clock, "s")
    [first, _] = await receiver.receive(10)

    with pytest.raises(StopIteration) as ended:  # it did not even have to wait
        receiver.receive(10).send(None)
    assert ended.value.value == []

    assert await settle(queue.main, [first.lock], Abandon(), clock) == {}
    assert contents(await receiver.receive(10)) == [b"1"]
    await post(queue, clock, "s", b"3")
    assert contents(await receiver.receive(10)) == [b"3"]


@QUEUES
async def test_long_messages_that_do_not_come_at_once_come_one_after_the_other(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    long = [bytes([number]) * 250_000 for number in range(12)]
    for each in long:
        await post(queue, clock, "s", each)
    receiver = await accept(queue, clock, "s")
    taken: list[bytes] = []
    while messages := await receiver.receive(100):
        assert len(messages) < len(long)
        taken += contents(messages)
    assert taken == long


@QUEUES
async def test_the_next_session_is_another_each_time_until_none_is_left(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    for number in range(20):
        await post(queue, clock, f"s{number}", b"x")

    held = [(await accept(queue, clock)).held.session_id for _ in range(20)]

    assert sorted(held) == sorted(f"s{number}" for number in range(20))


async def test_a_hot_session_cannot_starve_the_others(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("ledger")
    for session_id in ("hot", "a", "b"):
        clock.advance(0.001)
        await post(queue, clock, session_id, b"1")
    order: list[str] = []
    for _ in range(6):
        clock.advance(0.001)
        receiver = await accept(queue, clock)
        order.append(receiver.held.session_id)
        await post(queue, clock, "hot", b"more")
        clock.advance(0.001)
        await receiver.close()

    assert order == ["hot", "a", "b", "hot", "a", "b"]


@QUEUES
async def test_who_waits_for_a_session_is_woken_by_a_message_of_a_free_one_alone(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    holder = await accept(queue, clock, "held")
    assert await holder.receive(1) == []
    hint = holder.waiting.join()
    waiter = asyncio.ensure_future(accept_session(queue.main, None, clock))
    await settled(waiter)

    await post(queue, clock, "held", b"1")

    assert hint.done()
    await settled(waiter)
    assert not waiter.done()
    await post(queue, clock, "free", b"2")
    assert (await asyncio.wait_for(waiter, 10)).session_id == "free"


@QUEUES
async def test_a_session_given_back_goes_to_who_waits(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1")
    first = await accept(queue, clock)
    await first.receive(1)
    waiter = asyncio.ensure_future(accept_session(queue.main, None, clock))
    await settled(waiter)

    await first.close()

    held = await asyncio.wait_for(waiter, 10)
    second = SessionReceiver(queue.main, held, PEEK_LOCK, clock)
    assert [(each.content, each.delivery_count) for each in await second.receive(9)] == [(b"1", 0)]


@QUEUES
async def test_a_named_session_that_is_held_is_refused(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    first = await accept(queue, clock, "s")

    with pytest.raises(SessionCannotBeLocked, match="requested session 's' cannot be accepted"):
        await accept(queue, clock, "s")

    await first.close()
    await accept(queue, clock, "s")


@pytest.mark.spec("R3.3")
@QUEUES
async def test_a_session_whose_lock_ended_is_lost_and_its_messages_are_counted(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1", b"2")
    lost = await accept(queue, clock)
    [message] = await lost.receive(1)
    waiter = asyncio.ensure_future(accept_session(queue.main, None, clock))
    await settled(waiter)
    clock.advance(LOCK_SECONDS)

    await broker.sweep.sweep_all()

    held = await asyncio.wait_for(waiter, 10)
    again = await SessionReceiver(queue.main, held, PEEK_LOCK, clock).receive(9)
    assert [(each.content, each.delivery_count) for each in again] == [(b"1", 1), (b"2", 0)]
    failures = await settle(queue.main, [message.lock], Complete(), clock)
    assert isinstance(failures[message.sequence], SessionLockLost)
    assert await lost.receive(1) == []
    with pytest.raises(SessionLockLost):
        await renew_session(queue.main, lost.held, clock)
    with pytest.raises(SessionLockLost):
        await session_state(queue.main, lost.held, clock)
    await lost.close()
    assert (await settle(queue.main, [each.lock for each in again], Complete(), clock)) == {}


@QUEUES
async def test_a_message_for_a_session_that_was_lost_wakes_who_waits_and_not_who_lost_it(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await accept(queue, clock, "s")
    waiter = asyncio.ensure_future(accept_session(queue.main, None, clock))
    clock.advance(LOCK_SECONDS)
    await broker.sweep.sweep_all()
    await settled(waiter)

    await post(queue, clock, "s", b"1")

    assert (await asyncio.wait_for(waiter, 10)).session_id == "s"


@QUEUES
async def test_a_named_session_that_has_lapsed_is_had_after_the_next_sweep(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1")
    lost = await accept(queue, clock, "s")
    await lost.receive(1)
    clock.advance(LOCK_SECONDS)
    waiter = asyncio.ensure_future(accept_session(queue.main, "s", clock))
    await settled(waiter)
    assert not waiter.done()

    await broker.sweep.sweep_all()

    assert (await asyncio.wait_for(waiter, 10)).session_id == "s"


async def test_a_session_lost_too_often_with_a_message_moves_it_to_the_dead_letters(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("ledger")
    await post(queue, clock, "s", b"1")
    for _ in range(3):
        receiver = await accept(queue, clock, "s")
        assert len(await receiver.receive(1)) == 1
        clock.advance(LOCK_SECONDS)
        await broker.sweep.sweep_all()

    assert await receive_all(queue, clock, sub_queue=SubQueue.DEAD_LETTER) == [(b"1", 3)]


@QUEUES
async def test_a_renewed_session_keeps_its_messages(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1")
    receiver = await accept(queue, clock, "s")
    [message] = await receiver.receive(1)
    clock.advance(LOCK_SECONDS - 1)

    until = await renew_session(queue.main, receiver.held, clock)

    assert until == receiver.held.locked_until == clock.now() + LOCK_SECONDS * 1000
    clock.advance(LOCK_SECONDS - 1)
    await broker.sweep.sweep_all()
    assert await settle(queue.main, [message.lock], Complete(), clock) == {}


@QUEUES
async def test_a_wait_that_is_given_up_leaves_no_session_locked(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1")
    for turns in range(12):
        waiter = asyncio.ensure_future(accept_session(queue.main, None, clock))
        for _ in range(turns):
            await asyncio.sleep(0)
        if waiter.done():
            await release_session(queue.main, waiter.result(), clock)
        waiter.cancel()
        await asyncio.wait([waiter])

    receiver = await accept(queue, clock)

    assert receiver.held.session_id == "s"
    assert len(await receiver.receive(1)) == 1


async def test_a_wake_that_a_quitter_got_goes_to_the_next(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("ledger")
    quitter = asyncio.ensure_future(accept_session(queue.main, None, clock))
    stayer = asyncio.ensure_future(accept_session(queue.main, None, clock))
    await settled(quitter)
    await settled(stayer)

    await post(queue, clock, "s", b"1")
    quitter.cancel()

    assert (await asyncio.wait_for(stayer, 10)).session_id == "s"


@QUEUES
async def test_a_state_belongs_to_the_session_and_is_for_its_holder(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    first = await accept(queue, clock, "s")
    await set_session_state(queue.main, first.held, b"so far", clock)
    await first.close()
    with pytest.raises(SessionLockLost):
        await set_session_state(queue.main, first.held, b"too late", clock)

    second = await accept(queue, clock, "s")

    assert await session_state(queue.main, second.held, clock) == b"so far"
    largest = bytes(queue.message_bytes_max)
    await set_session_state(queue.main, second.held, largest, clock)
    with pytest.raises(ArgumentOutOfRange, match="262145 bytes"):
        await set_session_state(queue.main, second.held, largest + b"x", clock)
    assert await session_state(queue.main, second.held, clock) == largest


@QUEUES
async def test_all_sessions_are_listed_page_by_page(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    listing = SessionListing(queue.main)
    assert await listing.page(None, 0, 7) == []
    names = {f"s{number}" for number in range(50)}
    for session_id in names:
        await post(queue, clock, session_id, b"x")
    moment = clock.now()
    clock.advance(1)
    receiver = await accept(queue, clock, "with state")
    await set_session_state(queue.main, receiver.held, b"x", clock)

    listed: list[str] = []
    while page := await listing.page(None, len(listed), 7):
        assert len(page) == min(7, 51 - len(listed))
        listed += page

    assert set(listed) == names | {"with state"}
    # Asked for out of turn it counts from the start.
    assert await listing.page(None, 20, 7) == listed[20:27]
    assert await listing.page(None, 20, 7) == listed[20:27]
    assert await listing.page(None, 1000, 7) == []
    assert await listing.page(moment, 0, 10) == ["with state"]
    assert await listing.page(Instant(moment + 1000), 0, 10) == []


@QUEUES
async def test_deferred_messages_need_the_session(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1")
    receiver = await accept(queue, clock, "s")
    [message] = await receiver.receive(1)
    assert await settle(queue.main, [message.lock], Defer(), clock) == {}
    other = await accept(queue, clock, "t")
    numbers = [message.sequence]

    with pytest.raises(MessageNotFound):
        await receive_deferred(queue.main, numbers, PEEK_LOCK, clock, other.held)
    [deferred] = await receive_deferred(queue.main, numbers, PEEK_LOCK, clock, receiver.held)

    assert await settle(queue.main, [deferred.lock], Complete(), clock) == {}


@QUEUES
async def test_a_session_is_browsed_alone_and_by_anybody(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    for number in range(5):
        await post(queue, clock, f"s{number}", b"x", b"y")

    found = await browse(queue.main, 0, 10, "s3")

    assert [(each.session_id, each.content) for each in found] == [("s3", b"x"), ("s3", b"y")]
    [last] = await browse(queue.main, found[0].sequence + 1, 10, "s3")
    assert last.content == b"y"
    assert await browse(queue.main, last.sequence + 1, 10, "s3") == []


@QUEUES
async def test_messages_of_a_session_are_received_and_deleted_in_order(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"1", b"2", b"3")
    held = await accept_session(queue.main, None, clock)
    receiver = SessionReceiver(queue.main, held, DELETE, clock)

    assert contents(await receiver.receive(2)) == [b"1", b"2"]
    await receiver.close()

    assert contents(await browse(queue.main, 0, 10)) == [b"3"]


async def test_one_settlement_of_a_message_is_the_last(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("ledger")
    await post(queue, clock, "s", b"1")
    receiver = await accept(queue, clock)
    [message] = await receiver.receive(1)
    assert await settle(queue.main, [message.lock], DeadLetter("why"), clock) == {}

    failures = await settle(queue.main, [message.lock], Complete(), clock)

    assert isinstance(failures[message.sequence], MessageLockLost)
    with pytest.raises(InvalidOperation, match="as long as its session"):
        await renew(queue.main, [message.lock], clock)


async def test_receivers_with_and_without_a_session_are_for_different_entities(
    broker: LocalBroker, clock: ManualClock
) -> None:
    with pytest.raises(InvalidOperation, match="non-sessionful"):
        check_open_for_receive(broker.queue("ledger").main)
    check_open_for_receive(broker.queue("ledger").sub_queues[SubQueue.DEAD_LETTER])
    for sub_queue in (
        broker.queue("plain").main,
        broker.queue("ledger").sub_queues[SubQueue.DEAD_LETTER],
    ):
        with pytest.raises(InvalidOperation, match="does not require sessions"):
            await accept_session(sub_queue, "s", clock)


@pytest.mark.spec("R2.1")
async def test_a_message_without_a_session_is_refused_where_sessions_are_required(
    broker: LocalBroker,
) -> None:
    check_session_ids(broker.queue("plain"), [Message(b"")])
    check_session_ids(broker.queue("ledger"), [Message(b"", session_id="")])
    with pytest.raises(InvalidOperation, match="The SessionId was not set on a message"):
        check_session_ids(broker.queue("ledger"), [Message(b"", session_id="s"), Message(b"")])


async def test_a_closed_queue_gives_no_sessions(tmp_path: Path, clock: ManualClock) -> None:
    properties = QueueProperties(requires_session=True, status=EntityStatus.RECEIVE_DISABLED)
    async with verbs(tmp_path, clock, [Queue("q", properties)]) as broker:
        with pytest.raises(EntityDisabled):
            await accept_session(broker.queue("q").main, None, clock)


@pytest.mark.spec("R1.2")
async def test_while_a_store_is_away_the_sessions_of_others_are_given(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("ledgers")
    names = [f"s{number}" for number in range(12)]
    for session_id in names:
        await post(queue, clock, session_id, b"x")
    gone = broker.stores[0]
    away = [each for each in names if queue.main.source_of_session(each).store is gone]
    kept = await accept(queue, clock, away[0])
    [message] = await kept.receive(1)
    await gone.take_offline("drill")

    held = [(await accept(queue, clock)).held.session_id for _ in range(len(names) - len(away))]

    assert sorted([*held, *away]) == sorted(names)
    with pytest.raises(StoreUnavailable):
        await accept(queue, clock, away[1])
    assert await kept.receive(1) == []
    hint = kept.waiting.join()
    waiter = asyncio.ensure_future(accept_session(queue.main, None, clock))
    await settled(waiter)
    assert not waiter.done()
    await gone.bring_online()
    await broker.sweep.sweep_all()
    assert hint.done()
    assert (await asyncio.wait_for(waiter, 10)).session_id in away[1:]
    assert await settle(queue.main, [message.lock], Complete(), clock) == {}
