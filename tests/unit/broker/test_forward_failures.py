"""forward: what cannot be delivered is kept with its reason, what may pass waits (R6)."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bendybus.broker import mover
from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.send import send
from bendybus.content.incoming_message import read_message
from bendybus.content.rule_view import WireContentReader
from bendybus.model.entity import EntityStatus
from bendybus.model.ids import FragmentIndex, Instant, SubQueue, fragment_of
from bendybus.model.message import Marks, Message
from bendybus.model.message_view import MessageView
from bendybus.model.operations import Append
from bendybus.model.partitioning import fragment_for
from bendybus.model.tier import Tier, TierName
from bendybus.store.sql import lane
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, forwarding, local_broker
from tests.protocol.messaging.sample_messages import message
from tests.unit.broker.forwarding_queues import (
    DEADLINE_SECONDS,
    EVERYTHING,
    POLL_SECONDS,
    contents,
    everything,
    holding,
    numbered,
    queue,
    send_messages,
)

pytestmark = pytest.mark.spec("R6")
FIRST = FragmentIndex(0)
RECEIVE_AND_DELETE = ReceiveMode.RECEIVE_AND_DELETE
BOTH_KINDS = pytest.mark.parametrize("is_partitioned", [False, True], ids=["one", "many"])
REFUSING: dict[str, tuple[dict[str, Any], bytes, str]] = {
    "disabled": ({"status": EntityStatus.DISABLED}, b"", "MessagingEntityDisabled"),
    "send-disabled": ({"status": EntityStatus.SEND_DISABLED}, b"", "MessagingEntityDisabled"),
    "small": ({}, bytes(1_100_000), "MessageSizeExceeded"),
    "sessions": ({"requires_session": True}, b"", "Session id is null."),
}


def key_for(fragment: int) -> str:
    """Find a key that belongs to a fragment."""
    return next(key for key in map(str, range(1000)) if fragment_for(key, 16) == fragment)


async def put_into_outbox(broker: LocalBroker, name: str, message: Message) -> None:
    """Do what a transaction does that sends to another entity."""
    outbox = broker.queue(name).sub_queues[SubQueue.TRANSFER]
    [source] = outbox.sources
    append = Append(source.number, [message], EVERYTHING)
    await source.store.apply([append], now=broker.clock.now())
    outbox.note_added(source, 1)


@BOTH_KINDS
async def test_without_a_destination_messages_are_dead_letters_of_their_own_queue(
    tmp_path: Path, is_partitioned: bool
) -> None:
    queues = [queue("a", "missing", enable_partitioning=is_partitioned)]
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", numbered(4, keys=["red"]))
            kept = await holding(broker, "a", 4, sub_queue=SubQueue.DEAD_LETTER)
            await holding(broker, "a", 0)
        assert contents(kept) == [b"0", b"1", b"2", b"3"]
        for each in kept:
            assert each.marks == Marks(
                dead_letter_reason="MessagingEntityNotFound",
                dead_letter_description="The destination 'missing' could not be found.",
                dead_letter_source="a",
            )
            assert (each.partition_key, each.delivery_count) == ("red", 0)


@pytest.mark.parametrize("case", REFUSING)
async def test_what_a_destination_never_takes_is_a_dead_letter_and_the_rest_goes_on(
    tmp_path: Path, case: str
) -> None:
    properties, content, reason = REFUSING[case]
    large = {"max_message_size_kilobytes": 2048}
    queues = [queue("a", "b", **large), queue("b", **properties)]
    premium = Tier(TierName.PREMIUM)
    async with local_broker(tmp_path, queues, ManualClock(), stores=2, tier=premium) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", [Message(content), Message(b"x", session_id="s")])
            is_open = "status" not in properties
            kept = await holding(broker, "a", 2 - is_open, sub_queue=SubQueue.DEAD_LETTER)
            arrived = await holding(broker, "b", int(is_open))
        assert kept[0].content == content
        assert {each.marks.dead_letter_reason for each in kept if each.marks} == {reason}
        assert contents(arrived) == [b"x"] * is_open


async def test_a_store_that_is_overloaded_is_asked_again_without_another_hint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "PAUSE_SECONDS", POLL_SECONDS)
    queues = [queue("a", "b"), queue("b")]
    async with local_broker(tmp_path, queues, ManualClock(), stores=1) as broker:
        await send_messages(broker, "a", numbered(3))
        with monkeypatch.context() as overloaded:
            overloaded.setattr(lane, "JOBS_WAITING_MAX", 0)
            running = asyncio.create_task(broker.forwarder.run())
            async with asyncio.timeout(DEADLINE_SECONDS):
                while "forwarding from 'a' paused" not in caplog.text:  # noqa: ASYNC110 - a log line
                    await asyncio.sleep(POLL_SECONDS)
        assert contents(await holding(broker, "b", 3)) == [b"0", b"1", b"2"]
        running.cancel()
        await asyncio.wait([running])


async def test_dead_letters_that_cannot_be_forwarded_have_a_queue_of_their_own(
    tmp_path: Path,
) -> None:
    queues = [queue("a", "missing", forward_dead_lettered_messages_to="gone")]
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", numbered(2))
            kept = await holding(broker, "a", 2, sub_queue=SubQueue.TRANSFER_DEAD_LETTER)
            await holding(broker, "a", 0, sub_queue=SubQueue.DEAD_LETTER)
        descriptions = {each.marks.dead_letter_description for each in kept if each.marks}
        assert descriptions == {"The destination 'gone' could not be found."}


@pytest.mark.spec("R5.6")
async def test_what_a_transaction_sends_elsewhere_arrives_as_if_sent_there(tmp_path: Path) -> None:
    clock = ManualClock()
    queues = [queue("a"), queue("b", default_message_time_to_live=timedelta(seconds=9))]
    async with local_broker(tmp_path, queues, clock, stores=2) as broker:
        async with forwarding(broker):
            marks = Marks(destination="B")
            await put_into_outbox(broker, "a", Message(b"x", partition_key="k", marks=marks))
            [arrived] = await holding(broker, "b", 1)
            await holding(broker, "a", 0, sub_queue=SubQueue.TRANSFER)
        assert (arrived.content, arrived.partition_key, arrived.marks) == (b"x", "k", None)
        assert arrived.expires_at == clock.now() + 9000


@pytest.mark.spec("R5.6")
async def test_what_a_transaction_left_behind_is_found_after_a_restart(tmp_path: Path) -> None:
    queues = [queue("a"), queue("b")]
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        await put_into_outbox(broker, "a", Message(b"x", marks=Marks(destination="b")))
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            [arrived] = await holding(broker, "b", 1)
        assert arrived.content == b"x"


@pytest.mark.spec("R5.6")
@pytest.mark.parametrize("marks", [Marks(destination="gone"), None])
async def test_what_a_transaction_sends_in_vain_is_a_transfer_dead_letter(
    tmp_path: Path, marks: Marks | None
) -> None:
    async with local_broker(tmp_path, [queue("a")], ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await put_into_outbox(broker, "a", Message(b"x", marks=marks))
            [kept] = await holding(broker, "a", 1, sub_queue=SubQueue.TRANSFER_DEAD_LETTER)
        assert kept.marks is not None
        assert kept.marks.dead_letter_reason == "MessagingEntityNotFound"


async def test_duplicates_are_dropped_where_they_arrive(tmp_path: Path) -> None:
    queues = [queue("a", "b"), queue("b", requires_duplicate_detection=True)]
    async with (
        local_broker(tmp_path, queues, ManualClock(), stores=2) as broker,
        forwarding(broker),
    ):
        ids = ["one", "two", "one", "three", "two"]
        sent = [read_message(message(message_id=each)) for each in ids]
        await send_messages(broker, "a", sent)
        await holding(broker, "a", 0)
        arrived = await holding(broker, "b", 3)
        assert contents(arrived) == [sent[at].content for at in (0, 1, 3)]


@BOTH_KINDS
async def test_messages_wait_for_a_full_destination_and_arrive_in_order(
    tmp_path: Path, is_partitioned: bool
) -> None:
    queues = [queue("a", "b", enable_partitioning=is_partitioned), queue("b")]
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        target = broker.queue("b")
        target.fragment_bytes_max = 1004
        await send(target, [Message(bytes(1000))], FIRST, broker.clock)
        async with forwarding(broker):
            await send_messages(broker, "a", numbered(20, keys=["red"]))
            await on_their_way(broker, "a", 20)
            await send_messages(broker, "a", numbered(20, keys=["red"], start=20))
            await on_their_way(broker, "a", 40)
            assert len(await everything(target)) == 1
            assert await Receiver(target.main, RECEIVE_AND_DELETE, broker.clock).receive(1)
            arrived = await holding(broker, "b", 40)
            await holding(broker, "a", 0)
        assert contents(arrived) == [b"%d" % number for number in range(40)]


async def on_their_way(broker: LocalBroker, name: str, count: int) -> None:
    """Wait until so many messages are held by the mover."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            found = await everything(broker.queue(name))
            if sum(each.nonce is not None for each in found) >= count:
                return
            await asyncio.sleep(POLL_SECONDS)


@BOTH_KINDS
async def test_messages_wait_for_a_store_that_is_away_and_the_others_go_on(
    tmp_path: Path, is_partitioned: bool
) -> None:
    # One conventional queue, in store 0, or fragments everywhere; the destination's fragment 1
    # is in store 2 either way.
    queues = [
        queue("a", "b", enable_partitioning=is_partitioned),
        queue("b", enable_partitioning=True),
    ]
    keys = [key_for(1), key_for(4)]
    async with local_broker(tmp_path, queues, ManualClock(), stores=4) as broker:
        target = broker.queue("b")
        away = target.main.sources[1].store
        sources = broker.queue("a").main.sources
        assert not is_partitioned or sources[1].store is not away, "it would be away as well"
        async with forwarding(broker):
            await away.take_offline("a drill")
            await send_messages(broker, "a", numbered(40, keys=keys))
            await holding_elsewhere(broker, "b", 20)
            await send_messages(broker, "a", numbered(40, keys=keys, start=40))
            await holding_elsewhere(broker, "b", 40)
            await away.bring_online()
            arrived = await holding(broker, "b", 80)
            await holding(broker, "a", 0)
        for at, fragment in enumerate((1, 4)):
            own = [each for each in arrived if fragment_of(each.sequence) == fragment]
            assert [int(each.content) for each in own] == list(range(at, 80, 2))


async def holding_elsewhere(broker: LocalBroker, name: str, count: int) -> None:
    """Wait until the fragments that can be reached hold so many messages."""
    sources = [each for each in broker.queue(name).main.sources if each.store.is_online]
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            counts = [await each.store.counts(each.number) for each in sources]
            if sum(each.messages for each in counts) == count:
                return
            await asyncio.sleep(POLL_SECONDS)


async def test_only_so_many_are_held_for_a_place_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "HELD_MAX", 10)
    monkeypatch.setattr(mover, "ACQUIRE_COUNT_MAX", 4)
    queues = [queue("a", "b"), queue("b")]
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        [target] = broker.queue("b").main.sources
        await target.store.take_offline("a drill")
        await send_messages(broker, "a", numbered(30))
        async with forwarding(broker):
            await on_their_way(broker, "a", 12)
            held = [each.nonce is not None for each in await everything(broker.queue("a"))]
            assert held == [True] * 12 + [False] * 18
            await target.store.bring_online()
            arrived = await holding(broker, "b", 30)
        assert contents(arrived) == [b"%d" % number for number in range(30)]


async def test_a_message_that_expires_while_it_waits_expires_where_it_is(tmp_path: Path) -> None:
    clock = ManualClock()
    queues = [queue("a", "b", dead_lettering_on_message_expiration=True), queue("b")]
    async with local_broker(tmp_path, queues, clock, stores=2) as broker:
        [target] = broker.queue("b").main.sources
        await target.store.take_offline("a drill")
        lives = [None, 5000, None]
        await send_messages(
            broker, "a", [Message(b"%d" % at, time_to_live_ms=lives[at]) for at in range(3)]
        )
        async with forwarding(broker):
            await on_their_way(broker, "a", 3)
            clock.advance(6)
            await broker.sweep.sweep_all()
            assert len(await everything(broker.queue("a"))) == 3, "it is held"
            await target.store.bring_online()
            arrived = await holding(broker, "b", 2)
            await broker.sweep.sweep_all()
            [expired] = await holding(broker, "a", 1, sub_queue=SubQueue.DEAD_LETTER)
        assert contents(arrived) == [b"0", b"2"]
        assert expired.content == b"1"
        assert expired.marks is not None
        assert expired.marks.dead_letter_reason == "TTLExpiredException"


@BOTH_KINDS
async def test_a_queue_whose_store_was_away_forwards_again(
    tmp_path: Path, is_partitioned: bool
) -> None:
    queues = [queue("b"), queue("a", "b", enable_partitioning=is_partitioned)]
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        away = broker.queue("a").main.sources[0].store
        await send_messages(broker, "a", numbered(10, keys=[key_for(0)]))
        async with forwarding(broker):
            await holding(broker, "b", 10)
            await send_messages(broker, "a", numbered(10, keys=[key_for(0)], start=10))
            await away.take_offline("a drill")
            await away.bring_online()
            await broker.sweep.sweep_all()
            await send_messages(broker, "a", numbered(10, keys=[key_for(0)], start=20))
            arrived = await holding(broker, "b", 30)
        assert contents(arrived) == [b"%d" % number for number in range(30)]


async def test_what_nobody_foresaw_stops_no_other_forwarding(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fatal = b"fatal"
    read = WireContentReader.view

    def view(self: WireContentReader, message: Message, enqueued_at: Instant) -> MessageView:
        if message.content == fatal:
            raise RuntimeError("a defect, planted")
        return read(self, message, enqueued_at)

    monkeypatch.setattr(WireContentReader, "view", view)
    queues = [
        queue("a", "once"),
        queue("once", requires_duplicate_detection=True),
        queue("c", "d"),
        queue("d"),
    ]
    async with local_broker(tmp_path, queues, ManualClock(), stores=2) as broker:
        async with forwarding(broker):
            await send_messages(broker, "a", [Message(fatal)])
            await on_their_way(broker, "a", 1)
            await send_messages(broker, "c", numbered(1))
            await holding(broker, "d", 1)
            await send_messages(broker, "a", [read_message(message())])
            await holding(broker, "once", 1)
        [kept] = await everything(broker.queue("a"))
        assert kept.content == fatal
    assert "what was in hand is tried again after a restart" in caplog.text
