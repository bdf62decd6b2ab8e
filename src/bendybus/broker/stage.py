"""stage: a writer brings messages in bulk, which nobody sees until they are published.

They lie in the stores of the fragments that they are for, in chunks. All of a stage is on disk when
it is complete; a stage that is cut off is forgotten.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from bendybus.broker.clock import Clock
from bendybus.broker.send import check_open_for_send
from bendybus.broker.served_queue import ServedQueue, Source
from bendybus.broker.stages_under_way import StagesUnderWay
from bendybus.model.errors import (
    ArgumentInvalid,
    BusError,
    QuotaExceeded,
    StoreUnavailable,
)
from bendybus.model.ids import FragmentIndex, QueueNumber
from bendybus.model.limits import ENTITY_NAME_LENGTH_MAX
from bendybus.model.packed_messages import PackedMessages, PackedRows, joined
from bendybus.model.partitioning import fragment_for
from bendybus.model.staging import (
    AbandonStages,
    CompleteStage,
    DropStage,
    KeepChunk,
    OpenStage,
    WriterKey,
)

# Messages by their fragment; without one, any may have them.
Packed = tuple[int | None, PackedMessages | PackedRows]
# One commit with a chunk, or one that makes rows of it, must not hold up those of clients.
CHUNK_MESSAGES_MAX: Final = 4000
CHUNK_BYTES_MAX: Final = 1024 * 1024
# Chunks of a stage that are on their way to the disk.
WAITING_BYTES_MAX: Final = 4 * CHUNK_BYTES_MAX
# Chunks that are dropped in one commit.
DROPPED_TOGETHER: Final = 4
STAGE_BITS: Final = 62
_BATCH_MAX: Final = 2**62

_log = logging.getLogger(__name__)


class StageLabel(NamedTuple):
    """Whose stage it is, of which batch, and which try of which of its tasks."""

    writer: str
    batch: int
    task: int = 0
    attempt: int = 0


class StageReceipt(NamedTuple):
    """What a writer names when it publishes, and what is in it."""

    stage: str
    rows: int
    bytes: int


class Home(NamedTuple):
    """Where it stands what a writer has done."""

    source: Source
    writer: WriterKey


def home_of(queue: ServedQueue, writer: str) -> Home:
    """Return the home of a writer. Raises `ArgumentInvalid` if that can be no writer's name."""
    if not 0 < len(writer) <= ENTITY_NAME_LENGTH_MAX or not writer.isprintable():
        raise ArgumentInvalid(
            f"A writer has a name of 1 to {ENTITY_NAME_LENGTH_MAX} printable characters, not"
            f" {writer[:ENTITY_NAME_LENGTH_MAX]!r}."
        )
    source = queue.main.sources[fragment_for(writer, len(queue.main.sources))]
    return Home(source, WriterKey(QueueNumber(source.number), writer))


def check_batch(batch: int) -> None:
    """Refuse what can be no batch's number."""
    if not 0 <= batch <= _BATCH_MAX:
        raise ArgumentInvalid(f"A batch has a number from 0 to {_BATCH_MAX}, not {batch}.")


async def open_stage(
    queue: ServedQueue, label: StageLabel, under_way: StagesUnderWay, clock: Clock
) -> "StageUnderWay":
    """Begin a stage. If its batch was published before, what it gets is counted and not kept."""
    check_open_for_send(queue)
    check_batch(label.batch)
    queue.note_use()
    home = home_of(queue, label.writer)
    number = secrets.randbits(STAGE_BITS)
    under_way.open.add(number)
    try:
        opening = OpenStage(home.writer, label.batch, number)
        [is_opened] = await home.source.store.apply([opening], now=clock.now())
    except BaseException as error:
        under_way.open.discard(number)
        if isinstance(error, StoreUnavailable):
            raise queue.unavailable(home.source) from error
        raise
    _log.debug("stage %x: %s of '%s'", number, label, queue.name)
    return StageUnderWay(queue, home, number, under_way, clock, is_published=not is_opened)


class _Gathered:
    """Messages for one fragment that are not enough for a chunk."""

    __slots__ = ("bytes", "count", "parts")

    def __init__(self) -> None:
        self.parts: list[PackedMessages] = []
        self.count = 0
        self.bytes = 0

    def add(self, messages: PackedMessages) -> None:
        self.parts.append(messages)
        self.count += len(messages)
        self.bytes += len(messages.contents)

    @property
    def is_enough(self) -> bool:
        return self.count >= CHUNK_MESSAGES_MAX or self.bytes >= CHUNK_BYTES_MAX


class StageUnderWay:
    """A stage that is being brought. Ends with `complete` or `cancel`."""

    def __init__(
        self,
        queue: ServedQueue,
        home: Home,
        number: int,
        under_way: StagesUnderWay,
        clock: Clock,
        *,
        is_published: bool,
    ) -> None:
        self.is_published = is_published
        self._queue = queue
        self._home = home
        self._number = number
        self._under_way = under_way
        self._clock = clock
        self._rows = 0
        self._bytes = 0
        self._is_over = False
        self._ordinal = 0
        self._fragments: set[int] = set()
        self._gathered: dict[int | None, _Gathered] = {}
        self._waiting: dict[asyncio.Task[None], int] = {}

    async def add(self, groups: Iterable[Packed]) -> None:
        """Take messages by their fragment. Those that are columns are chunks as they are.

        Returns when there is room for more. Those of a fragment keep their order.
        """
        assert not self._is_over, "nothing is added to a stage that has ended"
        self._queue.note_use()
        for fragment, messages in groups:
            self._rows += len(messages)
            self._bytes += messages.content_bytes
            if self.is_published:
                continue
            if isinstance(messages, PackedRows):
                if fragment in self._gathered:
                    self._cut(fragment, is_last=True)
                self._start_to_keep(fragment, messages)
                continue
            gathered = self._gathered.setdefault(fragment, _Gathered())
            gathered.add(messages)
            if gathered.is_enough:
                self._cut(fragment, is_last=False)
        await self._wait_until(WAITING_BYTES_MAX)

    async def complete(self) -> StageReceipt:
        """Keep the rest; durable on return."""
        self._is_over = True
        if not self.is_published:
            for fragment in list(self._gathered):
                self._cut(fragment, is_last=True)
            await self._wait_until(0)
            completion = CompleteStage(self._number, self._rows, sorted(self._fragments))
            store = self._home.source.store
            [is_complete] = await store.apply([completion], now=self._clock.now())
            if not is_complete:
                # Its batch was published meanwhile, by another try.
                await self._drop()
                self._under_way.note(store)
        self._under_way.open.discard(self._number)
        return StageReceipt(f"{self._number:x}", self._rows, self._bytes)

    async def cancel(self) -> None:
        """Give the stage up."""
        self._is_over = True
        self._gathered.clear()
        await asyncio.gather(*self._waiting, return_exceptions=True)
        store = self._home.source.store
        if not self.is_published:
            abandon = AbandonStages(self._home.writer, [self._number])
            # Where that cannot be written, it is found to be old some day.
            with suppress(BusError):
                await store.apply([abandon], now=self._clock.now())
        self._under_way.open.discard(self._number)
        self._under_way.note(store)

    async def _drop(self) -> None:
        """Drop what was kept, if others may have dropped the stage before all of it was there."""
        for fragment in self._fragments:
            source = self._queue.main.sources[FragmentIndex(fragment)]
            if source.store.is_shared:
                drop = DropStage(source.number, self._number, DROPPED_TOGETHER)
                count = DROPPED_TOGETHER
                # What stays goes with its entity.
                with suppress(BusError):
                    while count == DROPPED_TOGETHER:
                        [answer] = await source.store.apply([drop], now=self._clock.now())
                        assert isinstance(answer, int)
                        count = answer

    def _cut(self, fragment: int | None, *, is_last: bool) -> None:
        """Start to keep what is enough for a chunk; at last, all."""
        gathered = self._gathered.pop(fragment)
        whole = joined(gathered.parts)
        chunks = list(whole.pieces(count_max=CHUNK_MESSAGES_MAX, bytes_max=CHUNK_BYTES_MAX))
        rest = _Gathered()
        rest.add(chunks[-1])
        if not is_last and not rest.is_enough:
            self._gathered[fragment] = rest
            chunks.pop()
        for chunk in chunks:
            self._start_to_keep(fragment, chunk)

    def _start_to_keep(self, fragment: int | None, chunk: PackedMessages | PackedRows) -> None:
        keeping = asyncio.create_task(self._keep(fragment, chunk, self._ordinal))
        self._waiting[keeping] = chunk.content_bytes
        self._ordinal += 1

    async def _wait_until(self, bytes_left: int) -> None:
        """Wait until only so much is on its way. Raises what kept a chunk from the disk."""
        while self._waiting and (not bytes_left or sum(self._waiting.values()) > bytes_left):
            done, _ = await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                del self._waiting[each]
            # All are asked, so that none is thought to have been forgotten.
            for failure in [each.exception() for each in done]:
                if failure is not None:
                    raise failure

    async def _keep(
        self, fragment: int | None, chunk: PackedMessages | PackedRows, ordinal: int
    ) -> None:
        """Keep a chunk in its fragment, or, like a send without a key, in the next that can."""
        if fragment is not None:
            source = self._queue.main.sources[FragmentIndex(fragment)]
            await self._keep_at(source, chunk, ordinal)
            return
        refusal: StoreUnavailable | QuotaExceeded | None = None
        for source in self._queue.rotation():
            try:
                await self._keep_at(source, chunk, ordinal)
            except (StoreUnavailable, QuotaExceeded) as error:
                refusal = error
            else:
                return
        assert refusal is not None, "a queue has at least one fragment"
        raise refusal

    async def _keep_at(
        self, source: Source, chunk: PackedMessages | PackedRows, ordinal: int
    ) -> None:
        queue = self._queue
        if not source.store.is_online:
            raise queue.unavailable(source)
        keep = KeepChunk(source.number, self._number, ordinal, chunk, queue.fragment_bytes_max)
        try:
            await source.store.apply([keep], now=self._clock.now())
        except StoreUnavailable as error:
            raise queue.unavailable(source) from error
        except QuotaExceeded as error:
            raise QuotaExceeded(
                f"'{queue.name}' cannot stage more in fragment {source.fragment}. {error}"
            ) from error
        self._fragments.add(source.fragment)
