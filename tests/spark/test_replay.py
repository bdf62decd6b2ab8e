"""`pipeline run replay`: a table is sent again, once, in the order of every key and session."""

import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bendybus.client import Client
from bendybus.client.message import Message, ReceivedMessage
from bendybus.model.errors import ArgumentInvalid
from bendybus.pipelines import capture, replay
from bendybus.pipelines.failure import PipelineFailed
from tests.spark.conftest import Bus
from tests.spark.piping import left, numbered, received, run_pipeline, send

COUNT = 200


@pytest.fixture(scope="session")
def captured(spark: SparkSession, bus: Bus, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of messages with keys, subjects and properties."""
    queue, table = bus.queue(is_partitioned=True), str(tmp_path_factory.mktemp("captured"))
    messages = numbered(COUNT)
    for number, message in enumerate(messages):
        message.subject = "even" if number % 2 == 0 else "odd"
        message.application_properties = {"number": number, "text": str(number)}
    send(bus, queue, messages)
    run_pipeline(spark, bus, capture, entity=queue, table=table)
    return table


def in_their_order(messages: list[ReceivedMessage]) -> bool:
    by_key: dict[str | None, list[int]] = defaultdict(list)
    for message in messages:
        by_key[message.partition_key].append(int(bytes(message.body)))  # type: ignore[call-overload]  # it is bytes
    return all(each == sorted(each) for each in by_key.values())


@pytest.mark.spec("R9.2")
def test_a_replay_sends_every_message_again_in_the_order_of_its_key(
    spark: SparkSession, bus: Bus, captured: str, is_partitioned: bool
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    result = run_pipeline(spark, bus, replay, table=captured, entity=queue)
    assert result["sent"] == COUNT
    assert replay.as_text(result).startswith(f"{COUNT} messages are sent to {queue}, once")

    messages = received(bus, queue, COUNT)
    assert sorted(str(each.message_id) for each in messages) == sorted(
        f"m{number}" for number in range(COUNT)
    )
    assert in_their_order(messages)
    one = next(each for each in messages if each.message_id == "m7")
    assert (one.subject, one.partition_key) == ("odd", "k0")
    assert one.application_properties == {"number": 7, "text": "7"}


@pytest.mark.spec("R9.2")
def test_sessions_are_replayed_in_their_order(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    source = bus.queue(is_partitioned=True, requires_session=True)
    target = bus.queue(is_partitioned=True, requires_session=True)
    send(bus, source, [Message(b"%d" % n, session_id=f"s{n % 3}") for n in range(60)])
    run_pipeline(spark, bus, capture, entity=source, table=str(tmp_path))
    run_pipeline(spark, bus, replay, table=str(tmp_path), entity=target, session=("s1",))

    with Client.from_connection_string(bus.connection_string) as client:
        assert client.sessions(target) == ["s1"]
        session = client.accept_session(target, "s1")
        bodies = [each.body for each in session.receive(20, timeout=5)]
    assert bodies == [b"%d" % n for n in range(1, 60, 3)]


@pytest.mark.spec("R9.2")
def test_a_replay_that_is_repeated_sends_nothing_twice(
    spark: SparkSession, bus: Bus, captured: str
) -> None:
    queue = bus.queue(is_partitioned=True)
    first = run_pipeline(spark, bus, replay, table=captured, entity=queue)
    second = run_pipeline(spark, bus, replay, table=captured, entity=queue)
    assert second["transaction"] == first["transaction"]
    assert left(bus, queue) == COUNT

    third = run_pipeline(spark, bus, replay, table=captured, entity=queue, again=True)
    assert third["transaction"] != first["transaction"]
    assert left(bus, queue) == 2 * COUNT


@pytest.mark.spec("R9.2")
def test_only_one_subscription_gets_what_is_replayed_to_it(
    spark: SparkSession, bus: Bus, captured: str, is_partitioned: bool
) -> None:
    topic = bus.topic("one", "other", is_partitioned=is_partitioned)
    run_pipeline(spark, bus, replay, table=captured, entity=topic, subscription="one")
    assert left(bus, topic, "other") == 0
    assert in_their_order(received(bus, topic, COUNT, subscription="one"))


@pytest.mark.spec("R9.2")
@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"key": ("k0", "k1")}, 58),
        ({"where": "subject = 'even'"}, 100),
        ({"where": "application_properties['text'].value = '11'"}, 1),
        ({"since": "2000-01-01"}, COUNT),
        ({"until": "2000-01-01T00:00:00+01:00"}, 0),
    ],
)
def test_a_dry_run_says_what_would_be_sent_and_sends_nothing(
    spark: SparkSession, bus: Bus, captured: str, options: dict[str, Any], count: int
) -> None:
    queue = bus.queue()
    options = {"table": captured, "entity": queue, **options}
    result = run_pipeline(spark, bus, replay, **options, dry_run=True)
    assert result["would_send"]["messages"] == count
    assert replay.as_text(result).startswith(f"messages: {count}\n")
    assert left(bus, queue) == 0
    run_pipeline(spark, bus, replay, **options)
    assert left(bus, queue) == count


@pytest.mark.spec("R9.2")
def test_a_rate_is_kept_and_the_order_too(spark: SparkSession, bus: Bus, captured: str) -> None:
    queue = bus.queue(is_partitioned=True)
    # More than one portion: what is sent after the first has to wait for it.
    begun = time.monotonic()
    result = run_pipeline(spark, bus, replay, table=captured, entity=queue, rate=50.0)
    assert result["sent"] == COUNT
    assert time.monotonic() - begun >= 2.0
    messages = received(bus, queue, COUNT)
    assert len({each.message_id for each in messages}) == COUNT
    assert in_their_order(messages)


def test_a_condition_that_is_no_sql_is_refused_in_one_line(
    spark: SparkSession, bus: Bus, captured: str
) -> None:
    with pytest.raises(PipelineFailed, match="colour"):
        run_pipeline(spark, bus, replay, table=captured, entity="orders", where="colour = 1")


def test_a_table_without_an_order_is_refused(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    spark.range(3).write.mode("overwrite").parquet(str(tmp_path))
    with pytest.raises(PipelineFailed, match="no column sequence_number"):
        run_pipeline(spark, bus, replay, table=str(tmp_path), entity="orders")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"since": "yesterday"}, "--since"),
        ({"until": "25:00"}, "--until"),
        ({"rate": 0.0}, "--rate"),
        ({"again": True, "transaction": "t"}, "--again"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentInvalid, match=text):
        replay.Options(connection_string="", entity="orders", table="t", **options)
