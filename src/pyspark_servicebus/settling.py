"""Committing what a query has done at once, instead of with its next batch.

The source itself commits a batch when Spark asks it for the next one. That is soon enough for a
stream that polls. A query with a long trigger, or one that ends, can do so at once.
"""

import logging
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from bendybus.model.addresses import parse_address
from pyspark_servicebus.offsets import ConsumedOffset, read_any_consumed
from pyspark_servicebus.option_names import Given
from pyspark_servicebus.options import Bus, bus_of

_log: Final = logging.getLogger(__name__)


def commit(options: Mapping[str, str], end_offset: str) -> None:
    """Complete what a query that consumes has done: all up to `sources[…].endOffset`.

    Call it only with the end offset of a batch that is done. Asked twice, it is done once.
    """
    offset = read_any_consumed(end_offset)
    if offset is not None:
        _commit(bus_of(Given(options)), offset)


def settle(spark: SparkSession, options: Mapping[str, str] | None = None) -> StreamingQueryListener:
    """Commit every batch of every query that consumes, of this session, as soon as it is done.

    `options` say where the broker is, as the source's options do. Returns the listener, which
    `spark.streams.removeListener` takes.
    """
    listener = SettlingListener(bus_of(Given(options or {})))
    spark.streams.addListener(listener)
    return listener


class SettlingListener(StreamingQueryListener):
    """Commits what Spark reports as done. A failure is logged: the source commits later anyway."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is done yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Commit what the batch has read."""
        for source in event.progress.sources:
            try:
                offset = read_any_consumed(source.endOffset or "null")
                if offset is not None:
                    _commit(self._bus, offset)
            except Exception as error:  # noqa: BLE001 - a listener must not end the session
                _log.warning("not committed at once: %s", error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing new is done."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """What was done was reported before."""


def _commit(bus: Bus, offset: ConsumedOffset) -> None:
    assert offset.token is not None
    from bendybus.client.bulk_places import place_of
    from pyspark_servicebus.connecting import connected

    place = place_of(parse_address(offset.entity))
    with connected(bus) as client:
        client.commit(place, offset.reader, offset.token, offset.positions)
