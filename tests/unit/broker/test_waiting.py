"""Waiting receivers: woken in their order, as many as there are messages, and none forgotten."""

import asyncio

import pytest

from bendybus.broker.waiting import Waiting


def _woken(futures: "list[asyncio.Future[None]]") -> list[bool]:
    return [future.done() and not future.cancelled() for future in futures]


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 1), (2, 2), (5, 3)])
async def test_as_many_are_woken_as_there_are_messages(count: int, expected: int) -> None:
    waiting = Waiting()
    futures = [waiting.join() for _ in range(3)]

    waiting.wake(count)

    assert _woken(futures) == [True] * expected + [False] * (3 - expected)


async def test_who_came_first_is_woken_first() -> None:
    waiting = Waiting()
    first, second = waiting.join(), waiting.join()

    waiting.wake(1)
    third = waiting.join()
    waiting.wake(1)

    assert _woken([first, second, third]) == [True, True, False]


async def test_who_leaves_is_not_woken_and_takes_nobodys_turn() -> None:
    waiting = Waiting()
    first, second = waiting.join(), waiting.join()

    waiting.leave(first)
    waiting.wake(1)

    assert first.cancelled()
    assert _woken([second]) == [True]


async def test_a_wake_for_somebody_who_is_leaving_is_passed_on() -> None:
    waiting = Waiting()
    first, second = waiting.join(), waiting.join()

    waiting.wake(1)
    waiting.leave(first)

    assert _woken([first, second]) == [True, True]


async def test_a_cancelled_waiter_does_not_swallow_a_wake() -> None:
    waiting = Waiting()
    first, second = waiting.join(), waiting.join()

    first.cancel()
    waiting.wake(1)

    assert _woken([second]) == [True]


async def test_waking_nobody_is_harmless() -> None:
    waiting = Waiting()

    waiting.wake(3)

    assert not waiting.join().done()
