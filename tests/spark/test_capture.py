"""`pipeline run capture`: every message in the table once, and gone from the broker."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bendybus.client import Client
from bendybus.client.message import Message, ReceivedMessage
from bendybus.columns.schema import COLUMNS
from bendybus.model.errors import ArgumentInvalid
from bendybus.pipelines import capture
from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.reading import Reading
from bendybus.pipelines.streams import Mode
from bendybus.pipelines.tables import TableFormat
from tests.spark.conftest import Bus
from tests.spark.piping import (
    POLL_SECONDS,
    SECONDS_MAX,
    left,
    numbered,
    numbers,
    received,
    run_pipeline,
    send,
)


@pytest.mark.spec("R9.2")
def test_a_capture_takes_every_message_once(
    spark: SparkSession, bus: Bus, tmp_path: Path, is_partitioned: bool
) -> None:
    queue, table = bus.queue(is_partitioned=is_partitioned), str(tmp_path / "table")
    send(bus, queue, numbered(300))
    result = run_pipeline(spark, bus, capture, entity=queue, table=table, batch_messages=120)
    assert result["captured"] == 300
    assert left(bus, queue) == 0

    send(bus, queue, numbered(40, begin=300))
    assert run_pipeline(spark, bus, capture, entity=queue, table=table)["captured"] == 40
    rows = spark.read.parquet(table).collect()
    assert numbers(rows) == list(range(340))
    assert all(row["fragment"] == row["sequence_number"] >> 48 for row in rows)
    assert (len({row["fragment"] for row in rows}) > 1) is is_partitioned
    assert left(bus, queue) == 0


@pytest.mark.spec("R9.2")
def test_the_table_has_a_column_for_all_of_a_message_and_folders_by_date_and_fragment(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    properties: dict[str, Any] = {"colour": "red", "size": 7}
    message = Message(
        b"\xff\x00", message_id="a", subject="greeting", application_properties=properties
    )
    send(bus, queue, [message])
    run_pipeline(spark, bus, capture, entity=queue, table=str(tmp_path))

    table = spark.read.parquet(str(tmp_path))
    assert set(table.columns) == {*COLUMNS, "date", "batch"}
    [row] = table.collect()
    assert bytes(row["body"]) == b"\xff\x00"
    assert (row["message_id"], row["subject"]) == ("a", "greeting")
    assert row["application_properties"]["colour"].asDict() == {"type": "string", "value": "red"}
    assert row["application_properties"]["size"]["value"] == "7"
    assert row["date"] == row["enqueued_time"].date()
    [_] = tmp_path.glob(f"date={row['date']}/fragment=0/batch=*/*.parquet")


@pytest.mark.spec("R9.2")
def test_browsing_leaves_everything_where_it_is(
    spark: SparkSession, bus: Bus, tmp_path: Path, is_partitioned: bool
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    send(bus, queue, numbered(50))
    options: dict[str, Any] = {"entity": queue, "table": str(tmp_path), "mode": Mode.BROWSE}
    assert run_pipeline(spark, bus, capture, **options)["captured"] == 50
    send(bus, queue, numbered(10, begin=50))
    assert run_pipeline(spark, bus, capture, **options)["captured"] == 10
    assert numbers(spark.read.parquet(str(tmp_path)).collect()) == list(range(60))
    assert len(received(bus, queue, 60)) == 60


@pytest.mark.spec("R9.2")
def test_dead_letters_are_captured_with_their_reason(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    send(bus, queue, numbered(3))
    with Client.from_connection_string(bus.connection_string) as client:
        receiver = client.receiver(queue)
        [first] = receiver.receive(1)
        receiver.dead_letter(first, reason="Broken", description="on purpose")
    run_pipeline(spark, bus, capture, entity=queue, table=str(tmp_path), dead_letter=True)

    [row] = spark.read.parquet(str(tmp_path)).collect()
    assert (row["dead_letter_reason"], bytes(row["body"])) == ("Broken", b"0")
    assert left(bus, queue) == 2


@pytest.mark.spec("R9.2")
def test_the_history_of_a_topic_is_captured_whoever_completes_it(
    spark: SparkSession, bus: Bus, tmp_path: Path, is_partitioned: bool
) -> None:
    topic = bus.topic("work", is_partitioned=is_partitioned)
    options: dict[str, Any] = {
        "entity": topic,
        "table": str(tmp_path),
        "keep_history": True,
        "management_url": bus.broker.management_url,
    }
    assert run_pipeline(spark, bus, capture, **options)["captured"] == 0
    send(bus, topic, numbered(20))
    assert len(received(bus, topic, 20, subscription="work")) == 20
    assert run_pipeline(spark, bus, capture, **options)["captured"] == 20
    assert numbers(spark.read.parquet(str(tmp_path)).collect()) == list(range(20))
    assert left(bus, topic, "history") == 0


def test_the_history_of_a_queue_is_refused_with_what_to_do_instead(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    with pytest.raises(PipelineFailed, match="for topics"):
        run_pipeline(
            spark,
            bus,
            capture,
            entity=queue,
            table=str(tmp_path),
            keep_history=True,
            management_url=bus.broker.management_url,
        )


@pytest.mark.spec("R9.2")
def test_a_checkpoint_of_another_entity_is_refused(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    one, other = bus.queue(), bus.queue()
    send(bus, one, numbered(5))
    run_pipeline(spark, bus, capture, entity=one, table=str(tmp_path))
    with pytest.raises(PipelineFailed, match=f"is of {one} .* not of {other}"):
        run_pipeline(spark, bus, capture, entity=other, table=str(tmp_path))


@pytest.mark.spec("R9.2")
def test_until_empty_goes_on_with_what_came_meanwhile(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    send(bus, queue, numbered(10))
    stages: list[Reading] = []

    def send_more(reading: Reading) -> None:
        if reading.rows and not any(each.rows for each in stages):
            send(bus, queue, numbered(10, begin=10))
        stages.append(reading)

    options: dict[str, Any] = {"entity": queue, "table": str(tmp_path), "until_empty": True}
    result = run_pipeline(spark, bus, capture, send_more, **options)
    assert result["captured"] == 20
    assert numbers(spark.read.parquet(str(tmp_path)).collect()) == list(range(20))


@pytest.mark.spec("R9.2")
@pytest.mark.parametrize("mode", Mode)
def test_a_capture_ends_with_what_was_there_whatever_comes_meanwhile(
    spark: SparkSession, bus: Bus, tmp_path: Path, mode: Mode
) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(90))
    seen: set[int] = set()

    def send_more(reading: Reading) -> None:
        if reading.rows and reading.rows not in seen:
            send(bus, queue, numbered(30, begin=90 + 30 * len(seen)))
            seen.add(reading.rows)

    options: dict[str, Any] = {"entity": queue, "table": str(tmp_path), "mode": mode}
    result = run_pipeline(spark, bus, capture, send_more, **options, batch_messages=40)
    assert len(seen) > 1
    assert result["captured"] == 90
    assert numbers(spark.read.parquet(str(tmp_path)).collect()) == list(range(90))
    assert left(bus, queue) == 30 * len(seen) + (90 if mode is Mode.BROWSE else 0)


@pytest.mark.spec("R9.2")
def test_browsing_goes_on_over_what_others_have_taken(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    send(bus, queue, numbered(40))
    with Client.from_connection_string(bus.connection_string) as client:
        receiver = client.receiver(queue)
        locked: list[ReceivedMessage] = []
        while len(locked) < 30:
            locked += receiver.receive(30 - len(locked), timeout=SECONDS_MAX)
        receiver.complete(locked[10:])
        receiver.abandon(locked[:10])
    options: dict[str, Any] = {"entity": queue, "table": str(tmp_path), "mode": Mode.BROWSE}
    # Some batches lie wholly between what is left.
    assert run_pipeline(spark, bus, capture, **options, batch_messages=10)["captured"] == 20
    expected = [*range(10), *range(30, 40)]
    assert numbers(spark.read.parquet(str(tmp_path)).collect()) == expected


@pytest.mark.spec("R9.3")
def test_a_table_and_its_checkpoint_can_move_to_another_folder(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue, here, there = bus.queue(), tmp_path / "here", tmp_path / "there"
    send(bus, queue, numbered(10))
    run_pipeline(spark, bus, capture, entity=queue, table=str(here))
    here.rename(there)
    send(bus, queue, numbered(10, begin=10))
    run_pipeline(spark, bus, capture, entity=queue, table=str(there))
    assert numbers(spark.read.parquet(str(there)).collect()) == list(range(20))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"trigger": "often"}, "once"),
        ({"trigger": "-1"}, "once"),
        ({"trigger": "5", "until_empty": True}, "--until-empty"),
        ({"batch_messages": 0}, "--batch-messages"),
        ({"keep_history": True, "subscription": "work"}, "--keep-history"),
        ({"format": TableFormat.ICEBERG}, "--checkpoint"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentInvalid, match=text):
        capture.Options(connection_string="", entity="orders", table="t", **options)


@pytest.mark.spec("R9.3")
def test_each_message_goes_to_the_capture_or_to_another_receiver(
    spark: SparkSession, bus: Bus, tmp_path: Path, is_partitioned: bool
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    send(bus, queue, numbered(2000))
    taken: list[int] = []

    def compete() -> None:
        with Client.from_connection_string(bus.connection_string) as client:
            receiver = client.receiver(queue)
            while messages := receiver.receive(20, timeout=2):
                receiver.complete(messages)
                taken.extend(int(bytes(each.body)) for each in messages)  # type: ignore[call-overload]  # it is bytes

    with ThreadPoolExecutor(1) as beside:
        competing: list[Future[None]] = []

        def begin_competing(reading: Reading) -> None:
            # Once the capture has some, so that both get something.
            if reading.rows and not competing:
                competing.append(beside.submit(compete))

        options: dict[str, Any] = {"entity": queue, "table": str(tmp_path), "until_empty": True}
        run_pipeline(spark, bus, capture, begin_competing, **options, batch_messages=100)
        [other] = competing
        other.result()

    captured = numbers(spark.read.parquet(str(tmp_path)).collect())
    assert captured
    assert taken
    assert sorted(captured + taken) == list(range(2000))
    assert left(bus, queue) == 0


@pytest.mark.spec("R9.2")
def test_a_second_capture_under_the_same_name_is_refused(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    send(bus, queue, numbered(10))
    first: list[Reading] = []
    with ThreadPoolExecutor(1) as beside:
        options: dict[str, Any] = {"entity": queue, "trigger": "0"}
        running = beside.submit(
            run_pipeline, spark, bus, capture, first.append, table=str(tmp_path / "1"), **options
        )
        deadline = time.monotonic() + SECONDS_MAX
        while not any(reading.rows for reading in first):
            assert time.monotonic() < deadline
            time.sleep(POLL_SECONDS)
        try:
            with pytest.raises(PipelineFailed, match="in use"):
                run_pipeline(spark, bus, capture, entity=queue, table=str(tmp_path / "2"))
        finally:
            for query in spark.streams.active:
                query.stop()
        assert running.result()["captured"] == 10
