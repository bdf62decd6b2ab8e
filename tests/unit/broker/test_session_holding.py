"""sessions: what a holder may do with one, and what needs none (R4)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.broker.browse import browse
from bendybus.broker.deferred import receive_deferred
from bendybus.broker.receive import ReceiveMode, check_open_for_receive
from bendybus.broker.send import check_session_ids
from bendybus.broker.session_listing import SessionListing
from bendybus.broker.session_receiver import SessionReceiver
from bendybus.broker.sessions import (
    accept_session,
    session_state,
    set_session_state,
)
from bendybus.broker.settle import renew, settle
from bendybus.model.entity import (
    EntityStatus,
    Queue,
    QueueProperties,
)
from bendybus.model.errors import (
    ArgumentOutOfRange,
    EntityDisabled,
    InvalidOperation,
    MessageLockLost,
    MessageNotFound,
    SessionLockLost,
)
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Message
from bendybus.model.outcome import Complete, DeadLetter, Defer
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.protocol.messaging.serving import stalled
from tests.unit.broker.serving_verbs import LOCK_SECONDS, verbs
from tests.unit.broker.session_verbs import (
    DELETE,
    FEED,
    FEEDS,
    LEDGER,
    LEDGERS,
    PEEK_LOCK,
    PLAIN,
    QUEUES,
    accept,
    contents,
    post,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock, [LEDGER, LEDGERS, PLAIN, FEED, FEEDS]) as running:
        yield running


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


@pytest.mark.spec("R3.3")
@QUEUES
@pytest.mark.parametrize("mode", [PEEK_LOCK, DELETE])
async def test_what_comes_from_a_store_after_the_session_has_ended_is_not_handed_out(
    broker: LocalBroker, clock: ManualClock, name: str, mode: ReceiveMode
) -> None:
    queue = broker.queue(name)
    await post(queue, clock, "s", b"0")
    held = (await accept(queue, clock, "s")).held
    taker = SessionReceiver(queue.main, held, mode, clock)
    async with stalled(*broker.stores):
        task = asyncio.create_task(taker.receive(1))
        await asyncio.sleep(0)
        clock.advance(LOCK_SECONDS)

    assert await task == []
    await broker.sweep.sweep_all()
    assert contents(await (await accept(queue, clock, "s")).receive(1)) == [b"0"]
