"""What Spark does with a stream's source, without Spark: so that it can be cut off anywhere.

The order of the calls is that of Spark's MicroBatchExecution: the end of a batch is in the
checkpoint before it is read, and the batch is in it as done before the next end is asked for.
"""

import json
import pickle
from dataclasses import dataclass, field
from enum import Enum, auto

from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from pyspark_servicebus import DefaultSource

SCHEMA = StructType([StructField("body", BinaryType()), StructField("sequence_number", LongType())])


class Cut(Enum):
    """Where the driver dies."""

    BEFORE_LOG = auto()
    BEFORE_READ = auto()
    BEFORE_DONE = auto()
    AFTER_DONE = auto()


class DriverDied(Exception):
    """The driver was cut off, as a test wished."""


@dataclass
class Checkpoint:
    """What Spark keeps on disk: ends of batches, how many of them are done, and what they wrote."""

    ends: list[str] = field(default_factory=list)
    done: int = 0
    table: list[int] = field(default_factory=list)


class Driver:
    """One run of a query; a checkpoint lives longer."""

    def __init__(
        self, options: dict[str, str], checkpoint: Checkpoint, *, is_oldest_spark: bool = False
    ) -> None:
        self.reader = DefaultSource(options).streamReader(SCHEMA)
        self.checkpoint = checkpoint
        self.is_oldest_spark = is_oldest_spark
        if checkpoint.ends:
            last = json.loads(checkpoint.ends[-1])
            self.reader.partitions(last, last)

    def run(self, *, cut: Cut | None = None, at_batch: int = 0, batches: int | None = None) -> None:
        """Run batches until there is nothing new, or until the driver dies in a batch."""
        checkpoint = self.checkpoint
        while batches is None or checkpoint.done < batches:
            batch = checkpoint.done
            dies = cut if batch == at_batch else None
            if len(checkpoint.ends) == batch and not self._log_next(batch, dies):
                return
            _die_if(dies is Cut.BEFORE_READ)
            rows = self._read(self._start(batch), json.loads(checkpoint.ends[batch]))
            _die_if(dies is Cut.BEFORE_DONE)
            checkpoint.table += rows
            checkpoint.done += 1
            _die_if(dies is Cut.AFTER_DONE)

    def stop(self) -> None:
        """End in order."""
        self.reader.stop()

    def _log_next(self, batch: int, dies: Cut | None) -> bool:
        start = self._start(batch)
        end = (
            self.reader.latestOffset()  # type: ignore[call-arg]  # Spark 4.1 says nothing
            if self.is_oldest_spark
            else self.reader.latestOffset(start, None)  # type: ignore[arg-type]  # it does not look
        )
        _die_if(dies is Cut.BEFORE_LOG)
        # The first batch is logged whatever it holds.
        if batch and json.dumps(end) == json.dumps(start):
            return False
        self.checkpoint.ends.append(json.dumps(end))
        if batch:
            self.reader.commit(json.loads(self.checkpoint.ends[batch - 1]))
        return True

    def _start(self, batch: int) -> dict[str, object]:
        if not batch:
            return json.loads(json.dumps(self.reader.initialOffset()))  # type: ignore[no-any-return]  # JSON
        return json.loads(self.checkpoint.ends[batch - 1])  # type: ignore[no-any-return]  # JSON

    def _read(self, start: dict[str, object], end: dict[str, object]) -> list[int]:
        """Let workers read: each gets the reader and its share as pickles."""
        rows: list[int] = []
        for partition in self.reader.partitions(start, end):
            reader, share = pickle.loads(pickle.dumps((self.reader, partition)))  # noqa: S301 - our own
            for batch in reader.read(share):
                rows += [int(body) for body in batch.column("body").to_pylist()]
        return rows


def _die_if(is_time: bool) -> None:
    if is_time:
        raise DriverDied
