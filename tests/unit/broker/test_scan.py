"""scan: stretches of fragments as columns, what readers have reserved, and stores that are away."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.broker.open_reader import open_reader
from bendybus.broker.reserve import ReserveWish, reserve
from bendybus.broker.scan import (
    Positions,
    ReaderKey,
    ScanStretch,
    Wanted,
    scan,
    scan_reserved,
    whole_fragment,
)
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.errors import ArgumentOutOfRange, ReaderLost, StoreUnavailable
from bendybus.model.ids import COUNTER_BITS, sequence_number
from bendybus.model.message import MessageState
from bendybus.model.scanned import Scanned
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import receive_all, send_each, verbs

QUEUES = pytest.mark.parametrize("name", ["orders", "parts"])
MINE = ReaderKey("capture", "mine")
EVERYTHING = Wanted()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock) as running:
        yield running


def contents(piece: Scanned) -> list[int]:
    assert piece.contents is not None
    bounds = zip(piece.contents.starts.tolist(), piece.contents.ends.tolist(), strict=True)
    return [int(piece.contents.joined[start:end]) for start, end in bounds]


def all_of(sub_queue: ServedSubQueue) -> list[ScanStretch]:
    return [whole_fragment(fragment) for fragment in range(len(sub_queue.sources))]


async def numbers(pieces: AsyncIterator[Scanned]) -> list[int]:
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
    sequences = [number for piece in pieces for number in piece.sequences.tolist()]
    assert sequences == sorted(sequences)
    assert sorted(number for piece in pieces for number in contents(piece)) == list(range(50))
    assert all(piece.count <= 2 for piece in pieces)
    assert all(len({each >> COUNTER_BITS for each in piece.sequences}) == 1 for piece in pieces)
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
async def test_what_is_reserved_reads_back_by_positions(
    broker: LocalBroker, clock: ManualClock, name: str
) -> None:
    queue = broker.queue(name)
    await send_each(queue, clock, 40)
    await open_reader(queue.main, MINE.name, MINE.token, clock)
    first = await reserve(
        queue.main, ReserveWish(reader=MINE.name, token=MINE.token, messages_max=20), clock
    )
    wish = ReserveWish(reader=MINE.name, token=MINE.token, after=first.end)
    second = await reserve(queue.main, wish, clock)
    earlier = [Positions(fragment, 0, until) for fragment, until in first.end.items()]
    later = [
        Positions(fragment, first.end.get(fragment, 0), until)
        for fragment, until in second.end.items()
    ]
    found = [
        await numbers(scan_reserved(queue.main, MINE, each, EVERYTHING, clock))
        for each in (earlier, later, earlier)
    ]
    assert (len(found[0]), len(found[1])) == (20, 20)
    assert sorted(found[0] + found[1]) == list(range(40))
    assert found[2] == found[0]
    pieces = scan_reserved(queue.main, MINE, earlier, EVERYTHING, clock)
    assert {state async for piece in pieces for state in piece.states} == {MessageState.RESERVED}


async def test_who_lost_the_reader_reads_nothing(broker: LocalBroker, clock: ManualClock) -> None:
    queue = broker.queue("orders")
    await open_reader(queue.main, MINE.name, MINE.token, clock)
    stranger = MINE._replace(token="another")
    with pytest.raises(ReaderLost):
        await numbers(scan_reserved(queue.main, stranger, [Positions(0, 0, 0)], EVERYTHING, clock))


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
    positions = [Positions(fragment, 0, 0) for fragment in range(16)]
    again: list[int] = []
    with pytest.raises(StoreUnavailable, match="a drill"):
        await numbers(scan_reserved(queue.main, MINE, positions[:1], EVERYTHING, clock))
    await numbers(scan_reserved(queue.main, MINE, positions[:1], EVERYTHING, clock, skipped=again))
    assert again == [0]


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
