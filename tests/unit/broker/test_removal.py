"""removal: what is idle for too long goes, with its messages and for good (R4, R7.1)."""

from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.broker.removal import Removal
from bendybus.broker.send import send
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic, TopicProperties
from bendybus.model.errors import EntityNotFound
from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker
from tests.unit.broker.serving_verbs import send_each

IDLE = timedelta(minutes=5)
BRIEF = Queue("brief", QueueProperties(auto_delete_on_idle=IDLE))
BRIEF_PARTS = Queue("parts", QueueProperties(auto_delete_on_idle=IDLE, enable_partitioning=True))
LASTING = Queue("lasting")
NEWS = Topic("news", TopicProperties(auto_delete_on_idle=IDLE), (Subscription("all"),))
EVERYTHING: list[Queue | Topic] = [BRIEF, BRIEF_PARTS, LASTING, NEWS]


def ignored() -> None:
    """Nobody has to be told."""


def names(broker: LocalBroker) -> set[str]:
    return {queue.name for queue in broker.catalog.queues()}


async def pass_time(removal: Removal, clock: ManualClock, minutes: int) -> None:
    for _ in range(minutes):
        clock.advance(60)
        await removal.look()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.mark.spec("R4")
async def test_what_nobody_uses_is_deleted_everywhere(tmp_path: Path, clock: ManualClock) -> None:
    async with local_broker(tmp_path, EVERYTHING, clock, stores=3) as broker:
        await send_each(broker.queue("parts"), clock, 40)
        removal = Removal(broker.namespaces, clock)
        await removal.look()
        await pass_time(removal, clock, 4)
        assert names(broker) == {"brief", "parts", "lasting", "news", "news/Subscriptions/all"}
        await pass_time(removal, clock, 1)
        assert names(broker) == {"lasting"}
        for store in broker.stores:
            assert [record.name for record in await store.entities()] == ["lasting"]


@pytest.mark.spec("R4")
async def test_a_link_and_a_message_are_use(tmp_path: Path, clock: ManualClock) -> None:
    async with local_broker(tmp_path, [BRIEF, NEWS], clock, stores=2) as broker:
        queue, removal = broker.queue("brief"), Removal(broker.namespaces, clock)
        reader = broker.catalog.subscription("news", "all")
        queue.note_link(ignored)
        reader.note_link(ignored)
        await pass_time(removal, clock, 20)
        queue.note_link_gone(ignored)
        await pass_time(removal, clock, 4)
        await send_each(queue, clock, 1)
        await pass_time(removal, clock, 4)
        assert "brief" in names(broker)
        await pass_time(removal, clock, 2)
        assert names(broker) == {"news", "news/Subscriptions/all"}


@pytest.mark.spec("R7.1")
async def test_nothing_is_deleted_while_a_store_is_away(tmp_path: Path, clock: ManualClock) -> None:
    async with local_broker(tmp_path, [BRIEF], clock, stores=2) as broker:
        removal = Removal(broker.namespaces, clock)
        await broker.stores[1].take_offline("drill")
        await pass_time(removal, clock, 10)
        await send_each(broker.queue("brief"), clock, 1)
        await broker.stores[1].bring_online()
        await pass_time(removal, clock, 4)
        assert names(broker) == {"brief"}


@pytest.mark.spec("R7.1")
async def test_a_deletion_cut_short_is_completed_after_a_restart(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with local_broker(tmp_path, [BRIEF_PARTS], clock, stores=3) as broker:
        await send_each(broker.queue("parts"), clock, 40)
        number = broker.queue("parts").number
        await broker.catalog.retire(broker.queue("parts"))
        await broker.stores[0].remove_entity(number, count_max=100)
    async with local_broker(tmp_path, [], clock, stores=3) as broker:
        with pytest.raises(EntityNotFound):
            broker.queue("parts")
        await Removal(broker.namespaces, clock).look()
        for store in broker.stores:
            assert await store.entities() == []


async def test_an_entity_made_again_is_empty_and_has_new_places(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with local_broker(tmp_path, [BRIEF], clock, stores=1) as broker:
        first = broker.queue("brief").main.sources[0].number
        await send_each(broker.queue("brief"), clock, 1)
        await broker.catalog.retire(broker.queue("brief"))
        await broker.catalog.declare([BRIEF], now=clock.now())
        [source] = broker.queue("brief").main.sources
        assert source.number > first
        assert (await source.store.counts(source.number)).messages == 0
        await Removal(broker.namespaces, clock).look()
        assert len(await broker.stores[0].entities()) == 1
    async with local_broker(tmp_path, [BRIEF], clock, stores=1) as broker:
        assert broker.queue("brief").main.sources[0].number == source.number


async def test_the_sweep_passes_over_what_a_retired_entity_holds(
    tmp_path: Path, clock: ManualClock
) -> None:
    properties = QueueProperties(
        requires_duplicate_detection=True, default_message_time_to_live=timedelta(seconds=1)
    )
    async with local_broker(tmp_path, [Queue("brief", properties)], clock, stores=1) as broker:
        queue = broker.queue("brief")
        await send(queue, [Message(b"x", message_id="1")], FragmentIndex(0), clock)
        await broker.catalog.retire(queue)
        clock.advance(100_000)
        await broker.sweep.sweep_all()
        assert (await broker.stores[0].counts(queue.main.sources[0].number)).messages == 1


async def test_what_a_retired_entity_holds_does_not_cut_the_sweep_of_others_short(
    tmp_path: Path, clock: ManualClock
) -> None:
    brief = QueueProperties(default_message_time_to_live=timedelta(seconds=1))
    queues = [Queue("brief", brief), Queue("other", brief)]
    async with local_broker(tmp_path, queues, clock, stores=1) as broker:
        retired, other = broker.queue("brief"), broker.queue("other")
        await send(retired, [Message(b"x")] * 10, FragmentIndex(0), clock)
        await send(other, [Message(b"y")] * 150, FragmentIndex(0), clock)
        await broker.catalog.retire(retired)
        clock.advance(100)
        await broker.sweep.sweep_all()
        assert (await broker.stores[0].counts(other.main.sources[0].number)).messages == 0
