"""Who guesses keys is answered late, and nobody else is."""

import asyncio

import pytest

from bendybus.broker import failed_attempts
from bendybus.broker.failed_attempts import FAILURES_AT_ONCE, WAITING_MAX, FailedAttempts
from bendybus.model.errors import AuthenticationFailed, ServerBusy
from bendybus.testing.clock import ManualClock


class Sleeps:
    """Sleeps that never end, and how long they were meant to be."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.get_running_loop().create_future()


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> Sleeps:
    sleeps = Sleeps()
    monkeypatch.setattr(failed_attempts, "sleep", sleeps)
    return sleeps


async def fail(attempts: FailedAttempts, address: str) -> None:
    async with attempts.slowing(address):
        raise AuthenticationFailed("wrong")


async def test_a_few_failures_are_answered_at_once(sleeps: Sleeps) -> None:
    attempts = FailedAttempts(ManualClock())
    for _ in range(FAILURES_AT_ONCE):
        with pytest.raises(AuthenticationFailed):
            await fail(attempts, "there")
    assert sleeps.seconds == []


async def test_more_are_answered_later_and_later_and_others_are_not(sleeps: Sleeps) -> None:
    attempts = FailedAttempts(ManualClock())
    for _ in range(FAILURES_AT_ONCE):
        with pytest.raises(AuthenticationFailed):
            await fail(attempts, "there")
    tasks = [asyncio.create_task(fail(attempts, "there")) for _ in range(3)]
    while len(sleeps.seconds) < 3:
        await _turn()
    assert sleeps.seconds == [0.2, 0.4, 0.6]
    async with attempts.slowing("there"):
        pass
    with pytest.raises(AuthenticationFailed):
        await fail(attempts, "elsewhere")
    for task in tasks:
        task.cancel()


async def test_when_very_many_wait_the_next_is_refused_unchecked(sleeps: Sleeps) -> None:
    attempts = FailedAttempts(ManualClock())
    for _ in range(FAILURES_AT_ONCE):
        with pytest.raises(AuthenticationFailed):
            await fail(attempts, "there")
    tasks = [asyncio.create_task(fail(attempts, "there")) for _ in range(WAITING_MAX)]
    while len(sleeps.seconds) < WAITING_MAX:
        await _turn()
    with pytest.raises(ServerBusy):
        async with attempts.slowing("there"):
            pytest.fail("it was checked")
    async with attempts.slowing("elsewhere"):
        pass
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with attempts.slowing("there"):
        pass


async def test_only_so_many_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_attempts, "ADDRESSES_MAX", 3)
    attempts = FailedAttempts(ManualClock())
    for number in (1, 2, 3, 1, 4):
        with pytest.raises(AuthenticationFailed):
            await fail(attempts, f"address-{number}")
    assert list(attempts._addresses) == ["address-3", "address-1", "address-4"]


async def _turn() -> None:
    """Let the others run."""
    turned = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turned.set_result, None)
    await turned
