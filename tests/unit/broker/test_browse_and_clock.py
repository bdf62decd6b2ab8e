"""browse walks all fragments in numeric order; the clock never goes back."""

from pathlib import Path

import pytest

from bendybus.broker.browse import BROWSE_COUNT_MAX, browse
from bendybus.broker.clock import SystemClock
from bendybus.broker.send import send
from bendybus.model.ids import FragmentIndex, sequence_number
from bendybus.model.message import Message
from bendybus.testing.clock import ManualClock
from tests.unit.broker.serving_verbs import receive_all, send_each, verbs


@pytest.mark.spec("R3.5")
@pytest.mark.parametrize("name", ["orders", "parts"])
async def test_walking_on_from_the_last_number_sees_everything_once(
    tmp_path: Path, name: str
) -> None:
    clock = ManualClock()
    async with verbs(tmp_path, clock) as broker:
        queue = broker.queue(name)
        await send_each(queue, clock, 40)
        await receive_all(queue, clock)
        seen: list[int] = []
        start = 0
        while page := await browse(queue.main, start, 3):
            seen += [message.sequence for message in page]
            start = seen[-1] + 1

    assert len(seen) == len(set(seen)) == 40
    assert seen == sorted(seen)


@pytest.mark.spec("R3.5")
async def test_an_answer_holds_messages_of_one_fragment(tmp_path: Path) -> None:
    clock = ManualClock()
    async with verbs(tmp_path, clock) as broker:
        queue = broker.queue("parts")
        await send_each(queue, clock, 32)

        page = await browse(queue.main, sequence_number(5, 0), 100)

    assert [message.sequence >> 48 for message in page] == [5, 5]


async def test_fragments_of_a_store_that_is_away_are_passed_over(tmp_path: Path) -> None:
    clock = ManualClock()
    async with verbs(tmp_path, clock) as broker:
        queue = broker.queue("parts")
        await send_each(queue, clock, 16)
        away = queue.main.sources[0].store.status().number
        await broker.stores[away].take_offline("drill")

        [message] = await browse(queue.main, 0, 1)

    assert message.sequence == sequence_number(1, 1)


@pytest.mark.parametrize("start", [-(2**63), -1, sequence_number(900, 1), 2**63 - 1])
async def test_numbers_beyond_all_messages_are_harmless(tmp_path: Path, start: int) -> None:
    clock = ManualClock()
    async with verbs(tmp_path, clock) as broker:
        await send_each(broker.queue("orders"), clock, 1)

        found = await browse(broker.queue("orders").main, start, 1)

    assert len(found) == (1 if start < 0 else 0)


async def test_one_answer_has_a_bounded_count(tmp_path: Path) -> None:
    clock = ManualClock()
    async with verbs(tmp_path, clock) as broker:
        queue = broker.queue("orders")
        messages = [Message(b"x") for _ in range(BROWSE_COUNT_MAX + 5)]
        await send(queue, messages, FragmentIndex(0), clock)

        assert len(await browse(queue.main, 0, 10_000)) == BROWSE_COUNT_MAX


def test_the_machines_clock_stands_still_when_the_machine_goes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([5_000_000_000, 3_000_000_000, 6_000_000_000])
    monkeypatch.setattr("bendybus.broker.clock.time.time_ns", lambda: next(times))
    clock = SystemClock()

    assert [clock.now() for _ in range(3)] == [5000, 5000, 6000]
