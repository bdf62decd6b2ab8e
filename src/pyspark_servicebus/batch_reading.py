"""A batch read: what an entity holds when it is planned, read without changing anything."""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from bendybus.client.bulk_places import place_of
from pyspark_servicebus.connecting import connected, ranges_of
from pyspark_servicebus.described_fragments import check_known, check_online, edges, extents
from pyspark_servicebus.message_columns import check_read, shaped
from pyspark_servicebus.option_names import OptionInvalid
from pyspark_servicebus.options import Edge, Reading
from pyspark_servicebus.planning import fragments_named, pack, stretches
from pyspark_servicebus.pushing import Comparison, comparison_of
from pyspark_servicebus.slice import Slice
from pyspark_servicebus.worker_memory import keep_memory

_log: Final = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    """Plans ranges of sequence numbers on the driver; any task reads any of them."""

    def __init__(self, reading: Reading, schema: StructType) -> None:
        if reading.start is Edge.LATEST:
            raise OptionInvalid("option startingOffsets=latest would read nothing; remove it")
        if reading.end is Edge.EARLIEST:
            raise OptionInvalid("option endingOffsets=earliest would read nothing; remove it")
        self._reading = reading
        self._schema = schema
        self._columns = check_read(schema)
        self._comparisons = times(reading)

    def partitions(self) -> Sequence[InputPartition]:
        """Freeze what is there now."""
        reading = self._reading
        with connected(reading.bus) as client:
            described = client.describe(place_of(reading.address))
        check_known(described, reading.start, reading.end)
        resource = reading.address.resource
        skipped = check_online(described, resource, skips_offline=reading.skips_offline)
        if skipped:
            # A batch has no progress report that could tell.
            _log.warning("%s of '%s' skipped: offline", fragments_named(skipped), resource)
        fragments = extents(described)
        start = edges(fragments, reading.start, otherwise=Edge.EARLIEST)
        end = edges(fragments, reading.end, otherwise=Edge.LATEST)
        weights = {each.fragment: each.messages for each in fragments}
        return [Slice(task) for task in pack(stretches(start, end, weights), reading.tasks_max)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one slice, on any worker. Spark calls without a slice when there is nothing."""
        if not isinstance(partition, Slice):
            return
        keep_memory()
        with connected(self._reading.bus) as client:
            for batch in client.read(
                place_of(self._reading.address),
                columns=self._columns,
                ranges=ranges_of(partition.stretches),
                states=self._reading.states,
                filters=self._comparisons,
            ):
                yield shaped(batch, self._schema)


class FilteringBatchReader(BatchReader):
    """Lets the broker leave out what Spark would throw away.

    A class of its own, because Spark refuses any reader with `pushFilters` unless
    `spark.sql.python.filterPushdown.enabled` is set. All filters are given back: Spark applies them
    again, to the few rows that are left.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Note what the broker can compare."""
        pushed = [found for each in filters if (found := comparison_of(each)) is not None]
        self._comparisons = [*self._comparisons, *pushed]
        return iter(filters)


def times(reading: Reading) -> list[Comparison]:
    """Return the bounds that a user set to the time when messages came."""
    bounds: tuple[tuple[str, datetime | None], ...] = ((">=", reading.since), ("<", reading.until))
    return [
        ("enqueued_time", operator, time.isoformat())
        for operator, time in bounds
        if time is not None
    ]
