"""scan: stretches of fragments as columns, what readers have reserved, and stores that are away."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.broker.open_reader import open_reader
from bendybus.broker.reserve import ReserveWish, reserve
from bendybus.broker.scan import Piece, ScanStretch, Wanted, scan, whole_fragment
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.errors import ArgumentOutOfRange, StoreUnavailable
from bendybus.model.ids import COUNTER_BITS, sequence_number
from bendybus.model.message import MessageState
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import receive_all, send_each, verbs

QUEUES = pytest.mark.parametrize("name", ["orders", "parts"])
NAME, TOKEN = "capture", "mine"
EVERYTHING = Wanted()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock) as running:
        yield running


def contents(piece: Piece) -> list[int]:
    found = piece.scanned.contents
    assert found is not None
    bounds = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    return [int(found.joined[start:end]) for start, end in bounds]


def all_of(sub_queue: ServedSubQueue) -> list[ScanStretch]:
    return [whole_fragment(fragment) for fragment in range(len(sub_queue.sources))]


async def numbers(pieces: AsyncIterator[Piece]) -> list[int]:
    return sorted([number async for piece in pieces for number in contents(piece)])


@pytest.mark.spec("R9.1")
@QUEUES
async def test_all_fragments_are_read_in_order_and_nothing_changes(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 50)
    wanted = Wanted(messages_max=2)
    pieces = [piece async for piece in scan(queue.main, all_of(queue.main), wanted)]
    sequences = [number for piece in pieces for number in piece.scanned.sequences.tolist()]
    assert sequences == sorted(sequences)
    assert sorted(number for piece in pieces for number in contents(piece)) == list(range(50))
    for piece in pieces:
        assert piece.scanned.count <= 2
        fragments = {number >> COUNTER_BITS for number in piece.scanned.sequences}
        assert fragments == {piece.stretch.fragment}
    assert len(await receive_all(queue, clock)) == 50


@QUEUES
async def test_a_stretch_ends_before_its_last_number(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 8, key="one fragment")
    [fragment] = [
        each.fragment
        for each in queue.main.sources
        if (await each.store.counts(each.number)).messages
    ]
    stretch = ScanStretch(fragment, sequence_number(fragment, 3), sequence_number(fragment, 6))
    assert await numbers(scan(queue.main, [stretch], EVERYTHING)) == [2, 3, 4]


@QUEUES
async def test_what_is_reserved_is_read_and_read_again(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 40)
    await open_reader(queue.main, NAME, TOKEN, clock)
    made = await reserve(queue.main, ReserveWish(reader=NAME, token=TOKEN, messages_max=20), clock)
    stretches = [
        whole_fragment(source.fragment)._replace(reservation=each.number)
        for source in queue.main.sources
        for each in await source.store.reservations(
            source.number, NAME, TOKEN, after=0, until=made.end[source.fragment], now=clock.now()
        )
    ]
    found = await numbers(scan(queue.main, stretches, EVERYTHING))
    assert len(found) == 20
    assert await numbers(scan(queue.main, stretches, EVERYTHING)) == found
    pieces = scan(queue.main, stretches, EVERYTHING)
    states = {state async for piece in pieces for state in piece.scanned.states}
    assert states == {MessageState.RESERVED}
    left = [int(content) for content, _ in await receive_all(queue, clock)]
    assert sorted(found + left) == list(range(40))


@pytest.mark.spec("R9.3")
async def test_a_store_that_is_away_is_named_or_skipped_and_counted(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 32)
    away = queue.main.sources[0].store
    there = [each.fragment for each in queue.main.sources if each.store is not away]
    await away.take_offline("a drill")
    with pytest.raises(StoreUnavailable, match="a drill"):
        await numbers(scan(queue.main, all_of(queue.main), EVERYTHING))
    skipped: list[int] = []
    found = await numbers(scan(queue.main, all_of(queue.main), EVERYTHING, skipped=skipped))
    assert (len(found), sorted({*there, *skipped})) == (16, list(range(16)))
    assert not set(there) & set(skipped)


@pytest.mark.parametrize("fragment", [-1, 1])
async def test_a_fragment_that_is_not_there_is_refused(broker: LocalBroker, fragment: int) -> None:
    stretch = ScanStretch(fragment, 0, 1 << 62)
    with pytest.raises(ArgumentOutOfRange, match="counted from 0"):
        await numbers(scan(broker.queue("orders").main, [stretch], EVERYTHING))


async def test_a_reader_that_stops_early_leaves_nothing_under_way(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("orders")
    await send_each(queue, clock, 10)
    pieces = scan(queue.main, all_of(queue.main), Wanted(messages_max=1))
    assert contents(await anext(pieces)) == [0]
    await pieces.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert await numbers(scan(queue.main, all_of(queue.main), EVERYTHING)) == list(range(10))
