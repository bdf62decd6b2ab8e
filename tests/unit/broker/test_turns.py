"""The broker's own work takes turns, small ones while clients are heard (R4)."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from bendybus.broker.turns import (
    COUNT_ALONE,
    COUNT_BESIDE_CLIENTS,
    HEARD_SECONDS,
    LATE_SECONDS,
    TURN_SECONDS_MAX,
    Ear,
    Turns,
    Work,
    rest_after,
)
from bendybus.testing.clock import ManualClock
from tests.unit.broker.serving_verbs import send_each, verbs

PATIENCE = 10.0


def rest(took: float, *, lasting: float = 0.0, is_beside_clients: bool = True) -> float:
    """Return how long the rest is."""
    return rest_after(took, lasting=lasting, is_beside_clients=is_beside_clients)


def test_a_rest_beside_clients_is_several_times_the_turn_and_alone_a_part_of_it() -> None:
    assert rest(0.002) > 2 * 0.002
    assert 0 < rest(0.002, is_beside_clients=False) < 0.002


def test_whoever_is_late_rests_less_but_no_less_than_it_works() -> None:
    assert rest(0.002, lasting=LATE_SECONDS / 2) == rest(0.002)
    assert 0.002 <= rest(0.002, lasting=LATE_SECONDS) < rest(0.002)


def test_rests_are_bounded_however_long_a_turn_took() -> None:
    assert rest(100.0) == rest(TURN_SECONDS_MAX)


def test_clients_are_heard_by_commits_and_for_a_while_afterwards() -> None:
    ear = Ear()
    ear.listen(7, 100.0)
    assert ear.hears(100.0)
    ear.listen(7, 100.0 + HEARD_SECONDS / 2)
    assert ear.hears(100.0 + HEARD_SECONDS / 2)
    assert not ear.hears(100.0 + HEARD_SECONDS)


def test_our_own_commits_are_not_taken_for_those_of_clients() -> None:
    ear = Ear()
    ear.skip(7)
    ear.listen(7, 100.0)
    assert not ear.hears(100.0)


def until(event: asyncio.Event) -> Work:
    """Make work that ends with the event."""

    async def work(_: int) -> bool:
        await event.wait()
        return False

    return work


def noting(count_maxes: list[int]) -> Work:
    """Make work that notes how much it may do."""

    async def work(count_max: int) -> bool:
        count_maxes.append(count_max)
        return False

    return work


async def test_a_turn_begins_when_the_one_before_it_has_ended() -> None:
    turns, gate, begun = Turns([]), asyncio.Event(), list[int]()
    first = asyncio.create_task(turns.take(until(gate)))
    second = asyncio.create_task(turns.take(noting(begun)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not begun

    gate.set()

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(first, second)
    assert len(begun) == 1


async def test_turns_follow_each_other_until_there_is_no_more_and_others_come_between() -> None:
    turns, order = Turns([]), list[str]()

    async def work(name: str, _: int) -> bool:
        order.append(name)
        return order.count(name) < 3

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(turns.take(partial(work, name)) for name in "ab"))

    assert order == ["a", "b"] * 3


async def test_a_turn_that_hangs_holds_up_no_other() -> None:
    turns, gate, begun = Turns([]), asyncio.Event(), list[int]()
    hanging = asyncio.create_task(turns.take(until(gate)))

    async with asyncio.timeout(PATIENCE):
        await turns.take(noting(begun))
        assert begun
        assert not hanging.done()
        gate.set()
        await hanging


async def test_a_turn_that_fails_tells_its_caller_and_the_next_follows() -> None:
    async def fail(_: int) -> bool:
        raise RuntimeError("planted")

    turns, begun = Turns([]), list[int]()
    with pytest.raises(RuntimeError, match="planted"):
        await turns.take(fail)
    async with asyncio.timeout(PATIENCE):
        await turns.take(noting(begun))
    assert begun


async def test_a_turn_that_is_called_off_takes_its_work_with_it() -> None:
    turns, never, ended = Turns([]), asyncio.Event(), asyncio.Event()
    begun: list[int] = []

    async def work(_: int) -> bool:
        try:
            return await never.wait()
        finally:
            ended.set()

    hanging = asyncio.create_task(turns.take(work))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    hanging.cancel()

    async with asyncio.timeout(PATIENCE):
        await ended.wait()
        await turns.take(noting(begun))
    assert begun


async def test_turns_are_small_beside_clients_and_larger_alone(tmp_path: Path) -> None:
    count_maxes: list[int] = []
    await Turns([]).take(noting(count_maxes))
    assert count_maxes == [COUNT_ALONE]

    clock = ManualClock()
    async with verbs(tmp_path, clock) as broker:
        turns = Turns(broker.stores)
        await send_each(broker.queue("orders"), clock, 1)
        await turns.take(noting(count_maxes))

    assert count_maxes == [COUNT_ALONE, COUNT_BESIDE_CLIENTS]
