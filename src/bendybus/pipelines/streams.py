"""Streams of pipelines: where they read, where they stand, when they end."""

import json
import uuid
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bendybus.client.bulk_places import place_of
from bendybus.client.errors import ClientError
from bendybus.model.addresses import parse_address
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import SubQueue
from bendybus.pipelines.bulk_access import bulk_client
from bendybus.pipelines.ending import ending_now
from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.options import BusOptions
from bendybus.pipelines.patience import patiently
from bendybus.pipelines.progress import Progress
from bendybus.pipelines.tables import Batch
from pyspark_servicebus.available_now import TAKES_ALL

ONCE: Final = "once"
TRIGGER_SECONDS_MAX: Final = 86_400.0
# Beside what Spark keeps in the folder of a checkpoint.
_OWNER: Final = "reader"
_QUERY: Final = "sql.streaming.queryId"


class Mode(StrEnum):
    """What becomes of the messages that are read."""

    CONSUME = "consume"
    BROWSE = "browse"


@dataclass(frozen=True, kw_only=True)
class StreamOptions(BusOptions):
    """What can be chosen of every pipeline that reads an entity as a stream."""

    entity: Annotated[str, "The queue or topic to read."]
    subscription: Annotated[str | None, "A subscription of the topic."] = None
    dead_letter: Annotated[bool, "Its dead letters instead."] = False
    mode: Annotated[Mode, "Take the messages, or only look at them."] = Mode.CONSUME
    reader: Annotated[str | None, "The name of this reader; by default the pipeline's."] = None
    trigger: Annotated[
        str, "`once`: what is there now, then end. A number: go on, with so many seconds between."
    ] = ONCE
    until_empty: Annotated[bool, "Go on until nothing is left, then end."] = False
    checkpoint: Annotated[
        str | None, "The folder that remembers how far it came; by default inside the table."
    ] = None
    batch_messages: Annotated[int, "At most so many messages at a time."] = 500_000
    batch_bytes: Annotated[int | None, "At most so many bytes at a time."] = None
    tasks: Annotated[int | None, "Read by so many tasks at once; by default one per core."] = None
    skip_offline: Annotated[
        bool, "Go on with the rest while a store is away; what it holds is read when it is back."
    ] = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.trigger != ONCE:
            _seconds(self.trigger)
            if self.until_empty:
                raise ArgumentInvalid("--until-empty ends by itself: leave --trigger out")
        if self.batch_messages < 1:
            raise ArgumentInvalid(f"--batch-messages must be 1 or more, not {self.batch_messages}")

    @property
    def is_by_batch(self) -> bool:
        """Whether Spark ends after each batch, and is to be started for the next one."""
        return self.trigger == ONCE and not TAKES_ALL

    @property
    def source(self) -> dict[str, str]:
        """The options of the data source that say where to read, and what becomes of it."""
        return self.bus(
            self.entity, self.subscription, "deadletter" if self.dead_letter else None
        ) | {"mode": self.mode}

    @property
    def bounds(self) -> dict[str, str]:
        """The options of the data source that say what a batch is made of."""
        given = {
            "maxMessagesPerTrigger": self.batch_messages,
            "maxBytesPerTrigger": self.batch_bytes,
            "numTasks": self.tasks,
            "skipOffline": "true" if self.skip_offline else None,
        }
        return {name: str(value) for name, value in given.items() if value is not None}


def read_messages(
    spark: SparkSession, options: StreamOptions, *, reader: str, checkpoint: str
) -> DataFrame:
    """Return the messages of an entity as a stream that can begin again where it stood."""
    source = options.source
    if options.mode is Mode.CONSUME:
        source["reader"] = options.reader or reader
    token = _owned(spark, checkpoint, source)
    if options.mode is Mode.CONSUME:
        source["readerToken"] = token
    if options.is_by_batch and not options.until_empty:
        source |= _ending(options)
    stream = spark.readStream.format("servicebus").options(**source, **options.bounds)
    return stream.load()


def run_stream(
    stream: DataStreamWriter, options: StreamOptions, progress: Progress, *, checkpoint: str
) -> None:
    """Run a stream as its options say, and show how far it is. Raises `PipelineFailed`."""
    stream = stream.option("checkpointLocation", checkpoint).trigger(**_trigger(options.trigger))
    while True:
        before = progress.reading.rows
        has_moved = patiently(lambda: _followed(stream, progress), progress)
        has_more = options.until_empty and progress.reading.rows != before
        if not (has_more or (has_moved and options.is_by_batch)):
            return


def batch_of(rows: DataFrame, number: int) -> Batch:
    """Return the name of a batch that `foreachBatch` was given: the same after any restart."""
    stream = rows.sparkSession.sparkContext.getLocalProperty(_QUERY)
    if stream is None:
        raise PipelineFailed(f"this Spark does not say which stream a batch is of ({_QUERY})")
    return Batch(stream, number)


def _followed(stream: DataStreamWriter, progress: Progress) -> bool:
    """Run a stream until it ends; say whether it came on, be it over what is gone by now."""
    query = stream.start()
    progress.follow(query)
    return any(
        source.startOffset != source.endOffset
        for batch in query.recentProgress
        for source in batch.sources
    )


def _ending(options: StreamOptions) -> dict[str, str]:
    """Return the option that ends a stream which is started for each batch: else it might never."""
    try:
        address = parse_address(options.entity)
        if options.dead_letter:
            address = replace(address, sub_queue=SubQueue.DEAD_LETTER)
        if options.subscription is not None:
            address = replace(address, subscription=options.subscription)
        with bulk_client(options) as client:
            return ending_now(client, place_of(address))
    except (ClientError, ArgumentInvalid) as error:
        raise PipelineFailed(str(error)) from None


def _owned(spark: SparkSession, checkpoint: str, source: dict[str, str]) -> str:
    """Return the token that makes whoever starts from this checkpoint the same reader.

    It is kept with the checkpoint, so that a stream that was killed before its first batch finds
    what it had reserved. A checkpoint of something else is refused: its offsets mean nothing here.
    """
    names = ("entity", "subscription", "subQueue", "mode", "reader")
    wanted = {name: source.get(name) for name in names}
    place = f"{checkpoint}/{_OWNER}"
    kept = _kept(spark, place)
    if kept is None:
        kept = {**wanted, "token": str(uuid.uuid4())}
        text = spark.createDataFrame([(json.dumps(kept),)], "value STRING")
        text.coalesce(1).write.mode("overwrite").text(place)
    token = str(kept.pop("token"))
    if kept != wanted:
        raise PipelineFailed(
            f"the checkpoint {checkpoint} is of {_worded(kept)}, not of {_worded(wanted)}; choose"
            " another folder with --checkpoint, or another table"
        )
    return token


def _kept(spark: SparkSession, place: str) -> dict[str, Any] | None:
    """Read who owns a checkpoint; None if nobody does, or if writing it was cut off."""
    try:
        lines = spark.read.schema("value STRING").text(place).collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return None
    return json.loads(lines[0][0]) if lines else None


def _worded(owner: dict[str, Any]) -> str:
    parts = [owner["entity"], owner["subscription"], owner["subQueue"]]
    reader = f", reader {owner['reader']}" if owner["reader"] else ""
    return f"{'/'.join(each for each in parts if each)} ({owner['mode']}{reader})"


def _trigger(text: str) -> dict[str, Any]:
    if text == ONCE:
        return {"availableNow": True}
    return {"processingTime": f"{round(_seconds(text) * 1000)} milliseconds"}


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= TRIGGER_SECONDS_MAX:
        raise ArgumentInvalid(f"--trigger must be `once` or a number of seconds, not {text!r}")
    return seconds
