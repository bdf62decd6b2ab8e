"""Messages go one way, whichever front end takes them and whichever changes it (R6)."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from bendybus.broker.update import update
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.message import Message
from bendybus.model.operations import Append, Operation
from bendybus.store.port import EntityRecord
from bendybus.testing.clock import ManualClock
from tests.frontends.front_end import FrontEnd, OpenStores, front_end, until
from tests.frontends.test_catalog_of_many import check_alike

pytestmark = pytest.mark.spec("R6")
SENT = [b"%d" % number for number in range(6)]


def here(to: str | None) -> Queue:
    """Make the queue that messages come from."""
    return Queue("here", QueueProperties(forward_to=to))


ENTITIES = [here("there"), Queue("there"), Queue("elsewhere")]


async def contents(one: FrontEnd, name: str) -> list[bytes]:
    """Return what a queue holds, whoever has it in hand."""
    [source] = one.catalog.queue(name).main.sources
    browsing = source.store.browse(source.number, from_sequence=0, count_max=99, bytes_max=1 << 20)
    return [message.content for message in await browsing]


async def hold(one: FrontEnd, **expected: Sequence[bytes]) -> None:
    """Wait until queues hold what they ought to."""

    async def are_there() -> bool:
        return {name: await contents(one, name) for name in expected} == expected

    await until(are_there)


class Pause:
    """Pauses a front end whenever messages are about to arrive, or have."""

    def __init__(self, paused: FrontEnd, *, is_before: bool) -> None:
        self._is_before = is_before
        self.has_begun = asyncio.Event()
        self.is_over = asyncio.Event()
        for store in paused.stores:
            slow: Any = store
            slow.apply = partial(self._applied, slow.apply)

    def _applied(
        self, apply: Callable[..., Any], operations: Sequence[Operation], **kwargs: Any
    ) -> Any:
        if any(isinstance(each, Append) and each.transfers for each in operations):
            return asyncio.ensure_future(self._paused(partial(apply, operations, **kwargs)))
        return apply(operations, **kwargs)

    async def _paused(self, apply: Callable[[], Any]) -> Any:
        answer = None if self._is_before else await apply()
        self.has_begun.set()
        await self.is_over.wait()
        return await apply() if self._is_before else answer


@pytest.mark.parametrize("learns", ["afterwards", "meanwhile"])
async def test_who_does_not_know_of_a_change_takes_nothing_the_old_way(
    open_stores: OpenStores, clock: ManualClock, learns: str
) -> None:
    async with front_end(open_stores, clock, ENTITIES) as one:
        await one.look_after()
        async with front_end(open_stores, clock) as other:
            pause = Pause(one, is_before=True)
            await one.send("here", *map(Message, SENT))
            await pause.has_begun.wait()
            await update(other.catalog, here("elsewhere"), now=clock.now())
            if learns == "meanwhile":
                await until(lambda: one.catalog.queue("here").main.forwards_to == "elsewhere")
            pause.is_over.set()
            await hold(one, here=[], there=[], elsewhere=SENT)


@pytest.mark.parametrize("to", [None, "elsewhere"])
async def test_what_one_has_taken_before_its_end_the_other_takes_no_other_way(
    open_stores: OpenStores, clock: ManualClock, to: str | None
) -> None:
    async with front_end(open_stores, clock, ENTITIES) as one:
        await one.look_after()
        async with front_end(open_stores, clock) as other:
            pause = Pause(one, is_before=False)
            await one.send("here", *map(Message, SENT))
            await pause.has_begun.wait()
            arrived = await contents(other, "there")
            assert arrived
            await one.die()
            await update(other.catalog, here(to), now=clock.now())
            await other.look_after()
            rest = SENT[len(arrived) :]
            if to is None:
                await hold(other, here=rest, there=arrived)
            else:
                await hold(other, here=[], there=arrived, elsewhere=rest)


async def test_a_change_that_somebody_died_in_keeps_nothing_from_arriving(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with front_end(open_stores, clock, ENTITIES) as one:
        await one.look_after()
        async with front_end(open_stores, clock) as other:
            record = other.catalog.record("here")
            late = replace(record, version=record.version + 1, entity=here(None))
            for store in other.stores:
                await store.prepare([late])
            await other.die()
        await one.send("here", *map(Message, SENT))
        await hold(one, here=[], there=SENT)
        await check_alike(one)


async def test_a_store_is_never_without_a_note_of_what_another_has_put(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with front_end(open_stores, clock, ENTITIES) as one:
        record = one.catalog.record("here")
        changed = replace(record, version=record.version + 1, entity=here(None))
        behind: Any = one.stores[1]
        told: list[Sequence[EntityRecord]] = []
        prepare = behind.prepare

        def overheard(records: Sequence[EntityRecord]) -> Any:
            told.append(records)
            return prepare(records)

        async with front_end(open_stores, clock) as other:
            first, second = other.stores
            for store in (first, second):
                await store.prepare([changed])
            behind.prepare = overheard
            await first.put_entities([changed], is_prepared=True)
            await other.die()
        await one.namespaces.records.following.look()
        await until(lambda: one.catalog.queue("here").main.forwards_to is None)
        await check_alike(one)
        assert told == []
