"""Archiving dead letters: out of the broker and into Parquet files, each exactly once.

The messages are reserved first: nobody else gets them, and they read back the same any number of
times. They are written into a folder that is named after what is in it, and only then completed.
Cut off in between, the next run finds them still reserved, writes the same files again, and goes
on.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Self
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as every program on Spark calls it

from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_values import Place, Positions
from bendybus.client.errors import ClientError
from bendybus.columns.schema import spark_schema
from bendybus.pipelines.bulk_access import bulk_client
from bendybus.pipelines.options import BusOptions
from bendybus.pipelines.tables import BATCH, local_folder, sync_batch
from bendybus.pipelines.triage_rules import Rule

TOGETHER: Final = 10_000
"""How many messages are reserved, written and completed as one."""
_IDLE_SECONDS_MAX: Final = 70.0
"""After so long the reader of a run that was killed can be taken over, and a bit."""
_PAUSE_SECONDS: Final = 1.0
_IN_USE: Final = "reader-in-use"


def archive(
    spark: SparkSession,
    options: BusOptions,
    places: Sequence[Place],
    chosen: DataFrame,
    rule: Rule,
) -> dict[str, Any]:
    """Archive the messages that were chosen, and those that an earlier run did not finish."""
    assert rule.into is not None, "a rule that archives says where to"
    done = held = 0
    with bulk_client(options) as client:
        for place in places:
            own = chosen.where(
                (F.col("entity") == place.entity)
                & F.col("subscription").eqNullSafe(F.lit(place.subscription))
            )
            numbers = own.select("fragment", "sequence_number").orderBy("sequence_number")
            with _Archive(spark, client, place, rule.into) as files:
                done += files.finish()
                left = ((row[0], row[1]) for row in numbers.toLocalIterator())
                while some := list(islice(left, TOGETHER)):
                    files.reserve(some)
                    written = files.finish()
                    done += written
                    held += len(some) - written
    return {"done": done, "held": held, "refused": 0, "refusal": None, "unavailable": []}


class _Archive:
    """The archive of one entity, and the reader under whose name its messages are reserved."""

    def __init__(self, spark: SparkSession, client: BulkClient, place: Place, into: str) -> None:
        self._spark = spark
        self._client = client
        self._place = place
        self._into = into
        self._reader = f"triage-{hashlib.sha256(into.encode()).hexdigest()[:16]}"
        self._token = uuid4().hex
        self._committed: Mapping[int, int] = {}

    def __enter__(self) -> Self:
        ends_at = time.monotonic() + _IDLE_SECONDS_MAX
        while True:
            try:
                opened = self._client.open_reader(self._place, self._reader, self._token)
            except ClientError as error:
                if error.condition != _IN_USE or time.monotonic() > ends_at:
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                self._committed = opened.committed
                return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            # All is completed: there is nothing to keep a name for.
            self._client.give_back(self._place, self._reader, self._token)
        else:
            with suppress(ClientError):
                # The next run need not wait until it is clear that this one is gone.
                self._client.close_reader(self._place, self._reader, self._token)

    def reserve(self, numbers: Iterable[tuple[int, int]]) -> None:
        """Keep messages from others, those that are still there and that nobody holds."""
        by_fragment: dict[int, list[int]] = {}
        for fragment, number in numbers:
            by_fragment.setdefault(fragment, []).append(number)
        self._client.reserve_chosen(self._place, self._reader, self._token, by_fragment)

    def finish(self) -> int:
        """Write what is reserved and complete it; return how many messages that was."""
        # Nothing more, but it says how far there is something.
        nothing: dict[int, list[int]] = {fragment: [] for fragment in self._committed}
        kept = self._client.reserve_chosen(self._place, self._reader, self._token, nothing)
        after = self._committed
        slices = [
            (fragment, after.get(fragment, 0), until)
            for fragment, until in sorted(kept.end.items())
            if until > after.get(fragment, 0)
        ]
        if not slices:
            return 0
        count = self._write(slices)
        self._client.commit(self._place, self._reader, self._token, kept.end)
        self._committed = {**after, **kept.end}
        return count

    def _write(self, slices: list[tuple[int, int, int]]) -> int:
        messages = self._reserved(slices).persist(StorageLevel.DISK_ONLY)
        try:
            rows = messages.select("sequence_number", F.unix_micros("enqueued_time")).collect()
            if rows:
                # Named after its messages: the same again are written over themselves alone.
                names = repr(sorted(map(tuple, rows)))
                batch = f"b{hashlib.sha256(names.encode()).hexdigest()[:24]}"
                entity = quote(self._place.entity, safe="")
                messages.write.mode("overwrite").parquet(
                    f"{self._into}/entity={entity}/{BATCH}={batch}"
                )
                if (folder := local_folder(self._into)) is not None:
                    sync_batch(folder, ("entity", BATCH), batch)
            return len(rows)
        finally:
            messages.unpersist()

    def _reserved(self, slices: list[tuple[int, int, int]]) -> DataFrame:
        """Return reserved messages; each task reads some fragments."""
        client, place, reader, token = self._client, self._place, self._reader, self._token

        def read_in_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with client:
                for batch in batches:
                    positions = [Positions(**row) for row in batch.to_pylist()]
                    yield from client.read_reserved(place, reader, token, positions)

        named = self._spark.createDataFrame(slices, "fragment INT, after BIGINT, until BIGINT")
        messages = named.mapInArrow(read_in_task, spark_schema())
        return messages.withColumn("subscription", F.lit(place.subscription).cast("string"))
