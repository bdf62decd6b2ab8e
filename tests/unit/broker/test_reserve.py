"""reserve and what goes with it: readers over all fragments, and stores that come and go."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.broker.browse import browse
from bendybus.broker.close_reader import close_reader
from bendybus.broker.commit_reserved import commit_reserved
from bendybus.broker.give_back import give_back
from bendybus.broker.open_reader import OpenedReader, open_late, open_reader
from bendybus.broker.readers import readers
from bendybus.broker.reserve import ReserveWish, reserve, reserve_chosen
from bendybus.broker.send import send
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.entity import EntityStatus, Queue, QueueProperties, Topic
from bendybus.model.errors import (
    ArgumentInvalid,
    ArgumentOutOfRange,
    EntityDisabled,
    InvalidOperation,
    ReaderInUse,
    ReaderLost,
    StoreUnavailable,
)
from bendybus.model.ids import FragmentIndex, Instant
from bendybus.model.message import Message, StoredMessage
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import ORDERS, PARTS, receive_all, send_each, verbs

QUEUES = pytest.mark.parametrize("name", ["orders", "parts"])
NAME = "capture"
MINE = "mine"
OTHERS = "others"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    closed = Queue("closed", QueueProperties(status=EntityStatus.RECEIVE_DISABLED))
    forwards = Queue("forwards", QueueProperties(forward_to="orders"))
    async with verbs(tmp_path, clock, (ORDERS, PARTS, closed, forwards, Topic("news"))) as running:
        yield running


async def read(
    sub_queue: ServedSubQueue,
    until: Mapping[int, int],
    clock: ManualClock,
    *,
    after: Mapping[int, int] | None = None,
    token: str = MINE,
) -> list[StoredMessage]:
    """Read back what is reserved between positions, as the bulk door does."""
    found: list[StoredMessage] = []
    for source in sub_queue.sources:
        start, end = (after or {}).get(source.fragment, 0), until.get(source.fragment, 0)
        for each in await source.store.reservations(
            source.number, NAME, token, after=start, until=end, now=clock.now()
        ):
            found += await source.store.read_reserved(
                source.number, each.number, from_sequence=0, count_max=10_000, bytes_max=1 << 30
            )
    return found


def numbers(messages: list[StoredMessage]) -> list[int]:
    """Return what was sent as numbers, in their order."""
    return sorted(int(message.content) for message in messages)


@pytest.mark.spec("R9.1")
@QUEUES
async def test_each_message_goes_to_one_side(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 50)
    opened = await open_reader(queue.main, NAME, MINE, clock)
    assert set(opened.committed.values()) == {0}
    made = await reserve(queue.main, ReserveWish(reader=NAME, token=MINE, messages_max=20), clock)
    assert (made.messages, sum(made.lag.values())) == (20, 30)

    reserved = numbers(await read(queue.main, made.end, clock))
    received = sorted(int(content) for content, _ in await receive_all(queue, clock))

    assert len(reserved) == 20
    assert sorted(reserved + received) == list(range(50))


@QUEUES
async def test_who_asks_again_is_given_the_same_first(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 40)
    await open_reader(queue.main, NAME, MINE, clock)
    wish = ReserveWish(reader=NAME, token=MINE, messages_max=20)
    first = await reserve(queue.main, wish, clock)
    again = await reserve(queue.main, wish, clock)
    assert again == first
    following = ReserveWish(reader=NAME, token=MINE, after=first.end, messages_max=100)
    rest = await reserve(queue.main, following, clock)
    assert rest.messages == 20
    everything = await read(queue.main, rest.end, clock)
    assert numbers(everything) == list(range(40))
    assert await read(queue.main, rest.end, clock) == everything


@QUEUES
@pytest.mark.parametrize("count", [1, 3, 16, 33])
async def test_as_many_are_reserved_as_were_asked_for(
    broker: LocalBroker, clock: ManualClock, name: str, count: int
) -> None:
    queue = broker.queue(name)
    # All in one fragment, so that the others have nothing to give.
    await send_each(queue, clock, 40, key="k")
    await open_reader(queue.main, NAME, MINE, clock)
    made = await reserve(
        queue.main, ReserveWish(reader=NAME, token=MINE, messages_max=count), clock
    )
    assert made.messages == count


async def test_more_than_one_reservation_of_a_fragment_is_made_in_several(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    await send(queue, [Message(b"1")] * 9000, FragmentIndex(0), clock)
    await open_reader(queue.main, NAME, MINE, clock)
    made = await reserve(queue.main, ReserveWish(reader=NAME, token=MINE), clock)
    assert (made.end, made.messages) == ({0: 3}, 9000)
    fewer = ReserveWish(reader=NAME, token=MINE, messages_max=5000)
    # What was reserved together is given together.
    assert (await reserve(queue.main, fewer, clock)).messages == 4000
    await commit_reserved(queue.main, NAME, MINE, {0: 2}, clock)
    assert len(await read(queue.main, {0: 3}, clock, after={0: 2})) == 1000


async def test_bytes_are_bounded(broker: LocalBroker, clock: ManualClock) -> None:
    queue = broker.queue("orders")
    await send(queue, [Message(b"x" * 100_000)] * 100, FragmentIndex(0), clock)
    await open_reader(queue.main, NAME, MINE, clock)
    wish = ReserveWish(reader=NAME, token=MINE, bytes_max=1_000_000)
    assert (await reserve(queue.main, wish, clock)).messages == 10
    everything = await reserve(queue.main, ReserveWish(reader=NAME, token=MINE), clock)
    assert everything.messages == 100
    [reader] = (await readers(queue.main, clock)).readers
    assert reader.fragments[0].position > 2, "a reservation has 4 MiB at most"


@QUEUES
async def test_what_is_committed_is_gone_and_the_rest_stays(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 40)
    await open_reader(queue.main, NAME, MINE, clock)
    made = await reserve(queue.main, ReserveWish(reader=NAME, token=MINE, messages_max=25), clock)
    for _ in range(2):
        await commit_reserved(queue.main, NAME, MINE, made.end, clock)
    assert len(await receive_all(queue, clock)) == 15
    with pytest.raises(ReaderLost):
        await reserve(queue.main, ReserveWish(reader=NAME, token=MINE), clock)


@QUEUES
async def test_what_is_given_back_is_received_uncounted(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 20)
    await open_reader(queue.main, NAME, MINE, clock)
    await reserve(queue.main, ReserveWish(reader=NAME, token=MINE), clock)
    assert await receive_all(queue, clock) == []
    with pytest.raises(ReaderLost):
        await give_back(queue.main, NAME, OTHERS, clock)
    assert (await give_back(queue.main, NAME, MINE, clock)).messages == 20
    assert sorted(await receive_all(queue, clock)) == sorted((b"%d" % n, 0) for n in range(20))
    with pytest.raises(ReaderLost):
        await give_back(queue.main, NAME, None, clock)


@QUEUES
async def test_an_operator_takes_back_what_anybody_has(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 20)
    await open_reader(queue.main, NAME, MINE, clock)
    wish = ReserveWish(reader=NAME, token=MINE)
    made = await reserve(queue.main, wish, clock)
    assert (await give_back(queue.main, NAME, None, clock)).messages == 20
    with pytest.raises(ReaderLost):
        await reserve(queue.main, wish, clock)
    with pytest.raises(ReaderLost):
        await commit_reserved(queue.main, NAME, MINE, made.end, clock)


@QUEUES
async def test_a_reader_is_taken_over_only_when_it_is_idle_or_closed(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 20)
    opened = await open_reader(queue.main, NAME, None, clock)
    wish = ReserveWish(reader=NAME, token=opened.token, messages_max=16)
    made = await reserve(queue.main, wish, clock)
    with pytest.raises(ReaderInUse):
        await open_reader(queue.main, NAME, OTHERS, clock)
    clock.advance(61)
    await open_reader(queue.main, NAME, OTHERS, clock)
    with pytest.raises(ReaderLost):
        await reserve(queue.main, wish, clock)
    again = ReserveWish(reader=NAME, token=OTHERS, messages_max=16)
    assert (await reserve(queue.main, again, clock)).end == made.end
    await close_reader(queue.main, NAME, OTHERS, clock)
    third = await open_reader(queue.main, NAME, None, clock)
    assert third.token not in (opened.token, OTHERS)


async def test_who_is_refused_a_reader_that_is_in_use_takes_no_part_of_it(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 64)
    await open_reader(queue.main, NAME, MINE, clock)
    # In the fragment that decides the reader was not active for long: its store was away.
    [away] = [each for each in broker.stores if each is queue.main.sources[0].store]
    await away.take_offline("drill")
    clock.advance(61)
    wish = ReserveWish(reader=NAME, token=MINE, skips_offline=True)
    made = await reserve(queue.main, wish, clock)
    await away.bring_online()

    with pytest.raises(ReaderInUse, match="0 seconds ago"):
        await open_reader(queue.main, NAME, OTHERS, clock)

    rest = await reserve(queue.main, ReserveWish(reader=NAME, token=MINE, after=made.end), clock)
    assert (made.messages, rest.messages) == (32, 32)


async def test_of_many_who_want_an_idle_reader_one_gets_all_of_it(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 64)
    tokens = [f"token {number}" for number in range(8)]
    answers = await asyncio.gather(
        *(open_reader(queue.main, NAME, token, clock) for token in tokens), return_exceptions=True
    )
    [opened] = [answer for answer in answers if isinstance(answer, OpenedReader)]
    assert sum(isinstance(answer, ReaderInUse) for answer in answers) == len(tokens) - 1
    made = await reserve(queue.main, ReserveWish(reader=NAME, token=opened.token), clock)
    assert made.messages == 64


async def test_who_comes_back_while_the_reader_is_taken_over_takes_no_part_of_it(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 64)
    await open_reader(queue.main, NAME, MINE, clock)
    few = await reserve(queue.main, ReserveWish(reader=NAME, token=MINE, messages_max=8), clock)
    clock.advance(61)
    # The next fragment in turn is not the one that decides.
    one_more = ReserveWish(reader=NAME, token=MINE, after=few.end, messages_max=1)

    await asyncio.gather(
        open_reader(queue.main, NAME, OTHERS, clock), reserve(queue.main, one_more, clock)
    )

    made = await reserve(queue.main, ReserveWish(reader=NAME, token=OTHERS), clock)
    assert made.messages == 64
    with pytest.raises(ReaderLost):
        await reserve(queue.main, one_more, clock)


async def test_who_opens_a_reader_that_another_takes_meanwhile_is_told_that_it_is_in_use(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    later = Instant(clock.now() + 1)
    # The other could not reach the fragment that decides.
    opening = open_late(queue.main.sources[8], NAME, OTHERS, later, clock)
    refused, _ = await asyncio.gather(
        open_reader(queue.main, NAME, MINE, clock), opening, return_exceptions=True
    )
    assert isinstance(refused, ReaderInUse)


async def test_a_reader_is_taken_over_though_the_clock_went_back(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 64)
    await open_reader(queue.main, NAME, OTHERS, clock)
    await close_reader(queue.main, NAME, OTHERS, clock)
    clock.advance(-3600)
    await open_reader(queue.main, NAME, MINE, clock)
    made = await reserve(queue.main, ReserveWish(reader=NAME, token=MINE), clock)
    assert made.messages == 64
    with pytest.raises(ReaderLost):
        await reserve(queue.main, ReserveWish(reader=NAME, token=OTHERS), clock)


async def test_with_a_store_away_it_is_named_or_the_others_go_on(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 64)
    await broker.stores[1].take_offline("drill")
    with pytest.raises(StoreUnavailable, match="store 1"):
        await open_reader(queue.main, NAME, MINE, clock)
    opened = await open_reader(queue.main, NAME, MINE, clock, skips_offline=True)
    away = [source.fragment for source in queue.main.sources if source.store is broker.stores[1]]
    assert opened.skipped == away
    wish = ReserveWish(reader=NAME, token=MINE)
    with pytest.raises(StoreUnavailable, match="store 1"):
        await reserve(queue.main, wish, clock)
    made = await reserve(
        queue.main, ReserveWish(reader=NAME, token=MINE, skips_offline=True), clock
    )
    assert (made.messages, made.skipped) == (32, away)
    assert (await readers(queue.main, clock)).skipped == away

    # When it is back, the reader goes on there as well.
    await broker.stores[1].bring_online()
    rest = await reserve(queue.main, ReserveWish(reader=NAME, token=MINE, after=made.end), clock)
    assert (rest.messages, rest.skipped) == (32, [])
    await broker.stores[1].take_offline("drill")
    with pytest.raises(StoreUnavailable, match="store 1"):
        await commit_reserved(queue.main, NAME, MINE, rest.end, clock)
    await broker.stores[1].bring_online()
    await commit_reserved(queue.main, NAME, MINE, rest.end, clock)
    assert await browse(queue.main, 0, 100) == []


async def test_what_another_had_reserved_in_a_store_that_was_away_is_taken_over_too(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 64)
    await open_reader(queue.main, NAME, OTHERS, clock)
    theirs = await reserve(queue.main, ReserveWish(reader=NAME, token=OTHERS), clock)
    clock.advance(61)
    await broker.stores[1].take_offline("drill")
    await open_reader(queue.main, NAME, MINE, clock, skips_offline=True)
    await broker.stores[1].bring_online()
    made = await reserve(queue.main, ReserveWish(reader=NAME, token=MINE), clock)
    assert (made.end, made.messages) == (theirs.end, 64)
    with pytest.raises(ReaderLost):
        await reserve(queue.main, ReserveWish(reader=NAME, token=OTHERS), clock)


async def test_a_reader_that_is_known_nowhere_is_not_made_by_the_way(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    with pytest.raises(ReaderLost, match="no reader"):
        await reserve(queue.main, ReserveWish(reader=NAME, token=MINE), clock)
    assert (await readers(queue.main, clock)).readers == []


@QUEUES
async def test_readers_are_told_with_age_and_amount(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 20)
    await open_reader(queue.main, NAME, MINE, clock)
    clock.advance(5)
    made_at = clock.now()
    await reserve(queue.main, ReserveWish(reader=NAME, token=MINE, messages_max=10), clock)
    clock.advance(100)
    [reader] = (await readers(queue.main, clock)).readers
    assert (reader.name, reader.messages, reader.oldest_at) == (NAME, 10, made_at)
    assert not reader.is_active
    assert len(reader.fragments) == len(queue.main.sources)


@QUEUES
async def test_chosen_messages_are_reserved(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 20)
    await open_reader(queue.main, NAME, MINE, clock)
    chosen: dict[int, list[int]] = {}
    for source in queue.main.sources:
        [first, *_] = await source.store.browse(
            source.number, from_sequence=0, count_max=1, bytes_max=1000
        )
        chosen[source.fragment] = [first.sequence, first.sequence + 100]
    made = await reserve_chosen(queue.main, NAME, MINE, chosen, clock)
    assert made.messages == len(queue.main.sources)
    assert len(await read(queue.main, made.end, clock)) == made.messages
    again = await reserve_chosen(queue.main, NAME, MINE, chosen, clock)
    assert (again.messages, again.end) == (0, made.end)


async def test_what_cannot_be_reserved_from_is_refused(
    broker: LocalBroker, clock: ManualClock
) -> None:
    for name, refusal in (("closed", EntityDisabled), ("forwards", InvalidOperation)):
        with pytest.raises(refusal):
            await open_reader(broker.queue(name).main, NAME, MINE, clock)
    with pytest.raises(InvalidOperation, match="subscriptions"):
        await open_reader(broker.queue("news").main, NAME, MINE, clock)
    main = broker.queue("orders").main
    for name in ("", "x" * 129, "a\nb"):
        with pytest.raises(ArgumentInvalid):
            await open_reader(main, name, MINE, clock)
    for token in ("", "x" * 65, "a\nb"):
        with pytest.raises(ArgumentInvalid):
            await open_reader(main, NAME, token, clock)
    await open_reader(main, NAME, MINE, clock)
    for wish in (
        ReserveWish(reader=NAME, token=MINE, messages_max=0),
        ReserveWish(reader=NAME, token=MINE, bytes_max=0),
        ReserveWish(reader=NAME, token=MINE, after={1: 0}),
        ReserveWish(reader=NAME, token=MINE, before={-1: 0}),
    ):
        with pytest.raises(ArgumentOutOfRange):
            await reserve(main, wish, clock)
    with pytest.raises(ArgumentOutOfRange):
        await commit_reserved(main, NAME, MINE, {7: 1}, clock)
    with pytest.raises(ReaderLost):
        await reserve(main, ReserveWish(reader=NAME, token=MINE, after={0: 1 << 70}), clock)


async def test_a_queue_that_is_read_is_not_idle(tmp_path: Path, clock: ManualClock) -> None:
    brief = Queue("brief", QueueProperties(auto_delete_on_idle=timedelta(minutes=5)))
    async with verbs(tmp_path, clock, (brief,)) as broker:
        queue = broker.queue("brief")
        before = queue.uses
        await open_reader(queue.main, NAME, MINE, clock)
        opened = queue.uses
        await reserve(queue.main, ReserveWish(reader=NAME, token=MINE), clock)
        assert before != opened != queue.uses
