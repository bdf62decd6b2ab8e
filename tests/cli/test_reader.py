"""`bendybus reader`, and readers in `bendybus status`, against a real broker."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bendybus.broker.clock import Clock, SystemClock
from bendybus.broker.open_reader import open_reader
from bendybus.broker.reserve import ReserveWish, reserve
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Message
from bendybus.model.operations import Append
from bendybus.testing.local_broker import local_broker
from tests.cli.command import serving
from tests.cli.managing import Commands

ENTITIES = (
    Queue("orders"),
    Queue("parts", QueueProperties(enable_partitioning=True)),
    Topic("news", subscriptions=(Subscription("all"),)),
)
SUBSCRIPTION = "news/Subscriptions/all"
COUNT = 3
AN_HOUR_MS = 3_600_000


class EarlierClock(SystemClock):
    """An hour ago."""

    def now(self) -> Instant:
        return Instant(super().now() - AN_HOUR_MS)


async def fill(folder: Path) -> None:
    """Let a reader have messages of a queue, of a subscription and of dead letters."""
    places: list[tuple[str, SubQueue, Clock]] = [
        ("orders", SubQueue.MAIN, SystemClock()),
        ("parts", SubQueue.DEAD_LETTER, EarlierClock()),
        (SUBSCRIPTION, SubQueue.MAIN, SystemClock()),
    ]
    async with local_broker(folder, ENTITIES, SystemClock(), stores=2) as broker:
        for name, kind, clock in places:
            sub_queue = broker.queue(name).sub_queues[kind]
            source = sub_queue.sources[0]
            append = Append(source.number, [Message(b"\x00\x00\x53\x77\x40")] * COUNT, 1 << 40)
            await source.store.apply([append], now=clock.now())
            opened = await open_reader(sub_queue, "capture", None, clock)
            wish = ReserveWish(reader="capture", token=opened.token, messages_max=2)
            await reserve(sub_queue, wish, clock)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    folder: Path = tmp_path_factory.mktemp("broker")
    (folder / "data").mkdir()
    asyncio.run(fill(folder / "data"))
    with serving(folder) as broker:
        yield Commands(broker.ready["amqp_port"], broker.ready["http_port"])


@pytest.mark.spec("R9.2")
def test_readers_are_listed_and_released(commands: Commands) -> None:
    listed = {each["address"]: each for each in commands.json("reader", "list")}
    assert set(listed) == {"orders", "parts/$DeadLetterQueue", SUBSCRIPTION}
    for each in listed.values():
        assert (each["reader"], each["reservedMessages"], each["lag"]) == ("capture", 2, 1)
        assert each["isActive"] is (each["address"] != "parts/$DeadLetterQueue")
    assert "capture" in commands.text("reader", "list")
    assert "capture" in commands.text("status")
    assert len(commands.json("status")["readers"]) == 3

    told = commands.text("doctor")
    assert "'capture' keeps 2 messages of 'parts/$DeadLetterQueue'" in told
    assert "messages of 'orders'" not in told

    text = commands.text("reader", "release", "orders", "capture")
    assert text == "2 messages of 'orders' are free again\n"
    freed = commands.json("reader", "release", "parts", "capture", "--dead-letter")
    assert freed == {"messages": 2, "skipped": []}
    freed = commands.json("reader", "release", "news", "capture", "--subscription", "all")
    assert freed["messages"] == 2
    assert commands.json("reader", "list") == []
    assert "capture" not in commands.text("status")


def test_what_is_not_there_cannot_be_released(commands: Commands) -> None:
    assert "no reader 'other'" in commands.refusal("reader", "release", "orders", "other")
    assert "could not be found" in commands.refusal("reader", "release", "nothing", "capture")
