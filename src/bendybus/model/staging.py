"""What a store is told, and tells, of messages that are staged: brought, and not yet visible.

A *writer* brings the messages of a *batch* in *stages*, one for each try of each of its tasks, and
then says which stages are the batch. A stage lies in *chunks* in the fragments that its messages
are for. The writer's *home* is the main queue of one fragment, chosen by its name: there stands
which stages there are, which batch was published last, and which is being published (D9).

    opened ── complete ──► complete ── decide ──► decided ── conclude ──► gone
      └───────── abandoned, or of a batch that was published ──► stale ──► forgotten
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.packed_messages import PackedMessages, PackedRows

# The batch of a writer that has published none.
NO_BATCH = -1


class WriterKey(NamedTuple):
    """Names a writer: its home, and its name, which is its own within an entity."""

    home: QueueNumber
    name: str


class Decision(NamedTuple):
    """Which stages are the batch of a writer; it holds until the batch is published."""

    batch: int
    stages: Sequence[int]
    messages: int
    # Those that have chunks of it.
    fragments: Sequence[int] = ()
    # Whether there is nothing to decide, because that batch was published before.
    is_published: bool = False


class Unfinished(NamedTuple):
    """A decision that is not carried out yet, and whose it is."""

    writer: WriterKey
    decision: Decision


class StagedTally(NamedTuple):
    """How many bytes are staged in a store, and how many batches wait at their homes there."""

    bytes: int
    unfinished: int


class FoldedRows(NamedTuple):
    """What is said of messages that can stay as they are when they are published."""

    time_to_live_ms: int | None


class Chunk(NamedTuple):
    """Messages of one stage for one fragment, and the number by which they are dropped.

    None in place of the messages: their bytes changed on disk, and so many are lost.
    """

    number: int
    stage: int
    messages: PackedMessages | FoldedRows | None
    message_count: int


@dataclass(slots=True)
class OpenStage:
    """Note that a stage begins. Answered with 1, or 0 if its batch was published before."""

    writer: WriterKey
    batch: int
    stage: int


@dataclass(slots=True)
class KeepChunk:
    """Keep messages of a stage, which come behind those with a lower ordinal. Answered with 0.

    Refused with `QuotaExceeded` when more than `bytes_max` would be staged for the queue.
    """

    queue: QueueNumber
    stage: int
    ordinal: int
    messages: PackedMessages | PackedRows
    bytes_max: int


@dataclass(slots=True)
class CompleteStage:
    """Note that all of a stage is here, in these fragments.

    Answered with 1, or 0 if it is stale or not known.
    """

    stage: int
    messages: int
    fragments: Sequence[int]


@dataclass(slots=True)
class Decide:
    """Decide which stages are a batch. Answered with the `Decision` that holds from now on.

    That is another one if there is one already: the first counts. Refused with `ArgumentInvalid`
    if a stage is not complete, or not of the batch.
    """

    writer: WriterKey
    batch: int
    stages: Sequence[int]


@dataclass(slots=True)
class Conclude:
    """Note that a batch is published. Its other stages, and those of earlier ones, are stale."""

    writer: WriterKey
    batch: int


@dataclass(slots=True)
class AbandonStages:
    """Make stages of a writer stale that are not decided."""

    writer: WriterKey
    stages: Sequence[int]


@dataclass(slots=True)
class ExpireStages:
    """Make stages stale that began until an instant, up to so many. Answered with how many."""

    opened_until: Instant
    count_max: int


@dataclass(slots=True)
class DropChunk:
    """Forget a chunk. Answered with its number if it is not here."""

    chunk: int


@dataclass(slots=True)
class PublishChunk:
    """Make the messages of a chunk, which are `FoldedRows`, part of their queue, at its end.

    Answered with the chunk's number if it is not here. Refused with `QuotaExceeded` as an `Append`.
    """

    queue: QueueNumber
    chunk: int
    expires_at: Instant | None
    bytes_max: int


@dataclass(slots=True)
class DropStage:
    """Forget chunks of a stage in a queue, up to so many. Answered with how many there were."""

    queue: QueueNumber
    stage: int
    count_max: int


@dataclass(slots=True)
class ForgetStage:
    """Forget a stale stage that has no chunks any more."""

    stage: int


@dataclass(slots=True)
class ForgetWriters:
    """Forget writers that published nothing since an instant, up to so many.

    Answered with how many.
    """

    used_until: Instant
    count_max: int


StagingOperation = (
    OpenStage
    | KeepChunk
    | CompleteStage
    | Decide
    | Conclude
    | AbandonStages
    | ExpireStages
    | DropChunk
    | PublishChunk
    | DropStage
    | ForgetStage
    | ForgetWriters
)
