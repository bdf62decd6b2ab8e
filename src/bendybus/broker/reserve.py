"""reserve: keep the next free messages of all fragments for a reader.

What is reserved is on disk before it is answered, and stays until the reader commits it or gives it
back. So whoever asks again, because an answer was lost or a process died, is given the same again.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from bendybus.broker.clock import Clock
from bendybus.broker.open_reader import open_late
from bendybus.broker.readers import unreserved
from bendybus.broker.receive import check_has_messages, check_status_for_receive
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import ArgumentOutOfRange, ReaderLost, StoreFailed, StoreUnavailable
from bendybus.model.ids import Instant
from bendybus.model.operations import Operation, Reserve, ReserveChosen, Reserved
from bendybus.model.reader import (
    FRAGMENTS_AT_ONCE,
    RESERVATION_BYTES_MAX,
    RESERVATION_COUNT_MAX,
    shares,
)

WITHOUT_BOUND: Final = 1 << 62
# What one call reserves at most; the next goes on.
RESERVED_AT_ONCE_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveWish:
    """How much to reserve for which reader, behind which position of each fragment.

    A fragment that has no position begins at 0. `before` ends it at a sequence number, which is not
    among those that are reserved.
    """

    reader: str
    token: str
    after: Mapping[int, int] = field(default_factory=dict)
    messages_max: int = WITHOUT_BOUND
    bytes_max: int = WITHOUT_BOUND
    before: Mapping[int, int] = field(default_factory=dict)
    skips_offline: bool = False


class ReservedPart(NamedTuple):
    """What is reserved behind the positions that were named: up to which ones, and how much.

    `lag` is how many messages each fragment has that nobody has reserved.
    """

    end: dict[int, int]
    messages: int
    bytes: int
    lag: dict[int, int]
    # Fragments whose store is away.
    skipped: list[int]


async def reserve(sub_queue: ServedSubQueue, wish: ReserveWish, clock: Clock) -> ReservedPart:
    """Return what the reader has behind its positions already, and reserve more up to the bounds.

    At least one message of a fragment is given, if there is any, however low the bounds; and what
    was reserved together is given together. Raises `ReaderLost`.
    """
    check_has_messages(sub_queue.queue)
    check_status_for_receive(sub_queue)
    if wish.messages_max < 1 or wish.bytes_max < 1:
        raise ArgumentOutOfRange("At least one message and one byte must be asked for.")
    sub_queue.sources_at({*wish.after, *wish.before})
    sources, skipped = sub_queue.reachable(skips_offline=wish.skips_offline)
    sub_queue.queue.note_use()
    after: dict[int, int] = {
        source.fragment: wish.after.get(source.fragment, 0) for source in sub_queue.sources
    }
    under_way = _Round(wish, clock, after, sources)
    await under_way.fill()
    lag = await _lag([source for source in sources if source.fragment not in under_way.failed])
    return ReservedPart(
        under_way.end,
        under_way.messages,
        under_way.bytes,
        lag,
        sorted({*skipped, *under_way.failed}),
    )


class _Left(Enum):
    """What a fragment may have after it was asked."""

    NOTHING = auto()
    MORE = auto()
    # Messages that are kept as one, and are more than was wanted.
    UNCUT = auto()


class _Round:
    """Asks the fragments in turns, each for an equal part of what is left to reserve."""

    def __init__(
        self, wish: ReserveWish, clock: Clock, after: Mapping[int, int], sources: Sequence[Source]
    ) -> None:
        self.end = dict(after)
        self.messages_left = min(wish.messages_max, RESERVED_AT_ONCE_MAX)
        self.bytes_left = wish.bytes_max
        self.messages = self.bytes = 0
        self.failed: set[int] = set()
        self._wish = wish
        self._clock = clock
        self._sources = sources
        # Where there is less to give than there are fragments, another begins each time.
        start = sum(after.values()) % len(sources)
        # Those that may have more.
        self.eager = [*sources[start:], *sources[:start]]
        # Those that have more than their part, kept as one: to cut it takes much longer than to
        # reserve all of it.
        self._uncut: list[Source] = []
        self._opened_late: set[int] = set()
        self._at_once = asyncio.Semaphore(FRAGMENTS_AT_ONCE)

    @property
    def is_more_wanted(self) -> bool:
        """Whether the bounds are not reached."""
        return min(self.messages_left, self.bytes_left) > 0

    async def fill(self) -> None:
        """Reserve up to the bounds, or all that there is."""
        while self.eager and self.is_more_wanted:
            messages, share = self.messages, self.messages_left // len(self.eager)
            await self._ask()
            if self.eager or not self._uncut:
                continue
            # Others had less than their part; of what is left these may have more.
            more = self.messages_left // len(self._uncut)
            if more >= RESERVATION_COUNT_MAX and (self.messages > messages or more > share):
                self.eager, self._uncut = self._uncut, []
        await self._ask_for_parts()

    async def _ask(self) -> None:
        """Let every fragment that may have more reserve its part, as far as nothing is cut."""
        asked = self.eager
        counts, sizes = shares(self.messages_left, len(asked)), shares(self.bytes_left, len(asked))
        answers = await asyncio.gather(
            *map(self._fill, asked, counts, sizes), return_exceptions=True
        )
        self.eager = []
        for source, answer in zip(asked, answers, strict=True):
            if isinstance(answer, BaseException):
                await self._deal_with(source, answer)
            elif answer is _Left.MORE:
                self.eager.append(source)
            elif answer is _Left.UNCUT:
                self._uncut.append(source)

    async def _ask_for_parts(self) -> None:
        """Reserve what is wanted yet of messages that are kept as one: whole, then one cut."""
        for is_whole in (True, False):
            for source in self._uncut:
                if not self.is_more_wanted:
                    return
                count = min(self.messages_left, RESERVATION_COUNT_MAX)
                try:
                    await self._fill_now(source, count, self.bytes_left, is_whole=is_whole)
                except (ReaderLost, StoreFailed, StoreUnavailable) as error:
                    await self._deal_with(source, error)

    async def _fill(self, source: Source, count: int, size: int) -> _Left:
        async with self._at_once:
            return await self._fill_now(source, count, size, is_whole=True)

    async def _fill_now(self, source: Source, count: int, size: int, *, is_whole: bool) -> _Left:
        """Reserve up to so many messages of a fragment; say whether there may be more."""
        wish, fragment = self._wish, source.fragment
        is_first = True
        while count > 0 and size > 0:
            operation: Operation = Reserve(
                source.number,
                wish.reader,
                wish.token,
                self.end[fragment],
                count,
                size,
                wish.before.get(fragment),
                is_whole,
            )
            [made] = await source.store.apply([operation], now=self._clock.now())
            assert isinstance(made, Reserved), "as the operation is answered"
            if not made.messages:
                return _Left.UNCUT if made.bytes else _Left.NOTHING
            if made.messages > count and not is_first:
                # It was reserved before, together, and does not fit any more.
                return _Left.NOTHING
            is_first = False
            self.end[fragment] = made.position
            count -= made.messages
            size -= made.bytes
            self.messages += made.messages
            self.bytes += made.bytes
            self.messages_left -= made.messages
            self.bytes_left -= made.bytes
        return _Left.MORE

    async def _deal_with(self, source: Source, error: BaseException) -> None:
        """Let the others go on if that was asked for, and open what was away until now."""
        fragment = source.fragment
        if isinstance(error, (StoreUnavailable, StoreFailed)) and self._wish.skips_offline:
            self.failed.add(fragment)
            return
        if not isinstance(error, ReaderLost) or fragment in self._opened_late:
            raise error
        self._opened_late.add(fragment)
        opened_at = await self._opened_elsewhere(source)
        if opened_at is None:
            raise error
        await open_late(source, self._wish.reader, self._wish.token, opened_at, self._clock)
        self.eager.append(source)

    async def _opened_elsewhere(self, source: Source) -> Instant | None:
        """Return when the reader was opened under this token in another fragment."""
        for other in self._sources:
            if other is not source and other.store.is_online:
                for record in await other.store.readers([other.number]):
                    if (record.name, record.token) == (self._wish.reader, self._wish.token):
                        return record.opened_at
        return None


async def _lag(sources: Sequence[Source]) -> dict[int, int]:
    """Count what is not reserved, as far as stores answer."""
    tallies = await asyncio.gather(
        *(source.store.tallies([source.number]) for source in sources), return_exceptions=True
    )
    return {
        source.fragment: unreserved(tally.get(source.number))
        for source, tally in zip(sources, tallies, strict=True)
        if not isinstance(tally, BaseException)
    }


async def reserve_chosen(
    sub_queue: ServedSubQueue,
    reader: str,
    token: str,
    sequences: Mapping[int, Sequence[int]],
    clock: Clock,
) -> ReservedPart:
    """Reserve those of the messages, named by fragment and sequence number, that are free.

    Those that somebody has, also in another reservation, are left out.
    """
    check_has_messages(sub_queue.queue)
    check_status_for_receive(sub_queue)
    sources = sub_queue.sources_at(sequences)
    sub_queue.queue.note_use()
    for source in sources:
        if not source.store.is_online:
            raise sub_queue.queue.unavailable(source)
    made = await asyncio.gather(
        *(_choose(each, reader, token, sequences[each.fragment], clock) for each in sources)
    )
    return ReservedPart(
        {source.fragment: each.position for source, each in zip(sources, made, strict=True)},
        sum(each.messages for each in made),
        sum(each.bytes for each in made),
        await _lag(sources),
        [],
    )


async def _choose(
    source: Source, reader: str, token: str, sequences: Sequence[int], clock: Clock
) -> Reserved:
    """Reserve messages of one fragment, in as many reservations as it takes."""
    messages = size = position = 0
    for start in range(0, max(len(sequences), 1), RESERVATION_COUNT_MAX):
        together = sequences[start : start + RESERVATION_COUNT_MAX]
        while True:
            operation: Operation = ReserveChosen(
                source.number, reader, token, together, RESERVATION_BYTES_MAX
            )
            [made] = await source.store.apply([operation], now=clock.now())
            assert isinstance(made, Reserved), "as the operation is answered"
            position = made.position
            if not made.messages:
                break
            messages += made.messages
            size += made.bytes
    return Reserved(position, messages, size)
