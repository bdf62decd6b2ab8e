"""schedule: messages come when their time has come, and can be taken back until then."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.broker.browse import browse
from bendybus.broker.receive import ReceiveMode
from bendybus.broker.schedule import CANCELLED_MAX, cancel, schedule
from bendybus.broker.send import group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.session_receiver import SessionReceiver
from bendybus.broker.sessions import accept_session
from bendybus.broker.turns import COUNT_ALONE
from bendybus.model.entity import EntityStatus, Queue, QueueProperties
from bendybus.model.errors import (
    ArgumentOutOfRange,
    EntityDisabled,
    InvalidOperation,
    MessageNotFound,
    QuotaExceeded,
    StoreUnavailable,
)
from bendybus.model.ids import FragmentIndex, Instant, SubQueue, fragment_of
from bendybus.model.message import Message, MessageState
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import ORDERS, PARTS, receive_all, receiver, verbs

QUEUES = pytest.mark.parametrize("name", ["orders", "parts"])
MINUTE = 60
SHORT = Queue(
    "short",
    QueueProperties(
        default_message_time_to_live=timedelta(seconds=10),
        dead_lettering_on_message_expiration=True,
    ),
)
ONCE = Queue(
    "once-parts", QueueProperties(requires_duplicate_detection=True, enable_partitioning=True)
)
LEDGERS = [
    Queue(name, QueueProperties(requires_session=True, enable_partitioning=is_partitioned))
    for name, is_partitioned in (("ledger", False), ("ledgers", True))
]
CLOSED = Queue("closed", QueueProperties(status=EntityStatus.SEND_DISABLED))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock, [ORDERS, PARTS, SHORT, ONCE, CLOSED, *LEDGERS]) as running:
        yield running


def later(content: bytes, seconds: float = MINUTE, *, key: str | None = None) -> Message:
    """Make a message for so long after noon."""
    at = Instant(NOON + round(seconds * 1000))
    return Message(content, scheduled_at=at, partition_key=key)


async def contents(queue: ServedQueue, clock: ManualClock) -> list[bytes]:
    """Lock all that is free and return the contents, in any order."""
    return sorted(content for content, _ in await receive_all(queue, clock))


@pytest.mark.spec("R4")
@QUEUES
async def test_a_message_comes_when_its_time_has_come(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    [number] = await schedule(queue, [later(b"a")], clock)
    clock.advance(MINUTE - 0.001)
    await broker.sweep.sweep_all()
    assert await contents(queue, clock) == []
    [shown] = await browse(queue.main, 0, 10)
    assert (shown.sequence, shown.state) == (number, MessageState.SCHEDULED)

    clock.advance(0.001)
    await broker.sweep.sweep_all()

    [held] = await receiver(queue, clock).receive(10)
    assert (held.content, held.enqueued_at) == (b"a", NOON + MINUTE * 1000)
    assert held.sequence > number
    assert fragment_of(held.sequence) == fragment_of(number)


@pytest.mark.spec("R4")
@QUEUES
async def test_a_waiting_receiver_is_told_when_the_time_has_come(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await schedule(queue, [later(b"a")], clock)
    taker = receiver(queue, clock)
    assert await taker.receive(1) == []
    told = taker.waiting.join()
    clock.advance(MINUTE)

    await broker.sweep.sweep_all()

    async with asyncio.timeout(5):
        await told
    assert len(await taker.receive(1)) == 1


@QUEUES
async def test_an_ordinary_send_schedules_those_that_have_a_time_and_sends_the_others(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    mixed = [later(b"past", -1), Message(b"now"), later(b"later"), later(b"present", 0)]

    await send(queue, mixed, FragmentIndex(0), clock)

    assert await contents(queue, clock) == [b"now", b"past", b"present"]
    clock.advance(MINUTE)
    await broker.sweep.sweep_all()
    # Locks of a minute have not ended.
    assert b"later" in await contents(queue, clock)


@pytest.mark.spec("R3.6")
async def test_messages_come_in_the_order_of_their_times(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    times = [5, 1, 4, 2, 3]
    await schedule(queue, [later(b"%d" % each, each) for each in times], clock)
    await send(queue, [Message(b"0")], FragmentIndex(0), clock)
    clock.advance(MINUTE)

    await broker.sweep.sweep_all()

    held = await receiver(queue, clock).receive(10)
    assert [each.content for each in held] == [b"0", b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.spec("R2.1")
async def test_a_key_decides_the_fragment_of_a_scheduled_message(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    keyed = [later(b"%d" % n, key=f"key {n % 3}") for n in range(12)]

    numbers = await schedule(queue, keyed, clock)

    for message, number in zip(keyed, numbers, strict=True):
        [fragment] = group_by_fragment(queue, [message])
        assert fragment_of(number) == fragment
    assert len(set(numbers)) == 12


@pytest.mark.spec("R4")
async def test_a_scheduled_message_begins_to_live_when_its_time_comes(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("short")
    await schedule(queue, [later(b"a")], clock)
    clock.advance(MINUTE + 9)
    await broker.sweep.sweep_all()
    assert len(await contents(queue, clock)) == 1

    await schedule(queue, [later(b"b", 2 * MINUTE)], clock)
    clock.advance(MINUTE + 1.5)
    # The first finds that it is due, the second that its life has ended already.
    await broker.sweep.sweep_all()
    await broker.sweep.sweep_all()

    dead = [
        content for content, _ in await receive_all(queue, clock, sub_queue=SubQueue.DEAD_LETTER)
    ]
    assert b"b" in dead


@pytest.mark.spec("R4")
@QUEUES
async def test_more_than_one_turn_of_messages_comes_due_at_once(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    count = 2 * COUNT_ALONE + 7
    for at in range(0, count, 250):
        await schedule(queue, [later(b"%d" % n) for n in range(at, min(at + 250, count))], clock)
    clock.advance(MINUTE)

    await broker.sweep.sweep_all()

    assert len(await contents(queue, clock)) == count


@QUEUES
async def test_messages_come_due_after_a_restart_too(
    tmp_path: Path, clock: ManualClock, name: str
) -> None:
    async with verbs(tmp_path, clock) as broker:
        await schedule(broker.queue(name), [later(b"a")], clock)
    clock.advance(MINUTE)
    async with verbs(tmp_path, clock) as broker:
        await broker.sweep.sweep_all()
        assert await contents(broker.queue(name), clock) == [b"a"]


@pytest.mark.spec("R4")
@QUEUES
async def test_cancelled_messages_never_come(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    numbers: list[int] = []
    for n in range(20):
        numbers += await schedule(queue, [later(b"%02d" % n)], clock)

    await cancel(queue, [*numbers[5:], numbers[5]], clock)

    clock.advance(MINUTE)
    await broker.sweep.sweep_all()
    assert await contents(queue, clock) == [b"00", b"01", b"02", b"03", b"04"]


@pytest.mark.spec("R4")
@QUEUES
async def test_a_cancel_is_for_all_its_numbers_or_for_none(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send(queue, [Message(b"active")], FragmentIndex(0), clock)
    [active] = await browse(queue.main, 0, 1)
    numbers = await schedule(queue, [later(b"a")], clock)
    numbers += await schedule(queue, [later(b"b")], clock)
    for wrong in (active.sequence, numbers[0] + 1000, 77 << 48 | 1):
        with pytest.raises(MessageNotFound):
            await cancel(queue, [*numbers, wrong], clock)

    await cancel(queue, numbers, clock)

    with pytest.raises(MessageNotFound):
        await cancel(queue, numbers, clock)


@QUEUES
async def test_what_has_come_due_cannot_be_cancelled_even_if_nobody_swept(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    numbers = await schedule(queue, [later(b"a")], clock)
    numbers += await schedule(queue, [later(b"b", 2 * MINUTE)], clock)
    clock.advance(MINUTE)

    with pytest.raises(MessageNotFound):
        await cancel(queue, numbers, clock)

    await cancel(queue, numbers[1:], clock)


@pytest.mark.spec("R4")
@pytest.mark.parametrize("name", ["ledger", "ledgers"])
async def test_a_scheduled_message_of_a_session_comes_to_whoever_holds_it(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    message = Message(b"a", session_id="s", scheduled_at=Instant(NOON + 5000))
    await schedule(queue, [message], clock)
    session = await accept_session(queue.main, "s", clock)
    taker = SessionReceiver(queue.main, session, ReceiveMode.PEEK_LOCK, clock)
    assert await taker.receive(1) == []
    told = session.waiting.join()
    clock.advance(5)

    await broker.sweep.sweep_all()

    async with asyncio.timeout(5):
        await told
    [held] = await taker.receive(1)
    assert (held.content, held.session_id) == (b"a", "s")


@pytest.mark.parametrize("name", ["ledger", "ledgers"])
async def test_a_message_without_a_session_is_not_scheduled_where_there_are_sessions(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    with_session = Message(b"a", session_id="s", scheduled_at=Instant(NOON + 5000))
    with pytest.raises(InvalidOperation, match="SessionId"):
        await schedule(queue, [with_session, later(b"b")], clock)
    assert await browse(queue.main, 0, 10) == []


async def test_too_many_numbers_are_refused(broker: LocalBroker, clock: ManualClock) -> None:
    with pytest.raises(ArgumentOutOfRange):
        await cancel(broker.queue("orders"), [1] * (CANCELLED_MAX + 1), clock)


async def test_a_queue_closed_for_sending_schedules_and_cancels_nothing(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("closed")
    with pytest.raises(EntityDisabled):
        await schedule(queue, [later(b"a")], clock)
    with pytest.raises(EntityDisabled):
        await cancel(queue, [1], clock)


@pytest.mark.spec("R1.6")
async def test_what_other_fragments_have_taken_is_taken_back_when_one_refuses(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    keyed = [later(b"%d" % n, key=str(n)) for n in range(8)]
    *_, full = group_by_fragment(queue, keyed)
    await send(queue, [Message(b"x" * 1000)], full, clock)
    queue.fragment_bytes_max = 1000

    with pytest.raises(QuotaExceeded):
        await schedule(queue, keyed, clock)

    assert len(await receive_all(queue, clock)) == 1
    assert (
        sum([(await each.store.counts(each.number)).messages for each in queue.main.sources]) == 1
    )


@pytest.mark.spec("R1.6")
async def test_with_duplicate_detection_what_was_taken_stays_for_the_next_try(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("once-parts")
    wanted = [Message(b"%d" % n, f"id {n}", scheduled_at=Instant(NOON + 1000)) for n in range(8)]
    *_, full = group_by_fragment(queue, wanted)
    await send(queue, [Message(b"x" * 1000)], full, clock)
    room, queue.fragment_bytes_max = queue.fragment_bytes_max, 1000
    with pytest.raises(QuotaExceeded):
        await schedule(queue, wanted, clock)
    queue.fragment_bytes_max = room

    await schedule(queue, wanted, clock)

    clock.advance(1)
    await broker.sweep.sweep_all()
    assert await contents(queue, clock) == [*(b"%d" % n for n in range(8)), b"x" * 1000]


@pytest.mark.spec("R2.5")
async def test_nothing_is_scheduled_when_the_store_of_a_fragment_is_away(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    keyed = [later(b"%d" % n, key=str(n)) for n in range(8)]
    assert {fragment % 2 for fragment in group_by_fragment(queue, keyed) if fragment} == {0, 1}
    away = queue.main.sources[1].store
    await away.take_offline("a test")

    with pytest.raises(StoreUnavailable):
        await schedule(queue, keyed, clock)

    await away.bring_online()
    assert await browse(queue.main, 0, 10) == []


async def test_a_cancel_that_reaches_a_store_that_is_away_changes_nothing(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    numbers: list[int] = []
    for _ in range(16):
        numbers += await schedule(queue, [later(b"a")], clock)
    await broker.stores[1].take_offline("a test")
    with pytest.raises(StoreUnavailable):
        await cancel(queue, numbers, clock)
    await broker.stores[1].bring_online()

    await cancel(queue, numbers, clock)
