"""How far a pipeline has come: rows, their rate, and what still waits."""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

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
from bendybus.pipelines.reading import Reading

_WAIT_SECONDS: Final = 0.5
# Spark tells its listeners of a batch some time after it is done.
_TOLD_SECONDS_MAX: Final = 10.0


class Progress:
    """What a pipeline says of its way while it runs. Whoever shows it is told of every change."""

    def __init__(self, spark: SparkSession, show: Callable[[Reading], None]) -> None:
        self._spark = spark
        self._show = show
        # Spark's listener speaks from a thread of its own.
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self._now = Reading("starting")

    @property
    def reading(self) -> Reading:
        """What was said last."""
        return self._now

    def stage(self, text: str) -> None:
        """Say what is being done from now on."""
        self._tell(stage=text)

    def rows(self, count: int) -> None:
        """Say that so many more rows are done."""
        with self._lock:
            rows = self._now.rows + count
        seconds = max(time.monotonic() - self._begun, 0.001)
        self._tell(rows=rows, rows_per_second=rows / seconds)

    def follow(self, query: StreamingQuery) -> None:
        """Show a stream's progress until it ends. Raises `PipelineFailed` if it fails.

        However this is left, the stream is stopped.
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
            listener.is_over.wait(_TOLD_SECONDS_MAX)
            self._spark.streams.removeListener(listener)

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
    """Return how many messages wait at all sources together; None if one does not say."""
    lags = [_lag(_object(each.endOffset), _object(each.latestOffset)) for each in sources]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None


def _lag(end: Mapping[str, Any] | None, latest: Mapping[str, Any] | None) -> int | None:
    """Return what the source says itself, or else the way between two offsets of fragments."""
    if latest is None:
        return None
    if isinstance(told := latest.get("lag"), dict):
        return sum(told.values())
    if end is None:
        return None
    fragments = [key for key in latest if key.isdigit()]
    return sum(max(0, latest[key] - end.get(key, 0)) for key in fragments)


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
