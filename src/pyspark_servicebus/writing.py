"""Writing rows as messages, each exactly once.

1. A task stages its rows: they are durable in the broker, and nobody sees them. A task that is run
   again stages again; only the stages that Spark commits are ever published.
2. The driver publishes the stages of a batch, once per writer and number of the batch. A batch that
   was published is not published again, whatever Spark repeats after a crash.

A stream's writer is its query, whose id is in the checkpoint. A batch write has a transaction of
the user's, which makes the job repeatable, or one of its own, which makes the tasks so.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_places import place_of
from bendybus.client.bulk_values import StageLabel
from pyspark_servicebus.connecting import connected
from pyspark_servicebus.message_columns import check_write
from pyspark_servicebus.options import Writing
from pyspark_servicebus.rejects import KeptRows, RejectFolder

# Names that Spark gives tasks of a stream; not part of its interface, so their absence is noticed.
QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"
ONLY_BATCH: Final = 0


class StreamUnknown(RuntimeError):
    """Spark does not say which query and batch a task is of; nothing was written."""


class WriteInvalid(ValueError):
    """What is asked of the sink cannot be; nothing was written."""


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What one task left in the broker. A task without rows left nothing."""

    writer: str
    batch: int
    stage: str | None = None
    rejected: str | None = None


class RowWriter:
    """Stages in tasks, publishes on the driver."""

    def __init__(self, writing: Writing, schema: StructType) -> None:
        self._writing = writing
        self._place = place_of(writing.address)
        self._columns = check_write(schema)
        self._rejects = None if writing.reject_path is None else RejectFolder(writing.reject_path)

    def stage(self, batches: Iterator[pa.RecordBatch], writer: str, batch: int) -> Staged:
        """Stage the rows of one task."""
        task = TaskContext.get()
        assert task is not None
        first = next(batches, None)
        if first is None:
            return Staged(writer, batch)
        rows = chain([first], batches)
        label = StageLabel(writer, batch, task.partitionId(), task.taskAttemptId())
        with KeptRows(is_wanted=self._rejects is not None) as kept, self._connected() as client:
            if task.attemptNumber() > 0:
                # Rows can be sent only once in a task, and Spark tries again without a pause: wait
                # here for a broker that restarts.
                client.describe(self._place)
            answer = client.stage(
                self._place,
                first.select(self._columns).schema,
                (each.select(self._columns) for each in kept.noting(rows)),
                label,
                on_bad_row="fail" if self._rejects is None else "reject",
            )
            rejected = None
            if self._rejects is not None and answer.rejected:
                rejected = self._rejects.stage(kept.rejected(answer.rejected))
        return Staged(writer, batch, answer.stage, rejected)

    def publish(self, messages: Sequence[Staged]) -> None:
        """Publish what the tasks staged; rows that could not be are in their folder before."""
        stages = [message.stage for message in messages if message.stage is not None]
        if not messages or not (stages or any(message.rejected for message in messages)):
            return
        writer, batch = messages[0].writer, messages[0].batch
        if self._rejects is not None:
            self._rejects.place(
                [each.rejected for each in messages if each.rejected], writer, batch
            )
        with self._connected() as client:
            client.publish(self._place, writer, batch, stages)

    def abandon(self, messages: Sequence[Staged]) -> None:
        """Forget what tasks staged for a batch that failed; a published batch stays."""
        if self._rejects is not None:
            self._rejects.drop([each.rejected for each in messages if each.rejected])
        stages = [message.stage for message in messages if message.stage is not None]
        if stages:
            with self._connected() as client:
                client.abandon(self._place, messages[0].writer, messages[0].batch, stages)

    def check_session(self) -> None:
        """Refuse rows without a session for an entity that needs one, before any task runs."""
        with self._connected() as client:
            requires_session = client.describe(self._place).requires_session
        if requires_session and "session_id" not in self._columns:
            raise WriteInvalid(
                f"'{self._writing.address.resource}' requires sessions, and the rows have no column"
                " session_id"
            )

    def _connected(self) -> BulkClient:
        return connected(self._writing.bus)


class BatchWriter(DataSourceArrowWriter):
    """Writes a frame once."""

    def __init__(self, writing: Writing, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise WriteInvalid("messages cannot be overwritten; use .mode('append')")
        self._rows = RowWriter(writing, schema)
        self._rows.check_session()
        transaction = writing.transaction
        self._writer = f"write/{uuid4()}" if transaction is None else f"transaction/{transaction}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        return self._rows.stage(iterator, self._writer, ONLY_BATCH)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what the tasks staged."""
        self._rows.publish(_staged(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Forget what the tasks staged."""
        self._rows.abandon(_staged(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes every batch of a stream once."""

    def __init__(self, writing: Writing, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise WriteInvalid("messages cannot be overwritten; use outputMode append or update")
        self._rows = RowWriter(writing, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task of one batch."""
        query, batch = _query_and_batch()
        return self._rows.stage(iterator, f"query/{query}", batch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish the batch, unless it was."""
        staged = _staged(messages)
        assert all(each.batch == batchId for each in staged)
        self._rows.publish(staged)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Forget what was staged, unless it is published: Spark also aborts what it committed."""
        del batchId
        self._rows.abandon(_staged(messages))


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """Return what tasks left; those that failed left nothing."""
    return [message for message in messages if isinstance(message, Staged)]


def _query_and_batch() -> tuple[str, int]:
    task = TaskContext.get()
    query = None if task is None else task.getLocalProperty(QUERY_PROPERTY)
    batch = None if task is None else task.getLocalProperty(BATCH_PROPERTY)
    if not query or batch is None or re.fullmatch(r"\d+", batch) is None:
        raise StreamUnknown(
            f"this Spark does not tell its tasks {QUERY_PROPERTY} and {BATCH_PROPERTY}, without"
            " which a batch could be written twice; write from foreachBatch with the option"
            " transactionId"
        )
    return query, int(batch)
