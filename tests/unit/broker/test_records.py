"""records: all stores change or none does, whenever one of them fails (R7.1)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bendybus.broker.create import create
from bendybus.broker.delete import delete
from bendybus.broker.removal import Removal
from bendybus.broker.update import update
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic
from bendybus.model.errors import ServerBusy, StartRefused, StoreFailed, StoreUnavailable
from bendybus.store.port import EntityRecord
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker
from tests.unit.broker.serving_verbs import ORDERS, PARTS, receive_all, send_each

STORES = 3
CHANGED = Queue("orders", QueueProperties(max_delivery_count=2))
NEWS = Topic("news", subscriptions=(Subscription("a"), Subscription("b")))


class FragileStore(SqliteStore):
    """A store that can be told to go away in the middle of a change."""

    fails_at = ""

    async def prepare(self, records: Sequence[EntityRecord]) -> None:  # type: ignore[override]  # waits
        if records and self.fails_at == "prepare":
            await self._fail()
        await super().prepare(records)

    async def put_entities(  # type: ignore[override]  # waits
        self, records: Sequence[EntityRecord], *, is_prepared: bool = False
    ) -> None:
        if self.fails_at == "put":
            await self._fail()
        if self.fails_at == "busy":
            self.fails_at = ""
            raise ServerBusy("It has too much to do.")
        await super().put_entities(records, is_prepared=is_prepared)

    async def _fail(self) -> None:
        self.fails_at = ""
        await self.take_offline("pulled")
        raise StoreFailed(self.status().number, "it was pulled")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@asynccontextmanager
async def fragile(
    folder: Path, clock: ManualClock, *entities: Queue | Topic
) -> AsyncIterator[tuple[LocalBroker, list[FragileStore]]]:
    async with local_broker(
        folder, entities, clock, stores=STORES, make_store=FragileStore
    ) as broker:
        stores = [store for store in broker.stores if isinstance(store, FragileStore)]
        yield broker, stores


async def in_all(broker: LocalBroker) -> list[tuple[str, int]]:
    """Return names and versions, after making sure that every store has the same."""
    copies = [await store.entities() for store in broker.stores]
    assert all(copy == copies[0] for copy in copies)
    assert [await store.prepared() for store in broker.stores] == [[]] * STORES
    assert {record.number: record for record in copies[0]} == broker.namespaces.records.by_number
    return [(record.name, record.version) for record in copies[0]]


async def back(broker: LocalBroker) -> None:
    for store in broker.stores:
        if not store.is_online:
            await store.bring_online()
    await broker.namespaces.records.agree()


@pytest.mark.parametrize("failing", range(STORES))
async def test_a_store_that_cannot_prepare_leaves_all_as_they_were(
    tmp_path: Path, clock: ManualClock, failing: int
) -> None:
    async with fragile(tmp_path, clock, ORDERS) as (broker, stores):
        stores[failing].fails_at = "prepare"
        with pytest.raises(StoreFailed):
            await create(broker.catalog, PARTS, now=clock.now())
        assert not broker.catalog.has("parts")
        for store in stores:
            if store.is_online:
                assert await store.prepared() == []
        await back(broker)
        assert await in_all(broker) == [("orders", 1)]
        await create(broker.catalog, PARTS, now=clock.now())
    async with fragile(tmp_path, clock) as (broker, _):
        assert await in_all(broker) == [("orders", 1), ("parts", 1)]


@pytest.mark.parametrize("failing", range(STORES))
async def test_a_change_that_one_store_has_made_is_made_by_those_that_come_back(
    tmp_path: Path, clock: ManualClock, failing: int
) -> None:
    async with fragile(tmp_path, clock, ORDERS) as (broker, stores):
        stores[failing].fails_at = "put"
        await create(broker.catalog, PARTS, now=clock.now())
        assert broker.catalog.has("parts")
        with pytest.raises(StoreUnavailable):
            await update(broker.catalog, CHANGED, now=clock.now())
        await back(broker)
        assert await in_all(broker) == [("orders", 1), ("parts", 1)]
        await send_each(broker.queue("parts"), clock, 16)
        assert len(await receive_all(broker.queue("parts"), clock)) == 16


async def test_a_store_that_was_only_busy_gets_what_it_missed_before_the_next_change(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with fragile(tmp_path, clock, ORDERS) as (broker, stores):
        stores[1].fails_at = "busy"
        await create(broker.catalog, PARTS, now=clock.now())
        await update(broker.catalog, CHANGED, now=clock.now())
        assert await in_all(broker) == [("orders", 2), ("parts", 1)]


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_change_that_no_store_has_made_is_undone(
    tmp_path: Path, clock: ManualClock, is_restarted: bool
) -> None:
    async with fragile(tmp_path, clock, ORDERS) as (broker, stores):
        for store in stores:
            store.fails_at = "put"
        with pytest.raises(StoreFailed):
            await update(broker.catalog, CHANGED, now=clock.now())
        assert broker.queue("orders").properties == ORDERS.properties
        if not is_restarted:
            await back(broker)
            assert await in_all(broker) == [("orders", 1)]
            await update(broker.catalog, CHANGED, now=clock.now())
            assert await in_all(broker) == [("orders", 2)]
    if is_restarted:
        async with fragile(tmp_path, clock) as (broker, _):
            assert await in_all(broker) == [("orders", 1)]


@pytest.mark.parametrize("wrote", range(STORES))
async def test_what_one_store_had_made_before_a_crash_is_made_in_all(
    tmp_path: Path, clock: ManualClock, wrote: int
) -> None:
    async with fragile(tmp_path, clock, ORDERS) as (broker, stores):
        changed = replace(broker.catalog.record("orders"), version=2, entity=CHANGED)
        for store in stores:
            await store.prepare([changed])
        await stores[wrote].put_entities([changed])
    async with fragile(tmp_path, clock) as (broker, _):
        assert await in_all(broker) == [("orders", 2)]
        assert broker.queue("orders").properties == CHANGED.properties


@pytest.mark.parametrize("kind", ["created", "changed", "deleted"])
async def test_while_it_is_unknown_whether_a_change_was_made_what_was_before_holds(
    tmp_path: Path, clock: ManualClock, kind: str
) -> None:
    async with fragile(tmp_path, clock, ORDERS, PARTS) as (broker, stores):
        known = broker.catalog.record("parts")
        numbering = await broker.namespaces.records.numbering()
        changed = {
            "created": numbering.new_record("sbemulatorns", Queue("new"), now=clock.now()),
            "changed": replace(known, version=2, entity=Queue("parts", CHANGED.properties)),
            "deleted": replace(known, version=2, is_removed=True),
        }[kind]
        for store in stores:
            await store.prepare([changed])
        await stores[1].put_entities([changed])
        path = stores[1].path
    hidden = path.rename(tmp_path / "elsewhere")
    path.mkdir()
    async with fragile(tmp_path, clock) as (broker, _):
        assert not broker.stores[1].is_online
        assert broker.catalog.has("parts")
        assert not broker.catalog.has("new")
        assert broker.queue("parts").properties.max_delivery_count == 10
        path.rmdir()
        hidden.rename(path)
        await back(broker)
        assert len(await in_all(broker)) == (3 if kind == "created" else 2)
        assert broker.catalog.has("new") is (kind == "created")
        assert broker.catalog.has("parts") is (kind != "deleted")
        if kind == "changed":
            assert broker.queue("parts").properties.max_delivery_count == 2


async def test_what_was_deleted_without_a_store_is_not_brought_back_by_it(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with fragile(tmp_path, clock, ORDERS, NEWS) as (broker, stores):
        removal = Removal(broker.namespaces, clock)
        stores[2].fails_at = "put"
        await delete(broker.catalog, "news")
        await removal.look()
        assert len(broker.namespaces.records.retired()) == 3
        await back(broker)
        await removal.look()
        assert await in_all(broker) == [("orders", 1)]
    async with fragile(tmp_path, clock) as (broker, _):
        assert await in_all(broker) == [("orders", 1)]


async def test_not_even_when_the_others_were_started_without_it(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with fragile(tmp_path, clock, ORDERS, NEWS) as (broker, stores):
        stores[2].fails_at = "put"
        await delete(broker.catalog, "news")
        await Removal(broker.namespaces, clock).look()
        path = stores[2].path
    hidden = path.rename(tmp_path / "elsewhere")
    path.mkdir()
    async with fragile(tmp_path, clock) as (broker, _):
        removal = Removal(broker.namespaces, clock)
        await removal.look()
        path.rmdir()
        hidden.rename(path)
        await back(broker)
        assert not broker.catalog.has("news")
        await removal.look()
        assert await in_all(broker) == [("orders", 1)]


async def test_a_change_goes_on_when_nobody_waits_for_it_any_more(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with fragile(tmp_path, clock, ORDERS) as (broker, _):
        asking = asyncio.create_task(create(broker.catalog, PARTS, now=clock.now()))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await update(broker.catalog, CHANGED, now=clock.now())
        assert await in_all(broker) == [("orders", 2), ("parts", 1)]
        assert broker.catalog.has("parts")


async def test_changes_at_the_same_time_come_one_after_the_other(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with fragile(tmp_path, clock) as (broker, _):
        wishes = [Queue(f"q{number % 5}") for number in range(20)]
        made = await asyncio.gather(
            *(create(broker.catalog, wish, now=clock.now()) for wish in wishes),
            return_exceptions=True,
        )
        assert sum(isinstance(each, EntityRecord) for each in made) == 5
        assert len(await in_all(broker)) == 5


async def test_numbers_are_never_given_again(tmp_path: Path, clock: ManualClock) -> None:
    seen: set[int] = set()
    for _ in range(3):
        async with fragile(tmp_path, clock) as (broker, _):
            removal = Removal(broker.namespaces, clock)
            for entity in (Queue("q"), PARTS):
                record = await create(broker.catalog, entity, now=clock.now())
                assert record.number not in seen
                seen.add(record.number)
                await delete(broker.catalog, entity.name)
            await removal.look()
            assert await in_all(broker) == []


@pytest.mark.spec("R1.2")
async def test_entities_of_a_namespace_that_is_not_configured_are_not_given_to_another(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with local_broker(tmp_path, [ORDERS], clock, stores=1, names=["first"]):
        pass
    with pytest.raises(StartRefused, match="'orders' of the namespace 'first'"):
        async with local_broker(tmp_path, [], clock, stores=1, names=["second"]):
            pass
