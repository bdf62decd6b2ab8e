"""scan: read very many messages as columns, without touching them.

For bulk readers. What is read of a fragment is what was there when each piece was read; pieces are
bounded, so a reader of any entity takes the same memory.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import ArgumentOutOfRange, StoreUnavailable
from bendybus.model.ids import Instant, sequence_number
from bendybus.model.message import MessageState
from bendybus.model.scanned import Scanned
from bendybus.store.scan import Scan

# One piece. More at once saves little time, and two of each reader may be in memory.
SCANNED_MESSAGES_MAX: Final = 16_384
SCANNED_BYTES_MAX: Final = 6 * 1024 * 1024


class ScanStretch(NamedTuple):
    """A part of a fragment by sequence numbers, the last excluded; of a reservation, if it says."""

    fragment: int
    from_sequence: int
    until_sequence: int
    reservation: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages of the stretches are wanted, and whether with their contents."""

    has_contents: bool = True
    has_bodies: bool = True
    has_texts: bool = True
    states: tuple[MessageState, ...] | None = None
    enqueued_from: Instant | None = None
    enqueued_until: Instant | None = None
    session_ids: tuple[str, ...] | None = None
    partition_keys: tuple[str, ...] | None = None
    messages_max: int = SCANNED_MESSAGES_MAX
    bytes_max: int = SCANNED_BYTES_MAX

    def of(self, source: Source, stretch: ScanStretch) -> Scan:
        """Make the wish for a stretch."""
        return Scan(
            source.number,
            stretch.from_sequence,
            stretch.until_sequence,
            min(self.messages_max, SCANNED_MESSAGES_MAX),
            min(self.bytes_max, SCANNED_BYTES_MAX),
            has_contents=self.has_contents,
            has_bodies=self.has_bodies,
            has_texts=self.has_texts,
            states=self.states,
            reservation=stretch.reservation,
            enqueued_from=self.enqueued_from,
            enqueued_until=self.enqueued_until,
            session_ids=self.session_ids,
            partition_keys=self.partition_keys,
        )


def whole_fragment(fragment: int) -> ScanStretch:
    """Return all of a fragment, with what comes while it is read."""
    return ScanStretch(fragment, sequence_number(fragment, 0), sequence_number(fragment + 1, 0))


class Piece(NamedTuple):
    """What was read of a stretch at once; at least one message."""

    stretch: ScanStretch
    scanned: Scanned


async def scan(
    sub_queue: ServedSubQueue,
    stretches: Sequence[ScanStretch],
    wanted: Wanted,
    *,
    skipped: list[int] | None = None,
) -> AsyncIterator[Piece]:
    """Read stretches one after the other, each in order. The next piece is read in advance.

    A fragment whose store is away is noted in `skipped`, if there is such a list, and refused with
    `StoreUnavailable` otherwise.
    """
    pieces = _pieces(sub_queue, stretches, wanted, skipped)
    under_way = asyncio.create_task(_next(pieces))
    try:
        while (piece := await under_way) is not None:
            under_way = asyncio.create_task(_next(pieces))
            yield piece
    finally:
        under_way.cancel()


async def _next(pieces: AsyncIterator[Piece]) -> Piece | None:
    return await anext(pieces, None)


async def _pieces(
    sub_queue: ServedSubQueue,
    stretches: Sequence[ScanStretch],
    wanted: Wanted,
    skipped: list[int] | None,
) -> AsyncIterator[Piece]:
    for stretch in stretches:
        source = _source(sub_queue, stretch.fragment)
        following: int | None = stretch.from_sequence
        while following is not None:
            rest = stretch._replace(from_sequence=following)
            sub_queue.queue.note_use()
            try:
                scanned = await source.store.scan(wanted.of(source, rest))
            except StoreUnavailable:
                _skip(sub_queue, source, skipped)
                break
            if scanned.count:
                yield Piece(stretch, scanned)
            following = scanned.next_sequence


def _source(sub_queue: ServedSubQueue, fragment: int) -> Source:
    if not 0 <= fragment < len(sub_queue.sources):
        raise ArgumentOutOfRange(
            f"{sub_queue.queue.name} has no fragment {fragment};"
            f" it has {len(sub_queue.sources)}, counted from 0."
        )
    return sub_queue.sources[fragment]


def _skip(sub_queue: ServedSubQueue, source: Source, skipped: list[int] | None) -> None:
    """Note that a store is away. Raises `StoreUnavailable` if nobody keeps a list of these."""
    if skipped is None:
        raise sub_queue.queue.unavailable(source) from None
    if source.fragment not in skipped:
        skipped.append(source.fragment)
