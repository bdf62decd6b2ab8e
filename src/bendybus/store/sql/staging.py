"""Keeps staged messages, and what their writers decided, inside the lane's transaction.

A chunk is one row with one checksum over all of it. Dropping it and adding its messages to their
queue is one commit, which is why nothing is published twice: whoever comes again finds no chunk.
"""

import json
import logging
from collections.abc import Sequence
from typing import Any, Final

from bendybus.model.errors import ArgumentInvalid, QuotaExceeded
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.packed_messages import PackedRows
from bendybus.model.staging import (
    NO_BATCH,
    AbandonStages,
    Chunk,
    CompleteStage,
    Conclude,
    Decide,
    Decision,
    DropChunk,
    DropStage,
    ExpireStages,
    FoldedRows,
    ForgetStage,
    ForgetWriters,
    KeepChunk,
    OpenStage,
    StagedTally,
    Unfinished,
    WriterKey,
)
from bendybus.store.sql import chunks
from bendybus.store.sql.database import SqlDatabase
from bendybus.store.sql.packs import contents_of

# How many chunks of a deleted entity go in one turn: some megabytes.
REMOVED_CHUNKS_MAX: Final = 4

_log = logging.getLogger(__name__)


def open_stage(database: SqlDatabase, operation: OpenStage, now: Instant) -> int:
    """Note that a stage begins, unless its batch was published."""
    home, name = operation.writer
    database.offset(home)
    published, _ = _writer(database, operation.writer)
    if operation.batch <= published:
        return 0
    database.run("open_stage", (operation.stage, home, name, operation.batch, now))
    return 1


def keep_chunk(database: SqlDatabase, operation: KeepChunk, now: Instant) -> int:
    """Keep messages of a stage."""
    del now
    queue, messages = operation.queue, operation.messages
    database.offset(queue)
    size = messages.content_bytes
    staged = _value(database, "staged_bytes", (queue,))
    if staged + size > operation.bytes_max:
        raise QuotaExceeded(
            f"The fragment has {staged} bytes of staged messages that are not published, and may"
            f" have {operation.bytes_max}; {size} more came. Publish or abandon some first."
        )
    place = (queue, operation.stage, operation.ordinal, len(messages))
    database.run("keep_chunk", (*place, size, *chunks.written(place, messages)))
    return 0


def complete_stage(database: SqlDatabase, operation: CompleteStage, now: Instant) -> int:
    """Note that a stage has all its chunks."""
    del now
    fragments = json.dumps(list(operation.fragments))
    found = database.row("complete_stage", (operation.stage, operation.messages, fragments))
    return 0 if found is None else 1


def decide(database: SqlDatabase, operation: Decide, now: Instant) -> Decision:
    """Decide which stages are a batch, unless that was decided."""
    writer, batch, stages = operation.writer, operation.batch, operation.stages
    database.offset(writer.home)
    published, deciding = _writer(database, writer)
    if batch <= published:
        return Decision(published, (), 0, is_published=True)
    if deciding is not None:
        return _decision(database, writer, deciding)
    if stages:
        _decide_stages(database, operation)
    database.run("decide", (*writer, batch, now))
    return _decision(database, writer, batch)


def _decide_stages(database: SqlDatabase, operation: Decide) -> None:
    wanted = set(operation.stages)
    key = (*operation.writer, operation.batch, database.array(wanted))
    found = set(json.loads(_value(database, "complete_stages_of", key)))
    if found != wanted:
        missing = ", ".join(f"{stage:x}" for stage in sorted(wanted - found))
        raise ArgumentInvalid(
            f"Batch {operation.batch} of the writer '{operation.writer.name}' cannot be published:"
            f" these stages are not complete, were abandoned, or are older than a day: {missing}."
            " Stage their rows again."
        )
    database.run("decide_stages", (database.array(wanted),))


def conclude(database: SqlDatabase, operation: Conclude, now: Instant) -> int:
    """Note that a batch is published."""
    key = (*operation.writer, operation.batch)
    if database.row("conclude", (*key, now)) is None:
        return 0
    database.run("forget_decided", key)
    database.run("outdate_stages", key)
    return 1


def abandon_stages(database: SqlDatabase, operation: AbandonStages, now: Instant) -> int:
    """Make stages stale that are not decided."""
    del now
    if operation.stages:
        database.run("abandon_stages", (*operation.writer, database.array(operation.stages)))
    return 0


def expire_stages(database: SqlDatabase, operation: ExpireStages, now: Instant) -> int:
    """Make old stages stale; return how many."""
    del now
    database.run("expire_stages", (operation.opened_until, operation.count_max))
    return database.changed


def drop_chunk(database: SqlDatabase, operation: DropChunk, now: Instant) -> list[int]:
    """Forget a chunk; return its number if it is not here."""
    del now
    gone = database.row("drop_chunk", (operation.chunk,))
    return [operation.chunk] if gone is None else []


def drop_stage(database: SqlDatabase, operation: DropStage, now: Instant) -> int:
    """Forget some chunks of a stage; return how many."""
    del now
    database.run("drop_stage", (operation.queue, operation.stage, operation.count_max))
    return database.changed


def forget_stage(database: SqlDatabase, operation: ForgetStage, now: Instant) -> int:
    """Forget a stale stage."""
    del now
    database.run("forget_stage", (operation.stage,))
    return 0


def forget_writers(database: SqlDatabase, operation: ForgetWriters, now: Instant) -> int:
    """Forget old writers; return how many."""
    del now
    database.run("forget_writers", (operation.used_until, operation.count_max))
    return database.changed


def next_chunks(
    database: SqlDatabase, queue: QueueNumber, stages: Sequence[int], count_max: int
) -> list[Chunk]:
    """Return the first chunk that one of the stages has in the queue, by stage and ordinal.

    If it can be published as it is, those that follow and can be come with it.
    """
    database.offset(queue)
    found = (
        database.row("first_stage_with_chunks", (queue, database.array(stages))) if stages else None
    )
    if found is None:
        return []
    if database.keeps_packs and (folded := _folded(database, queue, found[0], count_max)):
        return folded
    row = database.row("next_chunk", (queue, found[0]))
    assert row is not None, "looked up above, in the same commit"
    number, stage, ordinal, count, *parts = row
    messages = chunks.read((queue, stage, ordinal, count), parts)
    if messages is None:
        _log.error("a chunk of staged messages is damaged: queue=%d chunk=%d", queue, number)
    elif isinstance(messages, PackedRows):
        messages = contents_of(messages)
    return [Chunk(number, stage, messages, count)]


def _folded(database: SqlDatabase, queue: QueueNumber, stage: int, count_max: int) -> list[Chunk]:
    """Return the first chunks of a stage, as long as they can be published as they are."""
    folded: list[Chunk] = []
    for number, ordinal, count, checksum, fields in json.loads(
        _value(database, "next_chunks", (queue, stage, count_max))
    ):
        said = chunks.said_of_columns((queue, stage, ordinal, count), checksum, fields)
        if said is None:
            break
        folded.append(Chunk(number, stage, FoldedRows(chunks.life_of(said)), count))
    return folded


def unfinished(database: SqlDatabase) -> list[Unfinished]:
    """Return the decisions that are not carried out."""
    found: list[Unfinished] = []
    for queue, name, batch in json.loads(_value(database, "unfinished", ())):
        writer = WriterKey(QueueNumber(queue), name)
        found.append(Unfinished(writer, _decision(database, writer, batch)))
    return found


def staged_tally(database: SqlDatabase) -> StagedTally:
    """Say how much is staged, and how many decisions are not carried out."""
    row = database.row("staged_tally")
    assert row is not None, "an aggregate always has one row"
    return StagedTally(*row)


def stale_stages(database: SqlDatabase, count_max: int) -> list[tuple[int, QueueNumber]]:
    """Return some stages that can be forgotten, and their homes."""
    found = json.loads(_value(database, "stale_stages", (count_max,)))
    return [(number, QueueNumber(queue)) for number, queue in found]


def remove_some(database: SqlDatabase, queue: int) -> bool:
    """Delete what is staged for a queue that goes, up to a bound; say whether there was any."""
    chunks: list[int] = json.loads(_value(database, "staged_of_queue", (queue, REMOVED_CHUNKS_MAX)))
    if chunks:
        database.run("remove_staged", (database.array(chunks),))
        return True
    database.run("remove_stages", (queue,))
    database.run("remove_writers", (queue,))
    return False


def _writer(database: SqlDatabase, writer: WriterKey) -> tuple[int, int | None]:
    """Return the batch that was published last, and the one that is being published."""
    found = database.row("writer_published", writer)
    return (NO_BATCH, None) if found is None else (found[0], found[1])


def _decision(database: SqlDatabase, writer: WriterKey, batch: int) -> Decision:
    found = database.row("decided_stages", (*writer, batch))
    assert found is not None, "an aggregate always has one row"
    fragments = {fragment for each in json.loads(found[2]) for fragment in each}
    return Decision(batch, json.loads(found[0]), found[1], sorted(fragments))


def _value(database: SqlDatabase, name: str, bindings: tuple[Any, ...]) -> Any:  # noqa: ANN401 - of any column
    found = database.row(name, bindings)
    assert found is not None, "an aggregate always has one row"
    return found[0]
