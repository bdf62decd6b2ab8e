"""A broker without a wire, for tests of the verbs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.send import group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue
from bendybus.model.entity import Queue, QueueProperties, Topic
from bendybus.model.ids import SubQueue
from bendybus.model.message import Message
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker

LOCK_SECONDS = 30
ORDERS = Queue("orders", QueueProperties(lock_duration=timedelta(seconds=LOCK_SECONDS)))
PARTS = Queue(
    "parts",
    QueueProperties(lock_duration=timedelta(seconds=LOCK_SECONDS), enable_partitioning=True),
)


@asynccontextmanager
async def verbs(
    folder: Path, clock: ManualClock, queues: Sequence[Queue | Topic] = (ORDERS, PARTS)
) -> AsyncIterator[LocalBroker]:
    """Serve a conventional and a partitioned queue from two stores."""
    async with local_broker(folder, queues, clock, stores=2) as broker:
        yield broker


async def send_each(
    queue: ServedQueue, clock: ManualClock, count: int, *, key: str | None = None
) -> None:
    """Send messages one by one, with a key or round robin."""
    for number in range(count):
        message = Message(b"%d" % number, partition_key=key)
        [fragment] = group_by_fragment(queue, [message])
        await send(queue, [message], fragment, clock)


def receiver(
    queue: ServedQueue,
    clock: ManualClock,
    *,
    sub_queue: SubQueue = SubQueue.MAIN,
    mode: ReceiveMode = ReceiveMode.PEEK_LOCK,
) -> Receiver:
    """Make a receiver."""
    return Receiver(queue.sub_queues[sub_queue], mode, clock)


async def receive_all(
    queue: ServedQueue, clock: ManualClock, *, sub_queue: SubQueue = SubQueue.MAIN
) -> list[tuple[bytes, int]]:
    """Lock everything that is free; return contents and delivery counts."""
    taker = receiver(queue, clock, sub_queue=sub_queue)
    found: list[tuple[bytes, int]] = []
    while messages := await taker.receive(100):
        found += [(message.content, message.delivery_count) for message in messages]
    return found
