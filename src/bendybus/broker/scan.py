"""scan: read very many messages as columns, without touching them.

For bulk readers. What is read of a fragment is what was there when each piece was read; pieces are
bounded, so a reader of any entity takes the same memory.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bendybus.broker.clock import Clock
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import ArgumentOutOfRange, StoreUnavailable
from bendybus.model.ids import Instant, sequence_number
from bendybus.model.message import MessageState
from bendybus.model.scanned import Scanned
from bendybus.store.scan import Scan

# One piece. More at once saves little time, and two of each reader may be in memory.
SCANNED_MESSAGES_MAX: Final = 16_384
SCANNED_BYTES_MAX: Final = 6 * 1024 * 1024


class ReaderKey(NamedTuple):
    """A reader, and the token that it was given."""

    name: str
    token: str


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
    states: tuple[MessageState, ...] | None = None
    enqueued_from: Instant | None = None
    enqueued_until: Instant | None = None
    session_ids: tuple[str, ...] | None = None
    partition_keys: tuple[str, ...] | None = None
    messages_max: int = SCANNED_MESSAGES_MAX

    def of(self, source: Source, stretch: ScanStretch) -> Scan:
        """Make the wish for a stretch."""
        return Scan(
            source.number,
            stretch.from_sequence,
            stretch.until_sequence,
            min(self.messages_max, SCANNED_MESSAGES_MAX),
            SCANNED_BYTES_MAX,
            has_contents=self.has_contents,
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


async def scan(
    sub_queue: ServedSubQueue,
    stretches: Sequence[ScanStretch],
    wanted: Wanted,
    *,
    skipped: list[int] | None = None,
) -> AsyncIterator[Scanned]:
    """Read stretches one after the other, in pieces of one fragment, each in order.

    A fragment whose store is away is noted in `skipped`, if there is such a list, and refused with
    `StoreUnavailable` otherwise. The next piece is read while the last is looked at.
    """
    for stretch in stretches:
        source = _source(sub_queue, stretch.fragment)
        try:
            async for piece in _pieces(source, stretch, wanted):
                yield piece
        except StoreUnavailable:
            _skip(sub_queue, source, skipped)


class Positions(NamedTuple):
    """What a reader has reserved in a fragment: behind one position, up to another."""

    fragment: int
    after: int
    until: int


async def scan_reserved(
    sub_queue: ServedSubQueue,
    reader: ReaderKey,
    positions: Sequence[Positions],
    wanted: Wanted,
    clock: Clock,
    *,
    skipped: list[int] | None = None,
) -> AsyncIterator[Scanned]:
    """Read what a reader has reserved, a piece for each reservation; see `scan`.

    Raises `ReaderLost`. What `wanted` says of messages does not count: all of them are shown.
    """
    for each in positions:
        source = _source(sub_queue, each.fragment)
        try:
            found = await source.store.reservations(
                source.number,
                reader.name,
                reader.token,
                after=each.after,
                until=each.until,
                now=clock.now(),
            )
        except StoreUnavailable:
            _skip(sub_queue, source, skipped)
            continue
        whole = whole_fragment(each.fragment)
        stretches = [whole._replace(reservation=reservation.number) for reservation in found]
        async for piece in scan(sub_queue, stretches, wanted, skipped=skipped):
            yield piece


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


async def _pieces(source: Source, stretch: ScanStretch, wanted: Wanted) -> AsyncIterator[Scanned]:
    under_way: Awaitable[Scanned] | None = source.store.scan(wanted.of(source, stretch))
    try:
        while under_way is not None:
            piece, under_way = await under_way, None
            if piece.next_sequence is not None:
                following = stretch._replace(from_sequence=piece.next_sequence)
                under_way = source.store.scan(wanted.of(source, following))
            if piece.count:
                yield piece
    finally:
        if isinstance(under_way, asyncio.Future):
            under_way.cancel()
