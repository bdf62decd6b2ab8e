"""Reading: the messages that a ticket names, batch after batch, as fast as the client takes them.

Of one stream, few batches are in memory: one on its way, one being made, and one being read.
"""

import json
from collections.abc import AsyncGenerator, Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from bendybus.broker.clock import Clock
from bendybus.broker.scan import (
    SCANNED_BYTES_MAX,
    SCANNED_MESSAGES_MAX,
    ScanStretch,
    Wanted,
    scan,
    whole_fragment,
)
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.columns.arrow_types import arrow_schema
from bendybus.columns.decoding import needs_contents, needs_texts, record_batch
from bendybus.columns.joining import can_join, joined, kept_bytes
from bendybus.flight.calls import Call
from bendybus.flight.filtering import Sieve, sieve
from bendybus.flight.hop import LONG_SECONDS_MAX
from bendybus.flight.service import Service
from bendybus.flight.ticket import Reserved, Ticket
from bendybus.model.actions import Action
from bendybus.model.errors import ServerBusy, StoreUnavailable
from bendybus.model.ids import fragment_of
from bendybus.model.message import MessageState
from bendybus.model.scanned import Scanned
from bendybus.model.stretches import Positions

# So many streams read as much at a time as is fastest; those that come later less.
ROOMY_STREAMS: Final = 8
CROWDED_BYTES_MAX: Final = 1024 * 1024


class Part(NamedTuple):
    """A stretch to read, and of a reader's, the position that it is of."""

    stretch: ScanStretch
    position: int | None = None


class Piece(NamedTuple):
    """What was read of a part."""

    scanned: Scanned
    position: int | None


class Reading:
    """What a ticket comes to. Made by `open_reading`."""

    def __init__(
        self, sub_queue: ServedSubQueue, ticket: Ticket, clock: Clock, *, is_crowded: bool
    ) -> None:
        self.sub_queue = sub_queue
        self.ticket = ticket
        self.skipped: list[int] = []
        self._clock = clock
        self._bytes_max = CROWDED_BYTES_MAX if is_crowded else SCANNED_BYTES_MAX
        self.sieve: Sieve = sieve(ticket.filters, is_partitioned=sub_queue.queue.is_partitioned)
        self.columns = self.sieve.columns(ticket.columns)

    async def pieces(self, parts: list[Part]) -> AsyncGenerator[Piece, None]:
        """Read parts one after the other."""
        wanted = Wanted(
            has_contents=needs_contents(self.columns),
            has_bodies="body" in self.columns,
            has_texts=needs_texts(self.columns),
            states=self._states(),
            enqueued_from=self.sieve.enqueued_from,
            enqueued_until=self.sieve.enqueued_until,
            session_ids=self.sieve.session_ids,
            partition_keys=self.sieve.partition_keys,
            messages_max=self.ticket.batch_rows,
            bytes_max=self._bytes_max,
        )
        skipped = self.skipped if self.ticket.skips_offline else None
        positions = {part.stretch: part.position for part in parts}
        together: list[Scanned] = []
        fragment, position = 0, None
        async for piece in scan(self.sub_queue, list(positions), wanted, skipped=skipped):
            if together and not (
                piece.stretch.fragment == fragment and self._go_together(together, piece.scanned)
            ):
                yield Piece(joined(together), position)
                together = []
            together.append(piece.scanned)
            fragment, position = piece.stretch.fragment, positions[piece.stretch]
        if together:
            yield Piece(joined(together), position)

    def _go_together(self, before: list[Scanned], scanned: Scanned) -> bool:
        """Say whether another piece of the fragment can be part of the same batch.

        Each reservation is read by itself, and one that is a pack is a quarter of a batch.
        """
        count_max = min(self.ticket.batch_rows, SCANNED_MESSAGES_MAX)
        size = sum(map(kept_bytes, before)) + kept_bytes(scanned)
        return (
            can_join(before[0], scanned)
            and sum(each.count for each in before) + scanned.count <= count_max
            and size <= self._bytes_max
        )

    def _states(self) -> tuple[MessageState, ...] | None:
        states = self.ticket.states
        if states is None:
            return None
        return tuple(each for each in MessageState if each.name.lower() in states)

    async def parts(self) -> list[Part]:
        """Find where everything is. Raises `ReaderLost`, and `StoreUnavailable` of a reader's."""
        ticket = self.ticket
        if ticket.reserved is not None:
            return await self._reserved_parts(ticket.reserved)
        if ticket.ranges is None:
            stretches = [whole_fragment(each.fragment) for each in self.sub_queue.sources]
        else:
            stretches = [
                ScanStretch(each.fragment, each.first, each.until) for each in ticket.ranges
            ]
        self.sub_queue.sources_at([each.fragment for each in stretches])
        bounds = self.sieve.sequences
        return [
            Part(
                each._replace(
                    from_sequence=max(each.from_sequence, bounds.first),
                    until_sequence=min(each.until_sequence, bounds.until),
                )
            )
            for each in stretches
        ]

    async def check_still_held(self) -> None:
        """Refuse what was read if it was given back meanwhile, so that some of it is missing.

        Raises `ReaderLost`.
        """
        if self.ticket.reserved is not None:
            await self._reserved_parts(self.ticket.reserved)

    async def _reserved_parts(self, reserved: Reserved) -> list[Part]:
        return [part for each in reserved.positions for part in await self._held(reserved, each)]

    async def _held(self, reserved: Reserved, positions: Positions) -> list[Part]:
        [source] = self.sub_queue.sources_at([positions.fragment])
        try:
            if not source.store.is_online:
                raise self.sub_queue.queue.unavailable(source)
            held = await source.store.reservations(
                source.number,
                reserved.reader,
                reserved.token,
                after=positions.after,
                until=positions.until,
                now=self._clock.now(),
            )
        except StoreUnavailable:
            if not self.ticket.skips_offline:
                raise
            self.skipped.append(positions.fragment)
            return []
        whole = whole_fragment(positions.fragment)
        first = max(whole.from_sequence, positions.first)
        return [
            Part(whole._replace(from_sequence=first, reservation=each.number), each.position)
            for each in held
        ]


async def open_reading(
    service: Service, call: Call, ticket: Ticket
) -> tuple[Reading, AsyncGenerator[Piece, None]]:
    """Find what a ticket names, for who may read it."""
    action = Action.READ_MESSAGES if ticket.reserved is None else Action.RESERVE_MESSAGES
    sub_queue = await service.desk.readable(call, ticket.address, action)
    is_crowded = service.calls.streams > ROOMY_STREAMS
    reading = Reading(sub_queue, ticket, service.clock, is_crowded=is_crowded)
    return reading, reading.pieces(await reading.parts())


def stream(
    reading: Reading, pieces: AsyncGenerator[Piece, None], call: Call, service: Service
) -> Iterator[tuple[pa.RecordBatch, bytes]]:
    """Yield the batches.

    Each tells where reading goes on behind it, so that who is cut off need not begin again. The
    last one has no rows; it tells what was skipped, and that nothing is missing.
    """
    calls, hop = service.calls, service.hop
    wanted = reading.ticket.columns
    is_partitioned = reading.sub_queue.queue.is_partitioned
    try:
        # Long, because filters may leave out all of very many messages.
        while (piece := hop.run(_next(pieces), LONG_SECONDS_MAX)) is not None:
            made = record_batch(piece.scanned, reading.columns, is_partitioned=is_partitioned)
            batch = reading.sieve.sifted(made, wanted)
            if not batch.num_rows:
                continue
            calls.note_out(batch.num_rows, batch.nbytes)
            call.await_client()
            yield batch, _told(reading, _reached(piece))
            call.go_on()
            if calls.is_closed:
                raise ServerBusy("The broker is stopping.")
    finally:
        hop.start(_end(pieces))
    hop.run(reading.check_still_held())
    nothing = pa.RecordBatch.from_pylist([], schema=arrow_schema(wanted))
    yield nothing, _told(reading, {}, is_end=True)


async def _next(pieces: AsyncGenerator[Piece, None]) -> Piece | None:
    return await anext(pieces, None)


async def _end(pieces: AsyncGenerator[Piece, None]) -> None:
    await pieces.aclose()


def _reached(piece: Piece) -> dict[str, int]:
    """Say where reading goes on."""
    last = piece.scanned.sequences[-1]
    reached = {"fragment": fragment_of(last), "next": last + 1}
    return reached if piece.position is None else {**reached, "position": piece.position}


def _told(reading: Reading, reached: dict[str, int], *, is_end: bool = False) -> bytes:
    told = {**reached, "skipped": sorted(set(reading.skipped)), "is_end": is_end}
    return json.dumps(told).encode()
