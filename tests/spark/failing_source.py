"""The source with writers that fail at the worst moments, once each."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pyspark_servicebus import DefaultSource

Messages = list[WriterCommitMessage | None]


def register(spark: SparkSession) -> None:
    """Let Spark know the source; workers get its code with it, as they cannot import tests."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # it has no types
    spark.dataSource.register(FailingSource)


def fail_first_attempt() -> None:
    """Fail a task that is tried for the first time."""
    task = TaskContext.get()
    assert task is not None
    if task.attemptNumber() == 0:
        raise RuntimeError("failed after all was staged")


def fail_once(mark: str) -> None:
    """Fail unless it was done before."""
    if not Path(mark).exists():
        Path(mark).touch()
        raise RuntimeError("failed after all was published")


class FailingWriter(DataSourceArrowWriter):
    """Fails once in every task, after its rows were staged; and after its commit."""

    def __init__(self, writer: DataSourceArrowWriter, mark: str) -> None:
        self.writer = writer
        self.mark = mark

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        message = self.writer.write(iterator)
        fail_first_attempt()
        return message

    def commit(self, messages: Messages) -> None:
        self.writer.commit(messages)
        fail_once(self.mark)

    def abort(self, messages: Messages) -> None:
        self.writer.abort(messages)


class FailingStreamWriter(DataSourceStreamArrowWriter):
    """The same for a stream."""

    def __init__(self, writer: DataSourceStreamArrowWriter, mark: str) -> None:
        self.writer = writer
        self.mark = mark

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        message = self.writer.write(iterator)
        fail_first_attempt()
        return message

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        self.writer.commit(messages, batchId)
        fail_once(f"{self.mark}-{batchId}")

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        self.writer.abort(messages, batchId)


class FailingSource(DefaultSource):
    """The source with writers that fail; the option authority names their mark."""

    @classmethod
    def name(cls) -> str:
        return "failingbus"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        options = dict(self.options)
        mark = options.pop("authority")
        writer = DefaultSource(options).writer(schema, overwrite)
        assert isinstance(writer, DataSourceArrowWriter)
        return FailingWriter(writer, mark)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        options = dict(self.options)
        mark = options.pop("authority")
        writer = DefaultSource(options).streamWriter(schema, overwrite)
        assert isinstance(writer, DataSourceStreamArrowWriter)
        return FailingStreamWriter(writer, mark)
