"""Front ends without a wire, several of them over the same stores, in one loop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from bendybus.assemble.stores import OpenedStore
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.finish_staged import Finisher
from bendybus.broker.following import found
from bendybus.broker.forward import Forwarder
from bendybus.broker.namespaces import Namespaces
from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.removal import Removal
from bendybus.broker.send import group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.sweep import Sweep
from bendybus.content.rule_view import WireContentReader
from bendybus.model.entity import Queue, QueueProperties, Topic
from bendybus.model.ids import SubQueue
from bendybus.model.message import Message, StoredMessage

STORES = 2
DEADLINE_SECONDS = 15.0
POLL_SECONDS = 0.01
LOCK_SECONDS = 30
LOCK = timedelta(seconds=LOCK_SECONDS)
ORDERS = Queue("orders", QueueProperties(lock_duration=LOCK))
PARTS = Queue("parts", QueueProperties(lock_duration=LOCK, enable_partitioning=True))

OpenStores = Callable[[], Sequence[OpenedStore]]


@dataclass(slots=True)
class FrontEnd:
    """One of several brokers over the same stores."""

    stores: Sequence[OpenedStore]
    namespaces: Namespaces
    clock: Clock
    sweep: Sweep
    removal: Removal
    forwarder: Forwarder
    running: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def catalog(self) -> Catalog:
        """The entities of its namespace."""
        return self.namespaces.default

    async def queue(self, name: str) -> ServedQueue:
        """Return a queue as a client finds it, also if it was made elsewhere a moment ago."""
        following = self.namespaces.records.following
        return await found(following, lambda: self.catalog.queue(name))

    def begin(self) -> None:
        """Do what a broker does by itself, until it ends."""
        work = [
            self.forwarder.run(),
            self.sweep.run(),
            Finisher(self.namespaces, self.clock).run(),
            self.namespaces.keep_agreeing(),
            self.namespaces.hints.run(),
        ]
        self.running += [asyncio.create_task(each) for each in work]

    async def die(self) -> None:
        """End without giving anything back; what it held stays locked."""
        for task in self.running:
            task.cancel()
        ends = await asyncio.gather(*self.running, return_exceptions=True)
        self.running.clear()
        for store in self.stores:
            await store.close()
        for end in ends:
            assert isinstance(end, asyncio.CancelledError), "what a broker does by itself goes on"

    async def send(self, name: str, *messages: Message) -> None:
        """Send messages one after the other."""
        queue = await self.queue(name)
        for message in messages:
            [fragment] = group_by_fragment(queue, [message])
            await send(queue, [message], fragment, self.clock)

    async def receiver(self, name: str, sub_queue: SubQueue = SubQueue.MAIN) -> Receiver:
        """Make a receiver."""
        queue = await self.queue(name)
        return Receiver(queue.sub_queues[sub_queue], ReceiveMode.PEEK_LOCK, self.clock)

    async def look_after(self) -> None:
        """Wait until this front end looks after every store."""
        await until(lambda: all(store.is_caretaker for store in self.stores))


@asynccontextmanager
async def front_end(
    open_stores: OpenStores, clock: Clock, entities: Sequence[Queue | Topic] = ()
) -> AsyncIterator[FrontEnd]:
    """Serve from the stores, with all that a broker does by itself."""
    stores = open_stores()
    await asyncio.gather(*(store.start() for store in stores))
    for store in stores:
        assert store.is_online, store.status().reason
    namespaces = Namespaces(stores, WireContentReader())
    namespaces.add("sbemulatorns")
    served = FrontEnd(
        stores,
        namespaces,
        clock,
        Sweep(namespaces.holdings, clock),
        Removal(namespaces, clock),
        Forwarder(namespaces, clock),
    )
    try:
        await namespaces.load()
        await served.catalog.declare(entities, now=clock.now())
        served.begin()
        yield served
    finally:
        await served.die()


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait until something holds. Raises `TimeoutError`."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            holds = condition()
            if holds if isinstance(holds, bool) else await holds:
                return
            await asyncio.sleep(POLL_SECONDS)


async def received(receiver: Receiver, count: int) -> list[StoredMessage]:
    """Receive so many messages, waiting for hints as a link does. Raises `TimeoutError`."""
    messages: list[StoredMessage] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(messages) < count:
            hint = receiver.waiting.join()
            taken = await receiver.receive(count - len(messages))
            messages += taken
            if taken:
                receiver.waiting.leave(hint)
            else:
                # Woken, it looks again; that is its turn, and nobody else's.
                await hint
    return messages


def numbered(count: int, **properties: Any) -> list[Message]:
    """Make messages whose contents are numbers."""
    return [Message(b"%d" % number, **properties) for number in range(count)]


def contents(messages: Sequence[StoredMessage]) -> list[bytes]:
    """Return what messages hold."""
    return [message.content for message in messages]
