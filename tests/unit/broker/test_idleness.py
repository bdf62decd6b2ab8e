"""What counts as a use of an entity that goes when it is idle, and what does not (R4)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from bendybus.broker.create import create
from bendybus.broker.open_reader import open_reader
from bendybus.broker.removal import Removal
from bendybus.broker.rules import add_rule
from bendybus.broker.scan import Wanted, scan, whole_fragment
from bendybus.broker.schedule import cancel, schedule
from bendybus.broker.send import send
from bendybus.broker.update import update
from bendybus.model.entity import (
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.ids import FragmentIndex, Instant
from bendybus.model.message import Message
from bendybus.model.rule import FalseFilter, Rule
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker

pytestmark = pytest.mark.spec("R4")

IDLE: Final = timedelta(minutes=5)
MINUTE_MS: Final = 60_000
ALL: Final = "news/Subscriptions/all"
TIRED: Final = Subscription("all", SubscriptionProperties(auto_delete_on_idle=IDLE))
ENTITIES: Final[list[Queue | Topic]] = [
    Queue("brief", QueueProperties(auto_delete_on_idle=IDLE)),
    Topic("news", TopicProperties(auto_delete_on_idle=IDLE), (TIRED,)),
    Queue("lasting"),
]

Use = Callable[[LocalBroker], Awaitable[object]]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    async with local_broker(tmp_path, ENTITIES, ManualClock(), stores=2) as broker:
        yield broker


async def names_after(broker: LocalBroker, minutes: int, removal: Removal) -> set[str]:
    """Let so many minutes pass, and return what is there then."""
    clock = broker.clock
    assert isinstance(clock, ManualClock)
    for _ in range(minutes):
        clock.advance(60)
        await broker.sweep.sweep_all()
        await removal.look()
    return {queue.name for queue in broker.catalog.queues()} - {"lasting"}


async def send_to(broker: LocalBroker, name: str, life_ms: int | None = None) -> None:
    message = Message(b"x", time_to_live_ms=life_ms)
    await send(broker.queue(name), [message], FragmentIndex(0), broker.clock)


async def schedule_at(broker: LocalBroker, name: str, minutes: int) -> list[int]:
    due = Instant(broker.clock.now() + minutes * MINUTE_MS)
    return await schedule(broker.queue(name), [Message(b"x", scheduled_at=due)], broker.clock)


async def update_the_queue(broker: LocalBroker) -> None:
    properties = QueueProperties(auto_delete_on_idle=IDLE, max_delivery_count=3)
    await update(broker.catalog, Queue("brief", properties), now=broker.clock.now())


async def update_the_subscription(broker: LocalBroker) -> None:
    properties = replace(TIRED.properties, max_delivery_count=3)
    changed = Subscription("all", properties)
    await update(broker.catalog, changed, topic="news", now=broker.clock.now())


async def add_a_rule(broker: LocalBroker) -> None:
    subscription = broker.catalog.subscription("news", "all")
    await add_rule(
        broker.catalog, subscription, Rule("none", FalseFilter()), now=broker.clock.now()
    )


async def subscribe(broker: LocalBroker) -> None:
    lasting = Subscription("other")
    await create(broker.catalog, lasting, topic="news", now=broker.clock.now())


async def read_the_subscription(broker: LocalBroker) -> None:
    await open_reader(broker.queue(ALL).main, "reader", None, broker.clock)


async def scan_the_queue(broker: LocalBroker) -> None:
    async for _ in scan(broker.queue("brief").main, [whole_fragment(0)], Wanted()):
        pass


USES: Final[dict[str, tuple[Use, set[str]]]] = {
    "sending to a queue": (lambda broker: send_to(broker, "brief"), {"brief"}),
    "updating a queue": (update_the_queue, {"brief"}),
    "reading a queue in bulk": (scan_the_queue, {"brief"}),
    "updating a subscription": (update_the_subscription, {"news", ALL}),
    "adding a rule": (add_a_rule, {"news", ALL}),
    "reading a subscription": (read_the_subscription, {"news", ALL}),
    # Or one that nobody reads would never go.
    "sending to a topic": (lambda broker: send_to(broker, "news"), {"news"}),
    "subscribing to a topic": (subscribe, {"news", "news/Subscriptions/other"}),
}


@pytest.mark.parametrize(("use", "kept"), USES.values(), ids=USES.keys())
async def test_a_use_keeps_an_entity_and_what_it_belongs_to(
    broker: LocalBroker, use: Use, kept: set[str]
) -> None:
    removal = Removal(broker.namespaces, broker.clock)
    await removal.look()
    everything = {"brief", "news", ALL}
    assert await names_after(broker, 3, removal) == everything
    await use(broker)
    assert await names_after(broker, 1, removal) >= everything
    assert await names_after(broker, 2, removal) == kept
    assert await names_after(broker, 3, removal) == set()


async def test_what_goes_on_by_itself_is_no_use(broker: LocalBroker) -> None:
    removal = Removal(broker.namespaces, broker.clock)
    await send_to(broker, "brief", life_ms=3 * MINUTE_MS)
    await removal.look()
    assert "brief" in await names_after(broker, 4, removal)
    for store in broker.stores:
        await store.take_offline("a drill")
        await store.bring_online()
    await broker.namespaces.records.agree()
    assert await names_after(broker, 1, removal) == set()


@pytest.mark.parametrize("name", ["brief", "news"])
async def test_an_entity_stays_while_messages_wait_in_it_for_their_time(
    broker: LocalBroker, name: str
) -> None:
    removal = Removal(broker.namespaces, broker.clock)
    await schedule_at(broker, name, minutes=12)
    assert name in await names_after(broker, 12 + 4, removal)
    assert name not in await names_after(broker, 2, removal)


async def test_a_cancelled_message_keeps_nothing(broker: LocalBroker) -> None:
    removal = Removal(broker.namespaces, broker.clock)
    numbers = await schedule_at(broker, "brief", minutes=60)
    assert "brief" in await names_after(broker, 10, removal)
    await cancel(broker.queue("brief"), numbers, broker.clock)
    assert "brief" not in await names_after(broker, 6, removal)


async def test_what_forwards_is_not_idle(broker: LocalBroker) -> None:
    removal = Removal(broker.namespaces, broker.clock)
    forwarding = Subscription("all", replace(TIRED.properties, forward_to="lasting"))
    await update(broker.catalog, forwarding, topic="news", now=broker.clock.now())
    assert await names_after(broker, 20, removal) == {"news", ALL}
    await update(broker.catalog, TIRED, topic="news", now=broker.clock.now())
    assert await names_after(broker, 6, removal) == set()


async def test_who_comes_at_the_last_moment_keeps_it(broker: LocalBroker) -> None:
    removal, records = Removal(broker.namespaces, broker.clock), broker.namespaces.records
    await removal.look()
    await names_after(broker, 4, removal)
    may_end = asyncio.Event()
    others = asyncio.create_task(records.in_turn(may_end.wait))
    looking = asyncio.create_task(names_after(broker, 1, removal))
    async with asyncio.timeout(5):
        while len(records._changes) < 2:  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0)
    # It was found to be idle, and waits for its turn to be retired.
    await send_to(broker, "brief")
    may_end.set()
    await others
    assert await looking == {"brief"}
