"""purge: many messages deleted at once, of all fragments and no others."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.broker.browse import browse
from bendybus.broker.deferred import receive_deferred
from bendybus.broker.look import Stretch, extent_of
from bendybus.broker.purge import PurgeWish, purge, purge_selected
from bendybus.broker.receive import ReceiveMode
from bendybus.broker.schedule import schedule
from bendybus.broker.send import send
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.broker.settle import settle
from bendybus.model.errors import StoreUnavailable
from bendybus.model.ids import COUNTER_BITS, FragmentIndex, Instant, SubQueue
from bendybus.model.message import Message, MessageState
from bendybus.model.outcome import DeadLetter, Defer
from bendybus.model.selection import Selection
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import receiver, send_each, verbs

QUEUES = pytest.mark.parametrize("name", ["orders", "parts"])
FOREVER = Instant(NOON + 10**9)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock) as running:
        yield running


@pytest.mark.spec("R4")
@QUEUES
async def test_as_many_are_deleted_as_were_named(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    main = broker.queue(name).main
    await send_each(broker.queue(name), clock, 50)

    assert await purge(main, PurgeWish(20, FOREVER), clock) == 20
    assert await purge(main, PurgeWish(100, FOREVER), clock) == 30
    assert await purge(main, PurgeWish(100, FOREVER), clock) == 0


@QUEUES
async def test_what_came_after_the_time_stays(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 20)
    clock.advance(1)
    await send_each(queue, clock, 20)

    assert await purge(queue.main, PurgeWish(100, NOON), clock) == 20
    assert await purge(queue.main, PurgeWish(100, clock.now()), clock) == 20


async def test_more_messages_than_one_turn_are_deleted_in_several(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    await send(queue, [Message(b"x")] * 3500, FragmentIndex(0), clock)

    assert await purge(queue.main, PurgeWish(3000, FOREVER), clock) == 3000
    assert await purge(queue.main, PurgeWish(3000, FOREVER), clock) == 500


@QUEUES
async def test_every_state_and_the_dead_letters_are_purged_apart(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 6)
    taker = receiver(queue, clock)
    held = []
    while found := await taker.receive(10):
        held += found
    await settle(queue.main, [each.lock for each in held[:2]], Defer(), clock)
    await settle(queue.main, [each.lock for each in held[2:4]], DeadLetter(), clock)
    later = Message(b"later", scheduled_at=Instant(NOON + 1000))
    await schedule(queue, [later], clock)
    await send_each(queue, clock, 1)

    assert await purge(queue.main, PurgeWish(100, FOREVER), clock) == 1
    for state, expected in ((MessageState.DEFERRED, 2), (MessageState.SCHEDULED, 1)):
        assert await purge(queue.main, PurgeWish(100, FOREVER, state), clock) == expected
    dead = queue.sub_queues[SubQueue.DEAD_LETTER]
    assert await purge(dead, PurgeWish(100, FOREVER), clock) == 2
    assert await purge(queue.main, PurgeWish(100, FOREVER), clock) == 0


async def test_a_session_is_purged_without_the_others(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    messages = [Message(b"%d" % n, session_id="ab"[n % 2]) for n in range(10)]
    await send(queue, messages, FragmentIndex(0), clock)

    assert await purge(queue.main, PurgeWish(3, FOREVER, session_id="a"), clock) == 3
    assert await purge(queue.main, PurgeWish(100, FOREVER, session_id="a"), clock) == 2

    left = await browse(queue.main, 0, 100)
    assert {each.session_id for each in left} == {"b"}


@pytest.mark.spec("R1.2")
async def test_a_fragment_that_is_away_is_passed_over_but_not_taken_for_empty(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 32)
    await broker.stores[1].take_offline("a test")

    assert await purge(queue.main, PurgeWish(100, FOREVER), clock) == 16
    with pytest.raises(StoreUnavailable):
        await purge(queue.main, PurgeWish(100, FOREVER), clock)
    await broker.stores[1].bring_online()
    assert await purge(queue.main, PurgeWish(100, FOREVER), clock) == 16


# By what messages say


async def _selected(broker: LocalBroker, sub_queue: ServedSubQueue, selection: Selection) -> int:
    """Go through all fragments as a client does; return how many were deleted."""
    deleted = 0
    for fragment, last in enumerate((await extent_of(sub_queue)).last_sequences):
        at: int | None = fragment << COUNTER_BITS
        assert last is not None
        while at is not None and at <= last:
            part = await purge_selected(
                sub_queue,
                Stretch(at, last, 7),
                selection,
                broker.catalog.reader,
                broker.clock,
                is_dry_run=False,
            )
            deleted, at = deleted + part.deleted, part.next_sequence
    return deleted


@QUEUES
async def test_a_selection_is_deleted_of_every_state_apart(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 6)
    taker = receiver(queue, clock)
    held = []
    while found := await taker.receive(10):
        held += found
    await settle(queue.main, [each.lock for each in held[:3]], Defer(), clock)
    await settle(queue.main, [each.lock for each in held[3:5]], DeadLetter("why"), clock)
    # One that was deferred is in somebody's hands again.
    mode = ReceiveMode.PEEK_LOCK
    await receive_deferred(queue.main, [held[0].sequence], mode, clock, None)
    await schedule(queue, [Message(b"later", scheduled_at=Instant(NOON + 1000))], clock)
    await send_each(queue, clock, 2)

    assert await _selected(broker, queue.main, Selection(enqueued_until=Instant(NOON - 1))) == 0
    assert await _selected(broker, queue.main, Selection()) == 2
    assert await _selected(broker, queue.main, Selection(MessageState.DEFERRED)) == 2
    assert await _selected(broker, queue.main, Selection(MessageState.SCHEDULED)) == 1
    dead = queue.sub_queues[SubQueue.DEAD_LETTER]
    assert await _selected(broker, dead, Selection(reason="other")) == 0
    assert await _selected(broker, dead, Selection(reason="why")) == 2
    left = {each.sequence for each in await browse(queue.main, 0, 100)}
    assert left <= {held[0].sequence, held[5].sequence}
