"""give back: what a reader has reserved is free again, and the reader is forgotten."""

import asyncio
from typing import NamedTuple

from bendybus.broker.clock import Clock
from bendybus.broker.open_reader import new_token
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import ReaderLost
from bendybus.model.operations import GiveBack, Operation, Reserved
from bendybus.model.reader import FRAGMENTS_AT_ONCE


class GivenBack(NamedTuple):
    """How many messages are free again."""

    messages: int
    # Fragments whose store is away: there it goes on.
    skipped: list[int]


async def give_back(
    sub_queue: ServedSubQueue,
    reader: str,
    token: str | None,
    clock: Clock,
    *,
    skips_offline: bool = False,
) -> GivenBack:
    """Free all that a reader has reserved, uncounted and at its old place, and forget the reader.

    With None for the token it is taken from whoever has it. Cut off, it can be done again by
    whoever needs no token. Raises `ReaderLost` if there is no such reader.
    """
    sub_queue.queue.check_there()
    sources, skipped = sub_queue.reachable(skips_offline=skips_offline)
    sub_queue.queue.note_use()
    held = [source for source in sources if await _is_held(source, reader, token)]
    if not held:
        raise ReaderLost.unknown(reader)
    next_token = new_token()
    at_once = asyncio.Semaphore(FRAGMENTS_AT_ONCE)

    async def give_back_in(source: Source) -> int:
        async with at_once:
            return await _give_back_in(sub_queue, source, reader, (token, next_token), clock)

    freed = await asyncio.gather(*map(give_back_in, held))
    return GivenBack(sum(freed), skipped)


async def _is_held(source: Source, reader: str, token: str | None) -> bool:
    """Say whether a fragment knows the reader. Raises `ReaderLost` if it is another's."""
    for record in await source.store.readers([source.number]):
        if record.name == reader:
            if token is not None and record.token != token:
                raise ReaderLost.taken_over(reader)
            return True
    return False


async def _give_back_in(
    sub_queue: ServedSubQueue,
    source: Source,
    reader: str,
    tokens: tuple[str | None, str],
    clock: Clock,
) -> int:
    """Free one reservation after the other, so that others get their turn between them."""
    token, next_token = tokens
    freed = 0
    while True:
        now = clock.now()
        operation: Operation = GiveBack(source.number, reader, token, next_token)
        [answer] = await source.store.apply([operation], now=now)
        assert isinstance(answer, Reserved), "as the operation is answered"
        if not answer.messages:
            return freed
        token = next_token
        freed += answer.messages
        # Their time to live may have ended meanwhile.
        source.timetable.note(now)
        sub_queue.note_added(source, answer.messages)
