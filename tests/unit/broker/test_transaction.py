"""transaction: what is written, and who learns of it, when stores come and go."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bendybus.broker.open_transactions import OpenTransactions
from bendybus.broker.receive import Receiver
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.transaction import Transaction
from bendybus.model.entity import EntityStatus
from bendybus.model.errors import (
    EntityDisabled,
    InvalidOperation,
    MessageLockLost,
    QuotaExceeded,
    StoreFailed,
    StoreUnavailable,
    TransactionRolledBack,
    TransactionTimedOut,
    TransactionUnknown,
)
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Lock, Message, StoredMessage
from bendybus.model.outcome import Abandon, Complete, DeadLetter
from bendybus.model.transaction import OPEN_MAX, TransactionLimits
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.faulty_disk import Fault, faulty_disk
from bendybus.testing.local_broker import LocalBroker, local_broker
from tests.unit.broker.serving_verbs import ORDERS, PARTS, receiver, send_each, verbs

pytestmark = pytest.mark.spec("R5.4")
QUEUES = pytest.mark.parametrize("name", ["orders", "parts"])
LATER = Instant(NOON + 120_000)
WAIT_SECONDS = 10.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock) as running:
        yield running


def _transaction() -> Transaction:
    return Transaction(100, LATER)


def _message(content: bytes = b"out") -> Message:
    return Message(content, partition_key="k")


async def _held(queue: ServedQueue, clock: ManualClock) -> tuple[Receiver, StoredMessage]:
    await send_each(queue, clock, 1, key="k")
    taker = receiver(queue, clock)
    [message] = await taker.receive(1)
    return taker, message


async def _contents(queue: ServedQueue) -> list[bytes]:
    return [
        message.content
        for source in queue.main.sources
        for message in await source.store.browse(
            source.number, from_sequence=0, count_max=100, bytes_max=1 << 20
        )
    ]


@QUEUES
async def test_who_waits_is_woken_by_a_commit(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    taker = receiver(queue, clock)
    assert await taker.receive(1) == []
    hint = queue.main.waiting.join()
    transaction = _transaction()
    transaction.send(queue, [_message()])
    assert not hint.done()

    await transaction.commit(clock)

    await asyncio.wait_for(hint, WAIT_SECONDS)
    [found] = await taker.receive(1)
    assert found.content == b"out"


@QUEUES
async def test_who_waits_is_woken_when_a_message_is_given_back_by_a_commit(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    taker, message = await _held(queue, clock)
    assert await taker.receive(1) == []
    hint = queue.main.waiting.join()
    transaction = _transaction()
    await transaction.settle(queue.main, [message.lock], Abandon(), clock)

    await transaction.commit(clock)

    await asyncio.wait_for(hint, WAIT_SECONDS)
    [again] = await taker.receive(1)
    assert again.delivery_count == 1


@QUEUES
async def test_a_commit_waits_for_what_is_still_being_decided(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    _, message = await _held(queue, clock)
    transaction = _transaction()
    joining = transaction.settle(queue.main, [message.lock], Complete(), clock)
    assert not joining.done()

    await transaction.commit(clock)

    assert await _contents(queue) == []


@QUEUES
async def test_a_message_is_settled_once_whichever_way(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    _, message = await _held(queue, clock)
    transaction = _transaction()
    await transaction.settle(queue.main, [message.lock], Complete(), clock)
    with pytest.raises(InvalidOperation, match="only once"):
        await transaction.settle(queue.main, [message.lock], Abandon(), clock)


@QUEUES
async def test_what_a_commit_sends_is_swept_when_its_time_ends(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await broker.sweep.sweep_all()
    transaction = _transaction()
    transaction.send(queue, [Message(b"out", partition_key="k", time_to_live_ms=1000)])
    await transaction.commit(clock)
    clock.advance(2)

    await broker.sweep.sweep_all()

    assert await _contents(queue) == []


@QUEUES
async def test_the_time_to_live_of_a_message_begins_with_the_commit(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    transaction = _transaction()
    transaction.send(queue, [Message(b"out", partition_key="k", time_to_live_ms=1000)])
    clock.advance(60)

    await transaction.commit(clock)

    [found] = await receiver(queue, clock).receive(1)
    assert (found.enqueued_at, found.expires_at) == (NOON + 60_000, NOON + 61_000)


@QUEUES
async def test_a_store_that_went_away_before_the_commit_rolls_back(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    _, message = await _held(queue, clock)
    transaction = _transaction()
    await transaction.settle(queue.main, [message.lock], Complete(), clock)
    transaction.send(queue, [_message()])
    source = queue.main.source_of(message.sequence)
    assert source is not None
    await source.store.take_offline("drill")

    with pytest.raises(TransactionRolledBack, match="drill"):
        await transaction.commit(clock)

    await source.store.bring_online()
    assert await _contents(queue) == [message.content]


async def test_a_message_in_a_store_that_is_away_cannot_be_settled(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    _, message = await _held(queue, clock)
    source = queue.main.source_of(message.sequence)
    assert source is not None
    await source.store.take_offline("drill")
    transaction = _transaction()

    with pytest.raises(StoreUnavailable, match="which holds fragment"):
        await transaction.settle(queue.main, [message.lock], Complete(), clock)
    with pytest.raises(TransactionRolledBack):
        await transaction.commit(clock)


async def test_a_commit_that_may_have_been_written_is_not_called_rolled_back(
    tmp_path: Path, clock: ManualClock
) -> None:
    with faulty_disk() as disk:
        make = partial(SqliteStore, vfs=disk.name)
        async with local_broker(
            tmp_path, [ORDERS, PARTS], clock, stores=1, make_store=make
        ) as broker:
            transaction = _transaction()
            transaction.send(broker.queue("orders"), [_message()])
            disk.break_at(0, Fault.SYNC_ERROR)

            with pytest.raises(StoreFailed):
                await transaction.commit(clock)

            disk.mend()


class DefectiveStore(SqliteStore):
    """Has a defect in one of its calls."""

    def find_locked(self, *arguments: Any, **options: Any) -> Any:
        del arguments, options
        raise ZeroDivisionError


async def test_a_part_that_met_a_defect_keeps_the_others_from_being_committed(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with local_broker(
        tmp_path, [ORDERS], clock, stores=1, make_store=DefectiveStore
    ) as broker:
        queue = broker.queue("orders")
        _, message = await _held(queue, clock)
        transaction = _transaction()
        transaction.send(queue, [_message()])

        with pytest.raises(ZeroDivisionError):
            await transaction.settle(queue.main, [message.lock], Complete(), clock)
        with pytest.raises(TransactionRolledBack, match="see the broker's log"):
            await transaction.commit(clock)

        assert await _contents(queue) == [message.content]


async def test_a_lock_of_a_fragment_that_is_not_there_is_lost(
    broker: LocalBroker, clock: ManualClock
) -> None:
    transaction = _transaction()
    with pytest.raises(MessageLockLost):
        await transaction.settle(broker.queue("orders").main, [Lock(1 << 62, 1)], Complete(), clock)
    with pytest.raises(TransactionRolledBack, match="lock"):
        await transaction.commit(clock)


async def test_an_entity_that_was_disabled_meanwhile_takes_nothing(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    queue.properties = replace(queue.properties, status=EntityStatus.SEND_DISABLED)
    transaction = _transaction()
    with pytest.raises(EntityDisabled):
        transaction.send(queue, [_message()])
    with pytest.raises(TransactionRolledBack, match="disabled"):
        await transaction.commit(clock)


async def test_an_empty_transaction_commits(clock: ManualClock) -> None:
    await _transaction().commit(clock)


@QUEUES
async def test_what_a_settlement_frees_makes_room_for_what_is_sent(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    _, message = await _held(queue, clock)
    queue.fragment_bytes_max = len(message.content) + 10
    transaction = _transaction()
    transaction.send(queue, [_message(message.content)])
    await transaction.settle(queue.main, [message.lock], Complete(), clock)

    await transaction.commit(clock)

    assert await _contents(queue) == [message.content]


@QUEUES
async def test_a_dead_letter_of_a_commit_wakes_who_waits_for_those(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    _, message = await _held(queue, clock)
    undertaker = receiver(queue, clock, sub_queue=SubQueue.DEAD_LETTER)
    assert await undertaker.receive(1) == []
    hint = undertaker.sub_queue.waiting.join()
    transaction = _transaction()
    await transaction.settle(queue.main, [message.lock], DeadLetter("why"), clock)

    await transaction.commit(clock)

    await asyncio.wait_for(hint, WAIT_SECONDS)
    assert len(await undertaker.receive(1)) == 1


# Those of one connection


def test_a_transaction_of_another_owner_stays_when_one_is_gone(clock: ManualClock) -> None:
    transactions = OpenTransactions(TransactionLimits(), clock)
    gone, stays = object(), object()
    first, second = transactions.declare(gone), transactions.declare(stays)

    transactions.roll_back(gone)

    with pytest.raises(TransactionUnknown):
        transactions.take_out(first)
    assert isinstance(transactions.take_out(second), Transaction)


def test_who_discharges_too_late_is_told_so_once(clock: ManualClock) -> None:
    transactions = OpenTransactions(TransactionLimits(seconds_max=5), clock)
    transaction_id = transactions.declare(object())
    clock.advance(5)
    with pytest.raises(TransactionTimedOut, match="open for 5 seconds"):
        transactions.take_out(transaction_id)
    with pytest.raises(TransactionUnknown):
        transactions.take_out(transaction_id)


def test_transactions_that_nobody_discharged_make_room_for_others(clock: ManualClock) -> None:
    transactions = OpenTransactions(TransactionLimits(seconds_max=5), clock)
    forgotten = [transactions.declare(object()) for _ in range(OPEN_MAX)]
    with pytest.raises(QuotaExceeded):
        transactions.declare(object())
    clock.advance(5)

    assert transactions.declare(object()) not in forgotten
    with pytest.raises(TransactionUnknown):
        transactions.take_out(forgotten[0])
