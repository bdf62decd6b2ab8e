"""How far a pipeline has come: rows, their rate, and what still waits."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    SourceProgress,
    StreamingQueryProgress,
)

from bendybus.pipelines.failure import PipelineFailed, reason_of
from bendybus.pipelines.interruption import Interruption
from bendybus.pipelines.reading import Reading

_WAIT_SECONDS: Final = 1
_LOOK_SECONDS: Final = 0.5
# Spark tells its listeners of a batch some time after it is done.
_TOLD_SECONDS_MAX: Final = 10.0


class Progress:
    """What a pipeline says of its way while it runs. Whoever shows it is told of every change."""

    def __init__(
        self,
        spark: SparkSession,
        show: Callable[[Reading], None],
        interruption: Interruption | None = None,
    ) -> None:
        self._spark = spark
        self._show = show
        self._interruption = interruption
        # Spark's listener speaks from a thread of its own.
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self._now = Reading("starting")

    @property
    def reading(self) -> Reading:
        """What was said last."""
        return self._now

    def stage(self, text: str) -> None:
        """Say what is being done from now on. Raises `KeyboardInterrupt` if it is to end."""
        self._tell(stage=text)
        self._check()

    def rows(self, count: int) -> None:
        """Say that so many more rows are done. Raises `KeyboardInterrupt` if it is to end."""
        with self._lock:
            rows = self._now.rows + count
        seconds = max(time.monotonic() - self._begun, 0.001)
        self._tell(rows=rows, rows_per_second=rows / seconds)
        self._check()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While the block runs, tell how many tasks of what Spark has in hand are done."""
        is_over = threading.Event()

        def watch() -> None:
            # A Spark that went away meanwhile is told of by whoever waits for its work.
            with suppress(Py4JError, OSError):
                while not is_over.wait(_LOOK_SECONDS):
                    self._tell_of_tasks()

        thread = threading.Thread(target=watch, name="watch-tasks", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _tell_of_tasks(self) -> None:
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        tasks = sum(stage.numTasks for stage in stages if stage is not None)
        if (done, tasks) != (self._now.tasks_done, self._now.tasks):
            self._tell(tasks_done=done, tasks=tasks)

    def follow(self, query: StreamingQuery) -> None:
        """Show a stream's progress until it ends.

        However this is left, the stream is stopped. Raises `PipelineFailed` if it fails, and
        `KeyboardInterrupt` if somebody wants the pipeline to end.
        """
        listener = _Listener(str(query.runId), self._tell_of_batch)
        self._spark.streams.addListener(listener)
        try:
            while not query.awaitTermination(_WAIT_SECONDS):
                pass
        except PySparkException as error:
            raise PipelineFailed(reason_of(error)) from error
        finally:
            query.stop()
            if self._interruption is None or not self._interruption.is_asked:
                listener.is_over.wait(_TOLD_SECONDS_MAX)
            self._spark.streams.removeListener(listener)
        self._check()

    def _check(self) -> None:
        if self._interruption is not None:
            self._interruption.check()

    def _tell_of_batch(self, batch: StreamingQueryProgress) -> None:
        with self._lock:
            rows = self._now.rows + batch.numInputRows
        self._tell(
            rows=rows,
            rows_per_second=batch.processedRowsPerSecond,
            lag=lag_of(batch.sources),
            batch=batch.batchId,
        )

    def _tell(self, **changes: Any) -> None:  # noqa: ANN401 - fields of a reading
        with self._lock:
            self._now = replace(self._now, **changes)
            self._show(self._now)


def lag_of(sources: Sequence[SourceProgress]) -> int | None:
    """Return how many messages wait at all sources together; None if one does not say.

    Spark 4.1 asks no source: its latest offset is the end of the batch.
    """
    lags = [_lag(_object(each.latestOffset)) for each in sources]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None


def _lag(latest: Mapping[str, Any] | None) -> int | None:
    told = None if latest is None else latest.get("lag")
    return sum(map(int, told.values())) if isinstance(told, dict) else None


def _object(text: str | None) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


class _Listener(StreamingQueryListener):
    """Hears of every batch that one run of a stream has done."""

    def __init__(self, run: str, tell: Callable[[StreamingQueryProgress], None]) -> None:
        self._run = run
        self._tell = tell
        self.is_over = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Say nothing: it has done nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Hand on what a batch did."""
        if str(event.progress.runId) == self._run:
            self._tell(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Say nothing: nothing new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Note that nothing more is to be heard."""
        if str(event.runId) == self._run:
            self.is_over.set()
