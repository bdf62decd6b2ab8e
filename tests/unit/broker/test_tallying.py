"""Counts that are asked for together are counted together."""

import asyncio
from collections.abc import Awaitable, Sequence

import pytest

from bendybus.broker.tallying import Tallying
from bendybus.model.errors import StoreFailed
from bendybus.model.ids import QueueNumber
from bendybus.store.port import Store, Tally


class CountingStore:
    """Counts how often it is asked; each queue holds as many messages as its number."""

    def __init__(self) -> None:
        self.asked: list[Sequence[QueueNumber]] = []
        self.is_online = True
        self.may_answer = asyncio.Event()
        self.failure: Exception | None = None

    def tallies(self, queues: Sequence[QueueNumber]) -> Awaitable[dict[QueueNumber, Tally]]:
        self.asked.append(queues)
        return self._answer(queues)

    async def _answer(self, queues: Sequence[QueueNumber]) -> dict[QueueNumber, Tally]:
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return {queue: Tally(queue, 0, 0, None, 0) for queue in queues}


def tallying(*stores: CountingStore) -> Tallying:
    listed: list[Store] = list(stores)  # type: ignore[arg-type]  # of the port it has this much
    return Tallying(listed)


async def test_what_is_asked_while_stores_count_is_one_question_afterwards() -> None:
    store = CountingStore()
    counts = tallying(store)
    first = asyncio.create_task(counts.tallies({0: [QueueNumber(1)]}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    later = [asyncio.create_task(counts.tallies({0: [QueueNumber(n)]})) for n in (2, 3, 3)]
    await asyncio.sleep(0)
    assert store.asked == [[1]]
    store.may_answer.set()
    answers = await asyncio.gather(first, *later)
    assert store.asked == [[1], [2, 3]]
    held = [answer[0] for answer in answers]
    assert all(held)
    assert [
        queues[QueueNumber(n)].active
        for n, queues in zip((1, 2, 3, 3), held, strict=True)
        if queues is not None
    ] == [1, 2, 3, 3]


async def test_who_gives_up_leaves_the_answer_to_the_others() -> None:
    store = CountingStore()
    counts = tallying(store)
    impatient = asyncio.create_task(counts.tallies({0: [QueueNumber(1)]}))
    patient = asyncio.create_task(counts.tallies({0: [QueueNumber(1)]}))
    await asyncio.sleep(0)
    impatient.cancel()
    store.may_answer.set()
    assert (await patient)[0] == {1: Tally(1, 0, 0, None, 0)}
    with pytest.raises(asyncio.CancelledError):
        await impatient


async def test_a_store_that_is_away_or_fails_does_not_keep_the_others_from_answering() -> None:
    away, failing, good = CountingStore(), CountingStore(), CountingStore()
    away.is_online = False
    failing.failure = StoreFailed(1, "broken")
    for store in (away, failing, good):
        store.may_answer.set()
    one = [QueueNumber(1)]
    answers = await tallying(away, failing, good).tallies({0: one, 1: one, 2: one})
    assert (answers[0], answers[1]) == (None, None)
    assert answers[2] == {1: Tally(1, 0, 0, None, 0)}


async def test_a_defect_reaches_who_asked_and_the_next_question_is_asked() -> None:
    store = CountingStore()
    store.failure = ZeroDivisionError()
    store.may_answer.set()
    counts = tallying(store)
    with pytest.raises(ZeroDivisionError):
        await counts.tallies({0: [QueueNumber(1)]})
    store.failure = None
    assert (await counts.tallies({0: [QueueNumber(1)]}))[0] is not None
