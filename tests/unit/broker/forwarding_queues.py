"""Queues that forward, and short verbs for tests of it."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from bendybus.broker.send import group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.ids import SubQueue
from bendybus.model.message import Message, StoredMessage
from bendybus.testing.local_broker import LocalBroker

DEADLINE_SECONDS = 20
POLL_SECONDS = 0.005
EVERYTHING = 1 << 40


def queue(name: str, to: str | None = None, **properties: Any) -> Queue:
    """Make a queue, which forwards if it is told where to."""
    return Queue(name, QueueProperties(forward_to=to, **properties))


def chain(names: str, *, is_partitioned: bool = False) -> list[Queue]:
    """Make queues that forward from one to the next."""
    return [
        queue(name, to, enable_partitioning=is_partitioned)
        for name, to in zip(names, [*names[1:], None], strict=True)
    ]


async def send_messages(broker: LocalBroker, name: str, messages: Iterable[Message]) -> None:
    """Send messages one after the other."""
    target = broker.queue(name)
    for message in messages:
        [fragment] = group_by_fragment(target, [message])
        await send(target, [message], fragment, broker.clock)


def numbered(count: int, *, keys: Sequence[str | None] = (None,), start: int = 0) -> list[Message]:
    """Make messages whose contents are numbers, with keys in turn."""
    return [
        Message(b"%d" % number, partition_key=keys[number % len(keys)])
        for number in range(start, start + count)
    ]


async def everything(
    served: ServedQueue, sub_queue: SubQueue = SubQueue.MAIN
) -> list[StoredMessage]:
    """Read all that a queue holds, fragment by fragment."""
    return [
        message
        for source in served.sub_queues[sub_queue].sources
        for message in await source.store.browse(
            source.number, from_sequence=0, count_max=100_000, bytes_max=EVERYTHING
        )
    ]


async def holding(
    broker: LocalBroker, name: str, count: int, *, sub_queue: SubQueue = SubQueue.MAIN
) -> list[StoredMessage]:
    """Wait until a queue holds so many messages, and return them."""
    found: list[StoredMessage] = []
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                found = await everything(broker.queue(name), sub_queue)
                if len(found) == count:
                    return found
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"'{name}' holds {len(found)} messages, not {count}") from None


def contents(messages: Iterable[StoredMessage]) -> list[bytes]:
    """Return the contents alone."""
    return [message.content for message in messages]
