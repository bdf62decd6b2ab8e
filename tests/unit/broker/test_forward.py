"""forward: messages are taken to where their queue forwards to, once each and in order (R6)."""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.broker.receive import ReceiveMode, Receiver, check_open_for_receive
from bendybus.broker.settle import settle
from bendybus.model.errors import InvalidOperation
from bendybus.model.forwarding import HOPS_MAX
from bendybus.model.ids import SubQueue, fragment_of
from bendybus.model.message import Message
from bendybus.model.outcome import Abandon, DeadLetter
from bendybus.model.partitioning import fragment_for
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, forwarding, local_broker
from tests.unit.broker.forwarding_queues import (
    chain,
    contents,
    holding,
    numbered,
    queue,
    send_messages,
)

pytestmark = pytest.mark.spec("R6")
BOTH_KINDS = pytest.mark.parametrize("is_partitioned", [False, True], ids=["one", "many"])


async def dead_letter(
    broker: LocalBroker, name: str, count: int, outcome: DeadLetter | Abandon
) -> None:
    """Receive messages and say so much about them."""
    main = broker.queue(name).main
    receiver = Receiver(main, ReceiveMode.PEEK_LOCK, broker.clock)
    while count:
        taken = await receiver.receive(count)
        count -= len(taken)
        assert await settle(main, [each.lock for each in taken], outcome, broker.clock) == {}


@pytest.mark.parametrize("to_partitioned", [False, True], ids=["to-one", "to-many"])
@pytest.mark.parametrize("from_partitioned", [False, True], ids=["from-one", "from-many"])
async def test_messages_are_taken_from_any_kind_of_queue_to_any_other(
    tmp_path: Path, from_partitioned: bool, to_partitioned: bool
) -> None:
    queues = [
        queue("a", "b", enable_partitioning=from_partitioned),
        queue("b", enable_partitioning=to_partitioned),
    ]
    async with local_broker(tmp_path, queues, ManualClock(), stores=4) as broker:
        # Some are there before anybody forwards, some come later.
        await send_messages(broker, "a", numbered(20))
        async with forwarding(broker):
            await send_messages(broker, "a", numbered(20, start=20))
            arrived = await holding(broker, "b", 40)
            assert sorted(contents(arrived)) == sorted(b"%d" % number for number in range(40))
            assert await holding(broker, "a", 0) == []


@BOTH_KINDS
async def test_messages_of_one_key_keep_their_order_and_their_key(
    tmp_path: Path, is_partitioned: bool
) -> None:
    queues = [
        queue("a", "b", enable_partitioning=is_partitioned),
        queue("b", enable_partitioning=True),
    ]
    keys = ["red", "green", "blue"]
    async with local_broker(tmp_path, queues, ManualClock(), stores=4) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", numbered(60, keys=keys))
            arrived = await holding(broker, "b", 60)
        for key in keys:
            own = [message for message in arrived if message.partition_key == key]
            numbers = [int(message.content) for message in own]
            assert numbers == sorted(numbers)
            assert len(own) == 20
            assert {fragment_of(message.sequence) for message in own} == {fragment_for(key, 16)}


async def test_messages_without_a_key_spread_evenly(tmp_path: Path) -> None:
    queues = [queue("a", "b"), queue("b", enable_partitioning=True)]
    async with local_broker(tmp_path, queues, ManualClock(), stores=4) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", numbered(48))
            arrived = await holding(broker, "b", 48)
        assert Counter(fragment_of(each.sequence) for each in arrived) == dict.fromkeys(
            range(16), 3
        )


@BOTH_KINDS
async def test_a_chain_of_four_hops_is_passed_and_no_fifth(
    tmp_path: Path, is_partitioned: bool
) -> None:
    queues = chain("abcdef", is_partitioned=is_partitioned)
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "b", [Message(b"four", session_id="key")])
            await send_messages(broker, "a", [Message(b"five", session_id="key")])
            [arrived] = await holding(broker, "f", 1)
            [stopped] = await holding(broker, "e", 1, sub_queue=SubQueue.TRANSFER_DEAD_LETTER)
        assert (arrived.content, arrived.session_id) == (b"four", "key")
        assert arrived.marks is not None
        assert arrived.marks.hops == HOPS_MAX
        assert stopped.content == b"five"
        assert stopped.marks is not None
        assert stopped.marks.dead_letter_reason == "MaxTransferHopCountExceeded"
        assert stopped.marks.dead_letter_source == "e"


async def test_a_loop_ends_in_the_transfer_dead_letter_queue(tmp_path: Path) -> None:
    queues = [queue("a", "b"), queue("b", "a")]
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", numbered(3))
            stopped = await holding(broker, "a", 3, sub_queue=SubQueue.TRANSFER_DEAD_LETTER)
            await holding(broker, "a", 0)
            await holding(broker, "b", 0)
        assert contents(stopped) == [b"0", b"1", b"2"]
        assert {each.marks.hops for each in stopped if each.marks} == {HOPS_MAX}


async def test_a_forwarded_message_knows_its_first_number(tmp_path: Path) -> None:
    async with local_broker(tmp_path, chain("abc"), ManualClock(), stores=2) as broker:
        await send_messages(broker, "b", numbered(5))
        await send_messages(broker, "a", numbered(2, start=5))
        async with forwarding(broker):
            arrived = await holding(broker, "c", 7)
        numbers = {
            each.content: each.marks.enqueued_sequence for each in arrived if each.marks is not None
        }
        assert (numbers[b"4"], numbers[b"5"], numbers[b"6"]) == (5, 1, 2)


@BOTH_KINDS
async def test_dead_letters_are_forwarded_with_their_reason(
    tmp_path: Path, is_partitioned: bool
) -> None:
    queues = [
        queue("a", forward_dead_lettered_messages_to="b", enable_partitioning=is_partitioned),
        queue("b", enable_partitioning=is_partitioned),
    ]
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", numbered(3))
            await dead_letter(broker, "a", 3, DeadLetter("Broken", "beyond repair", b""))
            arrived = await holding(broker, "b", 3)
            await holding(broker, "a", 0, sub_queue=SubQueue.DEAD_LETTER)
        for each in arrived:
            assert each.marks is not None
            assert each.marks.dead_letter_reason == "Broken"
            assert each.marks.dead_letter_description == "beyond repair"
            assert each.marks.dead_letter_source == "a"
            assert (each.marks.hops, each.delivery_count) == (1, 0)


@BOTH_KINDS
async def test_dead_letters_of_a_queue_that_forwards_too_go_their_own_way(
    tmp_path: Path, is_partitioned: bool
) -> None:
    queues = [
        queue(
            "a",
            "missing",
            forward_dead_lettered_messages_to="b",
            enable_partitioning=is_partitioned,
        ),
        queue("b"),
    ]
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", numbered(3))
            arrived = await holding(broker, "b", 3)
        reasons = {each.marks.dead_letter_reason for each in arrived if each.marks is not None}
        assert reasons == {"MessagingEntityNotFound"}


async def test_what_a_receiver_changed_goes_along(tmp_path: Path) -> None:
    queues = [queue("a", forward_dead_lettered_messages_to="b", max_delivery_count=2), queue("b")]
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", numbered(1))
            await dead_letter(broker, "a", 1, Abandon(b"first"))
            await dead_letter(broker, "a", 1, Abandon(b"second"))
            [arrived] = await holding(broker, "b", 1)
        assert arrived.marks is not None
        assert arrived.marks.property_changes == b"firstsecond"
        assert arrived.marks.dead_letter_reason == "MaxDeliveryCountExceeded"


async def test_what_is_left_of_a_life_counts_on(tmp_path: Path) -> None:
    clock = ManualClock()
    short = timedelta(seconds=30)
    queues = [queue("a", "b"), queue("b", default_message_time_to_live=short)]
    async with local_broker(tmp_path, queues, clock, stores=2) as broker:
        sent_at = clock.now()
        lives = [None, 20_000, 90_000]
        await send_messages(broker, "a", [Message(b"", time_to_live_ms=each) for each in lives])
        clock.advance(10)
        async with forwarding(broker):
            arrived = await holding(broker, "b", 3)
        left = [each.expires_at - sent_at for each in arrived if each.expires_at is not None]
        assert left == [40_000, 20_000, 40_000]


async def test_no_receiver_is_let_in_where_messages_are_forwarded(tmp_path: Path) -> None:
    queues = [queue("a", "b"), queue("b")]
    async with local_broker(tmp_path, queues, ManualClock(), stores=1) as broker:
        served = broker.queue("a")
        with pytest.raises(InvalidOperation, match="auto-forwarding"):
            check_open_for_receive(served.main)
        check_open_for_receive(served.sub_queues[SubQueue.DEAD_LETTER])
        check_open_for_receive(served.sub_queues[SubQueue.TRANSFER_DEAD_LETTER])
        check_open_for_receive(broker.queue("b").main)
