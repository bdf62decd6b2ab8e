"""Frames that are read from the broker: all columns, all types, nothing changed."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from bendybus.amqp.values import Int, Symbol, Timestamp
from bendybus.client import Message
from tests.spark.conftest import Bus
from tests.spark.traffic import count_of, numbered, numbers, receive_all, send

pytestmark = pytest.mark.spec("R9.1")


def read(
    spark: SparkSession, bus: Bus, entity: str, schema: str = "", **options: object
) -> DataFrame:
    reader = spark.read.format("servicebus").options(**bus.source(entity, **options))
    return (reader.schema(schema) if schema else reader).load()


def test_every_property_of_a_message_is_a_column(
    spark: SparkSession, bus: Bus, is_partitioned: bool
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    before = datetime.now(UTC)
    send(
        bus,
        queue,
        [
            Message(
                b"\x00\xff body",
                message_id="m1",
                partition_key="k1",
                correlation_id="c1",
                subject="new",
                content_type="text/plain",
                to="there",
                reply_to="here",
                reply_to_session_id="s9",
                time_to_live=timedelta(hours=1),
            )
        ],
    )

    [row] = read(spark, bus, queue).collect()

    assert bytes(row.body) == b"\x00\xff body"
    assert row.body_type == "data"
    assert (row.message_id, row.partition_key, row.correlation_id) == ("m1", "k1", "c1")
    assert (row.subject, row.content_type, row.to) == ("new", "text/plain", "there")
    assert (row.reply_to, row.reply_to_session_id) == ("here", "s9")
    assert row.time_to_live == 3_600_000
    assert row.session_id is None
    assert (row.state, row.delivery_count) == ("active", 0)
    enqueued = row.enqueued_time.astimezone(UTC)
    assert before - timedelta(seconds=1) < enqueued < datetime.now(UTC)
    assert row.expires_at - row.enqueued_time == timedelta(hours=1)
    assert row.sequence_number >> 48 == row.fragment
    assert row.dead_letter_reason is None
    assert row.application_properties == {}
    assert count_of(bus, queue) == 1


def test_properties_keep_their_types(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    number = uuid.uuid4()
    moment = Timestamp(1_763_281_800_123)
    values = {
        "text": "ü",
        "long": -5,
        "int": Int(7),
        "double": 1.5,
        "truth": True,
        "nothing": None,
        "uuid": number,
        "time": moment,
        "bytes": b"\xff",
        "symbol": Symbol("s"),
    }
    send(bus, queue, [Message(b"", application_properties=values)])

    [row] = read(spark, bus, queue, "application_properties " + PROPERTIES).collect()

    assert row.application_properties == {
        "text": Row(type="string", value="ü"),
        "long": Row(type="long", value="-5"),
        "int": Row(type="int", value="7"),
        "double": Row(type="double", value="1.5"),
        "truth": Row(type="boolean", value="true"),
        "nothing": Row(type="null", value=None),
        "uuid": Row(type="uuid", value=str(number)),
        "time": Row(type="timestamp", value="2025-11-16T08:30:00.123Z"),
        "bytes": Row(type="binary", value="/w=="),
        "symbol": Row(type="symbol", value="s"),
    }


PROPERTIES = "MAP<STRING, STRUCT<type: STRING, value: STRING>>"


def test_many_messages_are_read_once_each_in_as_many_tasks_as_wished(
    spark: SparkSession, bus: Bus, is_partitioned: bool
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    send(bus, queue, numbered(3000))

    frame = read(spark, bus, queue, "body BINARY, sequence_number BIGINT", numTasks=3)

    rows = frame.collect()
    assert numbers(row.body for row in rows) == list(range(3000))
    assert len({row.sequence_number for row in rows}) == 3000
    assert frame.rdd.getNumPartitions() == (3 if is_partitioned else 1)


def test_filters_are_pushed_down_and_change_nothing(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(20, subject="odd", partition_key="a"))
    send(bus, queue, numbered(20, first=20, subject="even", partition_key="b"))
    plain = read(spark, bus, queue)
    edge = plain.orderBy("sequence_number").collect()[25].sequence_number

    for condition in (
        "subject = 'odd'",
        "partition_key IN ('b', 'c')",
        f"sequence_number >= {edge}",
        "enqueued_time > '2020-01-01' AND subject < 'f'",
        "subject LIKE 'e%' OR message_id = '3'",
        "session_id IS NULL",
    ):
        pushed = read(spark, bus, queue, pushdown="true")
        expected, found = (
            numbers(row.body for row in each.where(condition).collect()) for each in (plain, pushed)
        )
        assert found == expected
        assert found, condition


def test_a_read_does_not_take_messages_from_receivers(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(50))
    assert read(spark, bus, queue).count() == 50
    assert numbers(receive_all(bus, queue)) == list(range(50))
