"""What the stores of a broker hold, whichever they are."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bendybus.broker.browse import browse
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock, SystemClock
from bendybus.broker.namespaces import Namespaces
from bendybus.content.rule_view import WireContentReader
from bendybus.model.ids import SubQueue
from bendybus.model.message import StoredMessage
from bendybus.store.postgres.connecting import connect
from bendybus.store.postgres.identity import read_identity
from bendybus.store.postgres.store import PostgresStore
from bendybus.testing.broker_process import BrokerProcess
from bendybus.testing.history_checker import Left
from bendybus.testing.local_broker import LocalBroker, local_broker


async def everything_in(broker: BrokerProcess, queue: str) -> list[Left]:
    """Return every message of a queue and of its dead-letter queue, of a broker that has ended."""
    async with opened(broker, SystemClock()) as local:
        return await left_in(local.catalog, queue)


@asynccontextmanager
async def opened(broker: BrokerProcess, clock: Clock) -> AsyncIterator[LocalBroker]:
    """Open the stores of a broker that has ended, wherever they are."""
    urls = broker.stores
    if not urls:
        async with local_broker(broker.folder / "data", [], clock) as local:
            yield local
        return

    def store(number: int, _path: Path) -> PostgresStore:
        return _store(number, urls[number])

    async with local_broker(broker.folder, [], clock, stores=len(urls), make_store=store) as local:
        yield local


@asynccontextmanager
async def catalog_of(stores: Sequence[str]) -> AsyncIterator[Catalog]:
    """Open stores by their URLs, as one more front end that only looks."""
    async with AsyncExitStack() as stack:
        opened = [_store(number, url) for number, url in enumerate(stores)]
        for store in opened:
            await store.start()
            stack.push_async_callback(store.close)
        namespaces = Namespaces(opened, WireContentReader())
        namespaces.add("sbemulatorns")
        await namespaces.load()
        yield namespaces.default


def _store(number: int, url: str) -> PostgresStore:
    with connect(url) as connection:
        identity = read_identity(connection)
    assert identity is not None, "no broker ever used it"
    return PostgresStore(number, url, identity=identity)


async def left_in(catalog: Catalog, queue: str) -> list[Left]:
    """Return every message of a queue and of its dead-letter queue."""
    found: list[Left] = []
    for place in (SubQueue.MAIN, SubQueue.DEAD_LETTER):
        following = 0
        sub_queue = catalog.queue(queue).sub_queues[place]
        while some := await browse(sub_queue, following, 250):
            found += map(_left, some)
            following = some[-1].sequence + 1
    return found


def _left(message: StoredMessage) -> Left:
    name = re.search(rb"<([\w-]+)>", message.content)
    assert name is not None
    return Left(name[1].decode(), message.enqueued_sequence or message.sequence)
