"""close reader: whoever used it has stopped, and another may open it at once."""

import asyncio

from bendybus.broker.clock import Clock
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import ReaderLost, StoreFailed, StoreUnavailable
from bendybus.model.operations import CloseReader


async def close_reader(sub_queue: ServedSubQueue, reader: str, token: str, clock: Clock) -> None:
    """Note that a reader is in use no longer. What it has reserved stays reserved.

    Where its store is away, or somebody else has it by now, nothing is done.
    """
    sub_queue.queue.check_there()
    await asyncio.gather(*(_close_in(each, reader, token, clock) for each in sub_queue.sources))


async def _close_in(source: Source, reader: str, token: str, clock: Clock) -> None:
    try:
        await source.store.apply([CloseReader(source.number, reader, token)], now=clock.now())
    except (ReaderLost, StoreUnavailable, StoreFailed):
        return
