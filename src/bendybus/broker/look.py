"""look: go through a part of a queue, and say which of its messages an operator means.

Whoever does something to many messages goes through each fragment once, from a number to the last
that was there when they began. So what comes meanwhile is left alone, and asking for the same part
twice does no harm.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, NamedTuple

from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.content_reader import ContentReader
from bendybus.model.errors import ArgumentOutOfRange, StoreUnavailable
from bendybus.model.message import MessageState, StoredMessage
from bendybus.model.selection import Selection
from bendybus.store.port import QueueExtent

# What one look reads at most; the next follows.
LOOKED_AT_MAX: Final = 1000
LOOKED_AT_BYTES_MAX: Final = 2 * 1024 * 1024
# How many messages are judged before others get their turn.
_JUDGED_TOGETHER: Final = 100


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of one fragment, by sequence numbers, both included, and how many are wanted."""

    from_sequence: int
    until_sequence: int
    count_max: int


class Looked(NamedTuple):
    """What a look found: those that are meant, those of them that are locked, and how far it came.

    `next_sequence` is None at the end of the stretch.
    """

    chosen: list[StoredMessage]
    looked_at: int
    locked: int
    next_sequence: int | None


class Extent(NamedTuple):
    """How many messages a queue has in all, and of each fragment the last number given out."""

    messages: int
    # None where the store is away.
    last_sequences: list[int | None]


async def extent_of(sub_queue: ServedSubQueue) -> Extent:
    """Say how much there is to go through."""
    found = await asyncio.gather(*map(_extent, sub_queue.sources))
    messages = sum(each.messages for each in found if each is not None)
    return Extent(messages, [None if each is None else each.last_sequence for each in found])


async def _extent(source: Source) -> QueueExtent | None:
    try:
        return await source.store.extent(source.number)
    except StoreUnavailable:
        return None


def source_of(sub_queue: ServedSubQueue, stretch: Stretch) -> Source:
    """Return where a stretch is. Raises `StoreUnavailable` if its store is away."""
    source = sub_queue.source_of(max(stretch.from_sequence, 0))
    if source is None or source is not sub_queue.source_of(stretch.until_sequence):
        raise ArgumentOutOfRange("The sequence numbers must be of one fragment of the entity.")
    if not source.store.is_online:
        raise sub_queue.queue.unavailable(source)
    return source


async def look(
    source: Source, stretch: Stretch, selection: Selection, reader: ContentReader
) -> Looked:
    """Read the next messages of a stretch and choose among them."""
    found = await source.store.browse(
        source.number,
        from_sequence=stretch.from_sequence,
        # No more than can be within it: whoever names messages asks for many short stretches.
        count_max=min(LOOKED_AT_MAX, stretch.until_sequence - stretch.from_sequence + 1),
        bytes_max=LOOKED_AT_BYTES_MAX,
    )
    within = [each for each in found if each.sequence <= stretch.until_sequence]
    chosen: list[StoredMessage] = []
    locked = 0
    for at, stored in enumerate(within):
        if at % _JUDGED_TOGETHER == _JUDGED_TOGETHER - 1:
            await asyncio.sleep(0)
        if stored.state != selection.state or not selection.includes(stored, reader):
            continue
        if stored.locked_until is not None and stored.state != MessageState.SCHEDULED:
            locked += 1
            continue
        chosen.append(stored)
        if len(chosen) == stretch.count_max:
            return Looked(chosen, at + 1, locked, _after(stored, stretch))
    is_over = not found or len(within) < len(found)
    following = None if is_over else _after(within[-1], stretch)
    return Looked(chosen, len(within), locked, following)


def _after(stored: StoredMessage, stretch: Stretch) -> int | None:
    return stored.sequence + 1 if stored.sequence < stretch.until_sequence else None
