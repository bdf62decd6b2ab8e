"""commit reserved: a reader is done with messages, and they are deleted."""

import asyncio
from collections.abc import Mapping

from bendybus.broker.clock import Clock
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.operations import CommitReserved, Operation
from bendybus.model.reader import FRAGMENTS_AT_ONCE


async def commit_reserved(
    sub_queue: ServedSubQueue, reader: str, token: str, until: Mapping[int, int], clock: Clock
) -> None:
    """Delete what a reader has reserved up to a position of each fragment named.

    Done twice it does no harm. With a store away the others are committed all the same, and then
    `StoreUnavailable` is raised. Raises `ReaderLost`.
    """
    sub_queue.queue.check_there()
    sources = sub_queue.sources_at(until)
    sub_queue.queue.note_use()
    at_once = asyncio.Semaphore(FRAGMENTS_AT_ONCE)

    async def commit(source: Source) -> None:
        async with at_once:
            await _commit_in(source, reader, token, until[source.fragment], clock)

    done = await asyncio.gather(*map(commit, sources), return_exceptions=True)
    for error in done:
        if error is not None:
            raise error


async def _commit_in(source: Source, reader: str, token: str, until: int, clock: Clock) -> None:
    """Delete one reservation after the other, so that others get their turn between them."""
    committed = -1
    while committed < until:
        operation: Operation = CommitReserved(source.number, reader, token, until)
        [answer] = await source.store.apply([operation], now=clock.now())
        assert isinstance(answer, int), "as the operation is answered"
        committed = answer
