"""publish staged: the stages of a batch become messages of their entity, each of them once (D9).

1. It is decided, at the writer's home, which stages are the batch. The first decision holds.
2. Chunk by chunk, messages are admitted as if they had been sent, and the chunk is dropped in the
   same commit. A chunk of columns becomes part of its queue as it is, many in one commit.
3. When no chunk is left, the batch is concluded at the home.

Cut off anywhere, it is done again from 1: the decision is found, chunks that are gone are not, and
a batch that was concluded is answered as such.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from bendybus.broker.admit import Admission, admit
from bendybus.broker.clock import Clock
from bendybus.broker.expiry import common_expiry
from bendybus.broker.send import check_open_for_send
from bendybus.broker.served_queue import ServedQueue, Source
from bendybus.broker.served_topic import ServedTopic
from bendybus.broker.stage import STAGE_BITS, Home, check_batch, home_of
from bendybus.broker.stages_under_way import StagesUnderWay
from bendybus.model.errors import (
    ArgumentInvalid,
    MessageLockLost,
    QuotaExceeded,
    StoreUnavailable,
)
from bendybus.model.message import Message
from bendybus.model.operations import Answer
from bendybus.model.staging import (
    Chunk,
    Conclude,
    Decide,
    Decision,
    DropChunk,
    FoldedRows,
    PublishChunk,
)

_HEXADECIMAL: Final = 16
# Chunks of columns that are published in one commit, each by a few rows.
_PUBLISHED_TOGETHER: Final = 16


class Published(NamedTuple):
    """What a publish did: how many messages the batch has, and whether it was there before.

    Damaged ones are lost: their bytes changed on disk between staging and publishing.
    """

    rows: int
    already: bool
    damaged_rows: int = 0


async def publish_staged(
    queue: ServedQueue,
    writer: str,
    batch: int,
    stages: Sequence[str],
    under_way: StagesUnderWay,
    clock: Clock,
) -> Published:
    """Publish a batch; all of it is durable and visible on return.

    Asked again, it is done once. If it fails half-way (a store is away, a fragment is full), what
    is decided stays decided: ask again, or the broker goes on by itself when it can.
    """
    check_open_for_send(queue)
    check_batch(batch)
    numbers = [stage_number(stage) for stage in stages]
    home = home_of(queue, writer)
    async with under_way.turn(queue.number, writer):
        try:
            return await _publish(queue, home, Decide(home.writer, batch, numbers), clock)
        finally:
            # Something is left half-way, or some stages are stale now.
            under_way.note(home.source.store)


async def _publish(queue: ServedQueue, home: Home, wish: Decide, clock: Clock) -> Published:
    while True:
        decision = await _decide(queue, home, wish, clock)
        if decision.is_published:
            return Published(0, already=True)
        damaged = await carry_out(queue, home, decision, clock)
        # An earlier batch of the writer may have been left half-way.
        if decision.batch >= wish.batch:
            return Published(decision.messages - damaged, already=False, damaged_rows=damaged)


def stage_number(stage: str) -> int:
    """Read what a writer names a stage by. Raises `ArgumentInvalid`."""
    try:
        number = int(stage, _HEXADECIMAL)
    except ValueError:
        number = -1
    if not 0 <= number < 1 << STAGE_BITS:
        raise ArgumentInvalid(f"'{stage[:100]}' is no stage; name what staging answered.")
    return number


async def carry_out(queue: ServedQueue, home: Home, decision: Decision, clock: Clock) -> int:
    """Publish all chunks of a decision, and conclude it; return how many messages were damaged."""
    fragments = [
        _publish_fragment(queue, queue.main.sources[fragment], decision.stages, clock)
        for fragment in decision.fragments
    ]
    # Whatever can be published is; the first of what cannot says why.
    damaged = 0
    for result in await asyncio.gather(*fragments, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        damaged += result
    conclusion = Conclude(home.writer, decision.batch)
    await home.source.store.apply([conclusion], now=clock.now())
    return damaged


async def _decide(queue: ServedQueue, home: Home, decide: Decide, clock: Clock) -> Decision:
    if not home.source.store.is_online:
        raise queue.unavailable(home.source)
    try:
        [decision] = await home.source.store.apply([decide], now=clock.now())
    except StoreUnavailable as error:
        raise queue.unavailable(home.source) from error
    assert isinstance(decision, Decision), "deciding is answered with what is decided"
    return decision


async def _publish_fragment(
    queue: ServedQueue, source: Source, stages: Sequence[int], clock: Clock
) -> int:
    """Publish the chunks of a fragment, in their order; return how many messages were damaged."""
    damaged = 0
    together = _PUBLISHED_TOGETHER
    try:
        while chunks := await source.store.next_chunks(source.number, stages, together):
            if isinstance(chunks[0].messages, FoldedRows):
                try:
                    await _publish_folded(queue, source, chunks, clock)
                except QuotaExceeded:
                    if len(chunks) == 1:
                        raise
                    # Not all have room; perhaps the first has.
                    together = 1
            else:
                damaged += await _publish_chunk(queue, source, chunks[0], clock)
            # Those before it have none.
            stages = stages[stages.index(chunks[0].stage) :]
    except StoreUnavailable as error:
        raise queue.unavailable(source) from error
    except QuotaExceeded as error:
        raise QuotaExceeded(
            f"The maximum size of the messaging entity '{queue.name}' has been reached in fragment"
            f" {source.fragment}. {error} The rest of the batch is published when there is room;"
            " ask again."
        ) from error
    return damaged


async def _publish_folded(
    queue: ServedQueue, source: Source, chunks: Sequence[Chunk], clock: Clock
) -> None:
    """Make chunks of columns part of their queue."""
    queue.note_use()
    now = clock.now()
    operations: list[PublishChunk] = []
    for chunk in chunks:
        assert isinstance(chunk.messages, FoldedRows)
        expires_at = common_expiry(queue, chunk.messages.time_to_live_ms, now)
        if expires_at is not None:
            source.timetable.note(expires_at)
        operations.append(
            PublishChunk(source.number, chunk.number, expires_at, queue.fragment_bytes_max)
        )
    try:
        await source.store.apply(operations, now=now, is_strict=True)
    except MessageLockLost:
        pass  # Somebody else has published one of them; who looks again sees which are left.
    finally:
        # Also if it is not known: whoever waits must look.
        queue.main.note_added(source, sum(chunk.message_count for chunk in chunks))


async def _publish_chunk(queue: ServedQueue, source: Source, chunk: Chunk, clock: Clock) -> int:
    packed = chunk.messages
    assert not isinstance(packed, FoldedRows), "those are published as they are"
    if packed is None:
        await source.store.apply([DropChunk(chunk.number)], now=clock.now())
        return chunk.message_count
    is_topic = isinstance(queue, ServedTopic)
    messages: Sequence[Message] = packed if packed.is_alike and not is_topic else list(packed)
    if isinstance(queue, ServedTopic):
        async with queue.evaluating:
            admission, applied = await _begin(queue, source, chunk, messages, clock)
    else:
        admission, applied = await _begin(queue, source, chunk, messages, clock)
    try:
        await applied
    except MessageLockLost:
        return 0  # Somebody else has published it.
    finally:
        # Also if it is not known: whoever waits must look.
        admission.tell()
    return 0


async def _begin(
    queue: ServedQueue, source: Source, chunk: Chunk, messages: Sequence[Message], clock: Clock
) -> tuple[Admission, "asyncio.Future[list[Answer]]"]:
    """Tell the store what to write; it is under way on return."""
    now = clock.now()
    admission = await admit(queue, source, messages, now)
    admission.announce()
    operations = [*admission.operations, DropChunk(chunk.number)]
    applied = source.store.apply(operations, now=now, is_strict=True)
    return admission, asyncio.ensure_future(applied)
