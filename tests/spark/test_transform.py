"""`pipeline run transform`: what a program makes of messages is sent once, and they are gone."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bendybus.client.message import Message
from bendybus.model.errors import ArgumentInvalid
from bendybus.pipelines import transform
from bendybus.pipelines.failure import PipelineFailed
from tests.spark.conftest import Bus
from tests.spark.piping import left, numbered, received, run_pipeline, send

PRICED = """
from pyspark.sql import functions as f
from pyspark.sql.types import LongType


@f.udf(LongType())
def doubled(body):
    return 2 * int(body)


def priced(messages):
    return messages.select("message_id", "fragment", doubled("body").alias("price"))
"""


def program(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.spec("R9.2")
def test_a_query_sends_what_it_selects_to_another_entity_once(
    spark: SparkSession, bus: Bus, tmp_path: Path, is_partitioned: bool
) -> None:
    source, target = (bus.queue(is_partitioned=is_partitioned) for _ in range(2))
    query = "SELECT message_id, partition_key, 'even' AS subject, body FROM messages"
    text = f"{query} WHERE int(string(body)) % 2 = 0;\n"
    options: dict[str, Any] = {
        "entity": source,
        "program": program(tmp_path, "even.sql", text),
        "to": target,
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    send(bus, source, numbered(100))
    assert run_pipeline(spark, bus, transform, **options)["read"] == 100
    send(bus, source, numbered(20, begin=100))
    assert run_pipeline(spark, bus, transform, **options)["read"] == 20
    assert left(bus, source) == 0
    messages = received(bus, target, 60)
    assert sorted(int(bytes(each.body)) for each in messages) == list(range(0, 120, 2))  # type: ignore[call-overload]  # it is bytes
    assert {each.subject for each in messages} == {"even"}


@pytest.mark.spec("R9.2")
def test_everything_that_can_be_sent_is_when_all_columns_are_selected(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    source, target = bus.queue(), bus.queue()
    properties: dict[str, Any] = {"colour": "red", "size": 7}
    send(bus, source, [Message(b"x", message_id="a", application_properties=properties)])
    run_pipeline(
        spark,
        bus,
        transform,
        entity=source,
        program=program(tmp_path, "all.sql", "SELECT * FROM messages"),
        to=target,
        checkpoint=str(tmp_path / "checkpoint"),
    )
    [message] = received(bus, target, 1)
    assert (message.message_id, message.body) == ("a", b"x")
    assert message.application_properties == properties


@pytest.mark.spec("R9.2")
def test_a_function_with_code_for_the_workers_writes_a_table(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue, table = bus.queue(is_partitioned=True), str(tmp_path / "table")
    send(bus, queue, numbered(50))
    path = program(tmp_path, "rules.py", PRICED)
    options: dict[str, Any] = {"entity": queue, "program": f"{path}:priced", "to_table": table}
    run_pipeline(spark, bus, transform, **options, partition_by=("fragment",))
    rows = spark.read.parquet(table).collect()
    assert {row["message_id"]: row["price"] for row in rows} == {
        f"m{number}": 2 * number for number in range(50)
    }
    assert left(bus, queue) == 0


@pytest.mark.parametrize(
    ("name", "text", "function", "refusal"),
    [
        ("q.sql", "SELECT message_id AS mesage_id FROM messages", "", "mean message_id"),
        ("q.sql", "SELECT 1 AS message_id", "", "made of the messages"),
        ("q.sql", "SELECT fragment FROM messages", "", "no column is part of a message"),
        ("q.sql", "SELEC", "", "SELEC"),
        ("f.py", "def f(messages): return 7", ":f", "made of the messages"),
        ("f.py", "def f(messages): return messages", ":g", "name a function"),
        ("f.py", "def f(messages): return messages", "", "name a function"),
    ],
)
def test_a_program_that_cannot_be_sent_is_refused_before_anything_is_read(
    spark: SparkSession,
    bus: Bus,
    tmp_path: Path,
    name: str,
    text: str,
    function: str,
    refusal: str,
) -> None:
    source, target = bus.queue(), bus.queue()
    send(bus, source, numbered(3))
    with pytest.raises(PipelineFailed, match=refusal):
        run_pipeline(
            spark,
            bus,
            transform,
            entity=source,
            program=program(tmp_path, name, text) + function,
            to=target,
            checkpoint=str(tmp_path / "checkpoint"),
        )
    assert len(received(bus, source, 3)) == 3
    assert left(bus, target) == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "--to an entity"),
        ({"to": "b", "to_table": "t"}, "--to an entity"),
        ({"to": "b"}, "--checkpoint"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentInvalid, match=text):
        transform.Options(connection_string="", entity="a", program="q.sql", **options)
