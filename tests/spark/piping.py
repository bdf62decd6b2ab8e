"""Pipelines run in the tests' own Spark, and what goes in and comes out by an ordinary client."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from bendybus.client import Client
from bendybus.client.message import Message, ReceivedMessage
from bendybus.client.receive_mode import ReceiveMode
from bendybus.model.ids import SubQueue
from bendybus.pipelines.failure import PipelineFailed, reason_of
from bendybus.pipelines.progress import Progress
from bendybus.pipelines.reading import Reading
from tests.spark.conftest import Bus

SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.02
TOGETHER: Final = 500


def run_pipeline(
    spark: SparkSession,
    bus: Bus,
    pipeline: ModuleType,
    show: Callable[[Reading], None] = lambda _: None,
    **options: Any,
) -> Mapping[str, Any]:
    """Run a pipeline as `execute` does, but in a Spark that runs already."""
    told = pipeline.Options(
        connection_string=bus.connection_string, flight_endpoint=bus.flight_endpoint, **options
    )
    try:
        result: Mapping[str, Any] = pipeline.run(spark, told, Progress(spark, show))
    except PySparkException as error:
        raise PipelineFailed(reason_of(error)) from error
    return result


def send(bus: Bus, entity: str, messages: Iterable[Message]) -> None:
    """Send messages in their order."""
    waiting = list(messages)
    with Client.from_connection_string(bus.connection_string) as client:
        sender = client.sender(entity)
        for at in range(0, len(waiting), TOGETHER):
            sender.send(waiting[at : at + TOGETHER])


def numbered(count: int, keys: int = 7, begin: int = 0) -> list[Message]:
    """Return messages that know their number, spread over some keys."""
    return [
        Message(b"%d" % number, message_id=f"m{number}", partition_key=f"k{number % keys}")
        for number in range(begin, begin + count)
    ]


def received(
    bus: Bus,
    entity: str,
    count: int,
    *,
    subscription: str | None = None,
    sub_queue: SubQueue = SubQueue.MAIN,
) -> list[ReceivedMessage]:
    """Take so many messages away, and see that there are no more."""
    found: list[ReceivedMessage] = []
    deadline = time.monotonic() + SECONDS_MAX
    with Client.from_connection_string(bus.connection_string) as client:
        receiver = client.receiver(
            entity,
            subscription=subscription,
            sub_queue=sub_queue,
            mode=ReceiveMode.RECEIVE_AND_DELETE,
        )
        while len(found) < count:
            assert time.monotonic() < deadline, f"only {len(found)} of {count} came"
            found += receiver.receive(count - len(found), timeout=1.0)
        assert client.count(entity, subscription=subscription, sub_queue=sub_queue) == 0
    return found


def left(bus: Bus, entity: str, subscription: str | None = None) -> int:
    """Count what an entity holds, of any state."""
    with Client.from_connection_string(bus.connection_string) as client:
        return client.count(entity, subscription=subscription)


def numbers(rows: Iterable[Row]) -> list[int]:
    """Return the numbers of captured messages, sorted."""
    return sorted(int(row["body"]) for row in rows)


def batches_in(table: Path) -> int:
    """Count the batches of which a table of Parquet holds something."""
    return len({path.name for path in table.glob("date=*/fragment=*/batch=*")})
