"""A stream that takes messages out of an entity, each exactly once.

The broker reserves messages for a named reader. What is reserved is hidden from others, stays, and
reads back identical until it is committed, so Spark can run a batch again after any failure.

1. `initialOffset` changes nothing: Spark asks it again whenever it repeats its first batch. The
   reader is opened when the first messages are reserved, and its token goes into the checkpoint.
2. Spark asks for the next offset only when the batch before is done and in its commit log. So all
   up to `start` is committed then, and the last batch of an idle stream does not stay reserved.
3. Who starts with a token that is not the reader's is refused by the broker: a second query of the
   same name, or an old copy of a checkpoint.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_places import place_of
from bendybus.client.errors import ClientError
from pyspark_servicebus.available_now import SupportsTriggerAvailableNow
from pyspark_servicebus.connecting import connected, positions_of
from pyspark_servicebus.described_fragments import extents
from pyspark_servicebus.message_columns import check_read, shaped
from pyspark_servicebus.offsets import ConsumedOffset, by_fragment, read_consumed
from pyspark_servicebus.options import Edge, Streaming
from pyspark_servicebus.planning import ended, fragments_named, pack, stretches
from pyspark_servicebus.slice import Slice
from pyspark_servicebus.worker_memory import keep_memory


class ReservationsGone(RuntimeError):
    """What the checkpoint would read again was committed: it is older than the reader is."""


class ConsumingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reserves on the driver, in one process for the life of the query; reads in any task."""

    def __init__(self, streaming: Streaming, schema: StructType) -> None:
        self._streaming = streaming
        self._schema = schema
        self._columns = check_read(schema)
        self._entity = streaming.reading.address.resource
        self._place = place_of(streaming.reading.address)
        self._client: BulkClient | None = None
        self._token: str | None = None
        self._committed: dict[int, int] = {}
        # How far Spark has planned: Spark 4.1 does not say where it is when it asks for more.
        self._planned = ConsumedOffset(self._entity, self._streaming.reader)
        end = streaming.reading.end
        self._before = None if isinstance(end, Edge) else end
        self._lag: Mapping[int, int] = {}
        self._skipped: Sequence[int] = ()

    def __getstate__(self) -> tuple[Streaming, StructType]:
        return self._streaming, self._schema

    def __setstate__(self, state: tuple[Streaming, StructType]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # what was pickled is what it is made of

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Return the offset of a reader that has not begun."""
        return ConsumedOffset(self._entity, self._streaming.reader).to_json()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, object] | None = None, limit: object = None
    ) -> dict[str, object]:
        """Commit what is done, reserve what comes next.

        The limits are the options', whatever Spark says: a batch has a bound.
        """
        del limit
        done = self._planned if start is None else self._read(start)
        # A token made here, not by the broker, so that to ask again after a lost answer is safe.
        token = self._open(done.token or self._streaming.token or self._token or uuid4().hex)
        positions = self._not_before_committed(done.positions)
        self._commit(token, positions)
        reserved = self._broker.reserve(
            self._place,
            self._streaming.reader,
            token,
            positions,
            messages_max=self._streaming.messages_max,
            bytes_max=self._streaming.bytes_max,
            before=self._before,
            skip_offline=self._streaming.reading.skips_offline,
        )
        self._lag, self._skipped = reserved.lag, reserved.skipped
        end = {**positions, **reserved.end}
        return ConsumedOffset(self._entity, self._streaming.reader, token, end).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take nothing that comes later than now."""
        described = self._broker.describe(self._place)
        now = {each.fragment: each.next for each in extents(described)}
        self._before = ended(now, self._before)

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Return how many free messages wait in each fragment, for the query's progress."""
        report: dict[str, object] = {"entity": self._entity, "reader": self._streaming.reader}
        report["lag"] = by_fragment(self._lag)
        if self._skipped:
            report["skipped"] = sorted(self._skipped)
        return report

    def partitions(
        self, start: dict[str, object], end: dict[str, object]
    ) -> Sequence[InputPartition]:
        """Share out what lies between two offsets, now or after any number of failures."""
        low, high = self._read(start), self._read(end)
        self._planned = high
        if low == high or high.token is None:
            return []
        token = self._open(high.token)
        # A first batch begins where the reader had come to when it was opened. Nothing was
        # committed since: that needs this batch to be done.
        first = self._not_before_committed(low.positions if low.token else self._committed)
        parts = stretches(first, high.positions, {})
        tasks_max = self._streaming.reading.tasks_max
        return [Slice(task, token) for task in pack(parts, tasks_max)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one slice, on any worker, any number of times."""
        assert isinstance(partition, Slice)
        assert partition.token is not None
        keep_memory()
        with connected(self._streaming.reading.bus) as client:
            for batch in client.read_reserved(
                self._place,
                self._streaming.reader,
                partition.token,
                positions_of(partition.stretches),
                columns=self._columns,
            ):
                yield shaped(batch, self._schema)

    def commit(self, end: dict[str, object]) -> None:
        """Let the broker complete what is done."""
        offset = self._read(end)
        if offset.token is not None:
            self._commit(self._open(offset.token), offset.positions)

    def stop(self) -> None:
        """Leave the broker, and the reader's name to whoever comes next; do not wait for it."""
        if self._token is not None:
            bus = replace(self._streaming.reading.bus, timeout_seconds=1)
            with suppress(ClientError), connected(bus) as client:
                client.close_reader(self._place, self._streaming.reader, self._token)
        if self._client is not None:
            self._client.close()

    @property
    def _broker(self) -> BulkClient:
        if self._client is None:
            self._client = connected(self._streaming.reading.bus)
        return self._client

    def _read(self, offset: Mapping[str, object]) -> ConsumedOffset:
        return read_consumed(offset, entity=self._entity, reader=self._streaming.reader)

    def _open(self, token: str) -> str:
        """Make sure that the broker knows us by this token, once."""
        if token != self._token:
            opened = self._broker.open_reader(
                self._place,
                self._streaming.reader,
                token,
                skip_offline=self._streaming.reading.skips_offline,
            )
            self._token, self._committed = opened.token, dict(opened.committed)
            self._skipped = opened.skipped
        return token

    def _commit(self, token: str, positions: Mapping[int, int]) -> None:
        """Commit what is new. What is in a store that is away is committed when it is back."""
        new = {
            each: at
            for each, at in positions.items()
            if at > self._committed.get(each, 0) and each not in self._skipped
        }
        if not new:
            return
        try:
            self._broker.commit(self._place, self._streaming.reader, token, new)
        except ClientError as error:
            if not (error.is_retryable and self._streaming.reading.skips_offline):
                raise
        else:
            self._committed.update(new)

    def _not_before_committed(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Return from where to go on. Raises `ReservationsGone` when that was committed."""
        gone = [each for each, at in self._committed.items() if positions.get(each, at) < at]
        if gone and self._streaming.fails_on_data_loss:
            raise ReservationsGone(
                f"the checkpoint is older than reader '{self._streaming.reader}' of"
                f" '{self._entity}', which has committed more in {fragments_named(gone)}: those"
                " messages cannot be read again. Use the newest checkpoint, or go on without them"
                " by option failOnDataLoss=false"
            )
        return {
            each: max(positions.get(each, 0), self._committed.get(each, 0))
            for each in positions.keys() | self._committed.keys()
        }
