"""A stream that looks at what comes into an entity, and changes nothing in it.

What others take out before it was read is not seen. Where that shows, because a fragment now begins
after the place that the stream had come to, the query fails, unless it is told to go on.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_places import place_of
from bendybus.model.ids import sequence_number
from pyspark_servicebus.available_now import SupportsTriggerAvailableNow
from pyspark_servicebus.batch_reading import times
from pyspark_servicebus.connecting import connected, ranges_of
from pyspark_servicebus.described_fragments import (
    Extent,
    FragmentsOffline,
    check_known,
    check_online,
    edges,
    extents,
)
from pyspark_servicebus.message_columns import check_read, shaped
from pyspark_servicebus.offsets import BrowsedOffset, by_fragment, read_browsed
from pyspark_servicebus.options import Edge, Streaming
from pyspark_servicebus.planning import (
    ended,
    fragments_named,
    limited,
    messages_within,
    pack,
    stretches,
)
from pyspark_servicebus.slice import Slice
from pyspark_servicebus.worker_memory import keep_memory


class MessagesGone(RuntimeError):
    """Messages were removed before the stream came to them."""


class BrowsingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans ranges of sequence numbers on the driver; any task reads any of them."""

    def __init__(self, streaming: Streaming, schema: StructType) -> None:
        self._streaming = streaming
        self._reading = streaming.reading
        self._schema = schema
        self._columns = check_read(schema)
        self._entity = streaming.reading.address.resource
        self._place = place_of(streaming.reading.address)
        self._client: BulkClient | None = None
        # How far Spark has planned: Spark 4.1 does not say where it is when it asks for more.
        self._planned: BrowsedOffset | None = None
        end = streaming.reading.end
        self._given_end = None if isinstance(end, Edge) else end
        self._last: Mapping[int, int] | None = None
        self._heads: Mapping[int, int] = {}
        self._end: BrowsedOffset | None = None
        self._skipped: Sequence[int] = ()

    def __getstate__(self) -> tuple[Streaming, StructType]:
        return self._streaming, self._schema

    def __setstate__(self, state: tuple[Streaming, StructType]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # what was pickled is what it is made of

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Return where the stream begins.

        Spark asks again when it repeats its first batch. The latest place would be another one by
        then, so that has no numbers here: the first batch notes them, and is empty.
        """
        if self._reading.start is Edge.LATEST:
            return BrowsedOffset(self._entity, {}).to_json()
        start = edges(self._online(), self._reading.start, otherwise=Edge.EARLIEST)
        return BrowsedOffset(self._entity, start).to_json()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, object] | None = None, limit: object = None
    ) -> dict[str, object]:
        """Return how far to read next; the limits are the options', whatever Spark says."""
        del limit
        begun = self._begun(start)
        fragments = self._online()
        if self._is_nowhere(begun) and self._skipped:
            raise FragmentsOffline(
                f"startingOffsets=latest needs every store of '{self._entity}' once, and"
                f" {fragments_named(self._skipped)} cannot be asked; try again when all are online"
            )
        self._heads = {each.fragment: each.next for each in fragments}
        heads = ended(self._heads, self._given_end)
        if self._last is not None:
            heads = {each: self._last[each] for each in heads if each in self._last}
        if self._is_nowhere(begun):
            self._end = BrowsedOffset(self._entity, heads)
        else:
            low = self._not_before_first(begun.sequences, fragments)
            end = limited(low, {**low, **heads}, self._messages_max(fragments))
            self._end = BrowsedOffset(self._entity, end)
        return self._end.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Look at nothing that comes later than now."""
        now = {each.fragment: each.next for each in self._online()}
        self._last = ended(now, self._given_end)

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Return where each fragment ends, and how far away that is, for the query's progress."""
        done = {} if self._end is None else self._end.sequences
        lag = {each: max(0, head - done.get(each, 0)) for each, head in self._heads.items()}
        report = BrowsedOffset(self._entity, self._heads).to_json() | {"lag": by_fragment(lag)}
        if self._skipped:
            report["skipped"] = sorted(self._skipped)
        return report

    def partitions(
        self, start: dict[str, object], end: dict[str, object]
    ) -> Sequence[InputPartition]:
        """Share out what lies between two offsets."""
        low = read_browsed(start, entity=self._entity)
        high = read_browsed(end, entity=self._entity)
        self._planned = high
        if low == high or self._is_nowhere(low):
            return []
        if high != self._end:
            # A batch of before is repeated: nobody has looked yet whether it is still there.
            self._not_before_first(low.sequences, self._online())
        # A fragment that was away before is read from its beginning.
        beginnings = {each: sequence_number(each, 0) for each in high.sequences}
        parts = stretches({**beginnings, **low.sequences}, high.sequences, {})
        return [Slice(task) for task in pack(parts, self._reading.tasks_max)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one slice, on any worker."""
        assert isinstance(partition, Slice)
        keep_memory()
        with connected(self._reading.bus) as client:
            for batch in client.read(
                self._place,
                columns=self._columns,
                ranges=ranges_of(partition.stretches),
                states=self._reading.states,
                filters=times(self._reading),
            ):
                yield shaped(batch, self._schema)

    def stop(self) -> None:
        """Leave the broker."""
        if self._client is not None:
            self._client.close()

    def _messages_max(self, fragments: Sequence[Extent]) -> int:
        """Return how many messages to read at once, by the size that those have that are there."""
        return messages_within(
            self._streaming.messages_max,
            self._streaming.bytes_max,
            messages=sum(each.messages for each in fragments),
            size=sum(each.bytes for each in fragments),
        )

    def _begun(self, start: Mapping[str, object] | None) -> BrowsedOffset:
        if start is not None:
            return read_browsed(start, entity=self._entity)
        return self._planned or read_browsed(self.initialOffset(), entity=self._entity)

    def _is_nowhere(self, offset: BrowsedOffset) -> bool:
        """Whether a stream that begins with what comes next has not begun."""
        return not offset.sequences and self._reading.start is Edge.LATEST

    def _online(self) -> list[Extent]:
        if self._client is None:
            self._client = connected(self._reading.bus)
        described = self._client.describe(self._place)
        check_known(described, self._reading.start, self._reading.end)
        self._skipped = check_online(
            described, self._entity, skips_offline=self._reading.skips_offline
        )
        return extents(described)

    def _not_before_first(
        self, start: Mapping[int, int], fragments: Sequence[Extent]
    ) -> dict[int, int]:
        """Return from where to go on. Raises `MessagesGone` when messages were removed."""
        gone = [
            each.fragment for each in fragments if start.get(each.fragment, each.first) < each.first
        ]
        if gone and self._streaming.fails_on_data_loss:
            raise MessagesGone(
                f"messages of '{self._entity}' were removed before this stream had read them, in"
                f" {fragments_named(gone)}: somebody else receives there, or they expired. Go on"
                " without them by option failOnDataLoss=false, or read with mode=consume"
            )
        firsts = {each.fragment: each.first for each in fragments}
        return {
            each: max(start.get(each, 0), firsts.get(each, 0))
            for each in start.keys() | firsts.keys()
        }
