"""What is read: bodies, states, times, places; and what cannot be."""

from datetime import UTC, datetime, timedelta
from inspect import signature

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from bendybus.client import Message
from bendybus.client.errors import ClientError
from pyspark_servicebus import DefaultSource
from pyspark_servicebus.described_fragments import FragmentUnknown
from tests.source.reading import read, schema_of
from tests.spark.conftest import Bus
from tests.spark.traffic import dead_letter, numbered, send

pytestmark = pytest.mark.spec("R9.1")


def bodies(options: dict[str, str]) -> list[int]:
    return sorted(int(str(row["body"], "ascii")) for row in read(options, "body"))  # type: ignore[call-overload]  # bytes


def test_batches_have_the_very_types_that_spark_expects(bus: Bus) -> None:
    queue = bus.queue()
    send(bus, queue, numbered(1))
    schema = schema_of()
    reader = DefaultSource(bus.source(queue)).reader(schema)
    [partition] = reader.partitions()
    [batch] = reader.read(partition)
    assert isinstance(batch, pa.RecordBatch)
    # Spark 4.1 knows no other timezone, and has no word for it.
    is_told = "timezone" in signature(to_arrow_schema).parameters
    arrow = to_arrow_schema(schema, timezone="UTC") if is_told else to_arrow_schema(schema)
    assert batch.schema.equals(arrow)


def test_large_and_empty_bodies_are_read_whole(bus: Bus, is_partitioned: bool) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    sent = [bytes([number]) * 250_000 for number in range(8)] + [b""]
    send(bus, queue, [Message(body) for body in sent])
    found = [row["body"] for row in read(bus.source(queue), "body")]
    assert sorted(found) == sorted(sent)  # type: ignore[type-var]  # bytes


def test_an_empty_queue_has_no_rows(bus: Bus, is_partitioned: bool) -> None:
    assert read(bus.source(bus.queue(is_partitioned=is_partitioned))) == []


def test_subscriptions_and_dead_letters_are_read_like_queues(
    bus: Bus, is_partitioned: bool
) -> None:
    topic = bus.topic("all", is_partitioned=is_partitioned)
    queue = bus.queue(is_partitioned=is_partitioned)
    send(bus, topic, numbered(5))
    send(bus, queue, numbered(5))
    dead_letter(bus, queue, 5, "Spoiled")

    assert bodies(bus.source(topic, subscription="all")) == [0, 1, 2, 3, 4]
    rows = read(bus.source(queue, subQueue="deadletter"))
    reasons = [(row["dead_letter_reason"], row["dead_letter_error_description"]) for row in rows]
    assert reasons == [("Spoiled", "because")] * 5
    assert read(bus.source(queue)) == []


def test_states_and_times_choose_what_is_read(bus: Bus) -> None:
    queue = bus.queue()
    now = datetime.now(UTC)
    later = now + timedelta(hours=1)
    send(bus, queue, numbered(3))
    send(bus, queue, [Message(b"3", scheduled_time=later)])

    assert bodies(bus.source(queue)) == [0, 1, 2, 3]
    assert bodies(bus.source(queue, states="scheduled")) == [3]
    since = {"states": "active", "startingTimestamp": later.isoformat()}
    assert bodies(bus.source(queue, **since)) == []
    until = {"states": "active", "endingTimestamp": later.isoformat()}
    assert bodies(bus.source(queue, **until)) == [0, 1, 2]


def test_sequence_numbers_bound_what_is_read(bus: Bus) -> None:
    queue = bus.queue()
    send(bus, queue, numbered(10))
    numbers = sorted(int(str(row["sequence_number"])) for row in read(bus.source(queue)))
    low, high = f'{{"0": {numbers[3]}}}', f'{{"0": {numbers[7]}}}'
    assert bodies(bus.source(queue, startingOffsets=low, endingOffsets=high)) == [3, 4, 5, 6]
    with pytest.raises(FragmentUnknown, match="no fragment 99; the entity has 1"):
        read(bus.source(queue, startingOffsets='{"99": 1}'))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"entity": "nothing"}, "nothing' could not be found"),
        ({"subscription": "none"}, "(?i)subscription"),
        ({"flightEndpoint": "grpc://localhost:1"}, "no broker answers at grpc://localhost:1"),
    ],
)
def test_what_is_not_there_is_refused_by_its_name(
    bus: Bus, options: dict[str, str], why: str
) -> None:
    given = bus.source(bus.queue(), timeoutSeconds=1) | options
    with pytest.raises(ClientError, match=why):
        read(given)


def test_a_wrong_key_is_refused_and_not_repeated(bus: Bus) -> None:
    wrong = bus.connection_string.replace("SAS_KEY_VALUE", "not-the-key")
    with pytest.raises(ClientError) as caught:
        read(bus.source(bus.queue(), connectionString=wrong))
    assert type(caught.value).__name__ == "Unauthorized"
    assert "not-the-key" not in str(caught.value)
