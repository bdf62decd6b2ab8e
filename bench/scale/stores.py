"""PostgreSQL stores of a benchmark, on servers of its own that sync like anybody's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bendybus.model.entity import Queue
from bendybus.model.ids import EntityNumber, Instant, QueueNumber, StoreNumber, SubQueue
from bendybus.model.operations import Append, Remove
from bendybus.store.identity import StoreIdentity
from bendybus.store.port import Acquire, EntityRecord, FragmentPlace
from bendybus.store.postgres.store import PostgresStore

ROOMY = 1 << 50
NOW = Instant(1_800_000_000_000)
LOCKED_UNTIL = Instant(NOW + 300_000)
ORDERS = EntityRecord(
    EntityNumber(1), Queue("orders"), 1, (FragmentPlace(StoreNumber(0), QueueNumber(1)),)
)
MAIN = ORDERS.places[0].queue(SubQueue.MAIN)


@asynccontextmanager
async def opened(url: str, *, is_first: bool = True) -> AsyncIterator[PostgresStore]:
    """A front end's store on a database, with one queue; the first to come makes it."""
    identity = StoreIdentity("bench", 0, 1, ("bench",), may_claim=is_first)
    store = PostgresStore(0, url, identity=identity)
    await store.start()
    try:
        if is_first:
            await store.put_entities([ORDERS])
        yield store
    finally:
        await store.close()


async def send(store: PostgresStore, append: Append) -> None:
    """One durable commit with all messages of the batch."""
    await store.apply([append], now=NOW)


async def receive(store: PostgresStore, count: int, nonce: int) -> int:
    """Lock the oldest messages, and complete them; how many there were."""
    wish = Acquire(MAIN, count, ROOMY, LOCKED_UNTIL, nonce)
    held = await store.acquire(wish, now=NOW)
    if held:
        await store.apply([Remove(MAIN, [message.lock for message in held])], now=NOW)
    return len(held)
