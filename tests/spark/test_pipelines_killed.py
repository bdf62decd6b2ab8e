"""Pipelines are cut off by kills of all that takes part: nothing is lost and nothing is doubled."""

import random
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import Bus
from tests.spark.kills import kill_through
from tests.spark.piping import batches_in, left, numbered, numbers, send


@pytest.mark.spec("R9.3")
@pytest.mark.parametrize(("count", "batch", "kills"), [(20_000, 1_000, 1), (1_000_000, 20_000, 6)])
@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_a_capture_that_is_killed_has_every_message_once(
    spark: SparkSession, mortal: Bus, tmp_path: Path, count: int, batch: int, kills: int
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    queue, table = mortal.queue(is_partitioned=True), tmp_path / "table"
    send(mortal, queue, numbered(count, keys=100))
    command = ("capture", queue, str(table), "--batch-messages", str(batch), "--until-empty")

    kill_through(mortal, command, lambda: batches_in(table), kills, rng)

    captured = spark.read.parquet(str(table)).select("body").collect()
    assert numbers(captured) == list(range(count)), seed
    assert left(mortal, queue) == 0


@pytest.mark.spec("R9.3")
@pytest.mark.parametrize(("count", "batch", "kills"), [(20_000, 1_000, 1), (1_000_000, 20_000, 6)])
@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_a_transform_that_is_killed_sends_every_message_once(
    spark: SparkSession, mortal: Bus, tmp_path: Path, count: int, batch: int, kills: int
) -> None:
    seed = random.getrandbits(32)
    source, target = (mortal.queue(is_partitioned=True) for _ in range(2))
    send(mortal, source, numbered(count, keys=100))
    (tmp_path / "all.sql").write_text("SELECT * FROM messages")
    command = (
        *("transform", source, str(tmp_path / "all.sql"), "--to", target, "--until-empty"),
        *("--checkpoint", str(tmp_path / "checkpoint"), "--batch-messages", str(batch)),
    )
    kill_through(mortal, command, lambda: left(mortal, target) // batch, kills, random.Random(seed))

    sent = spark.read.format("servicebus").options(**mortal.source(target)).load()
    assert numbers(sent.select("body").collect()) == list(range(count)), seed
    assert left(mortal, source) == 0


@pytest.mark.spec("R9.3")
@pytest.mark.parametrize(("count", "rate", "kills"), [(20_000, 1_000, 1), (1_000_000, 20_000, 6)])
@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_a_replay_that_is_killed_sends_every_message_once_in_the_order_of_its_key(
    spark: SparkSession, mortal: Bus, tmp_path: Path, count: int, rate: int, kills: int
) -> None:
    seed = random.getrandbits(32)
    queue, table = mortal.queue(is_partitioned=True), str(tmp_path / "table")
    spark.range(count).selectExpr(
        "id AS sequence_number",
        "now() AS enqueued_time",
        "string(NULL) AS session_id",
        "concat('k', id % 100) AS partition_key",
        "binary(string(id)) AS body",
    ).write.parquet(table)
    command = ("replay", table, queue, "--rate", str(rate))
    kill_through(mortal, command, lambda: left(mortal, queue) // rate, kills, random.Random(seed))

    rows = spark.read.format("servicebus").options(**mortal.source(queue)).load()
    sent = rows.select("body", "partition_key", "sequence_number").collect()
    assert numbers(sent) == list(range(count)), seed
    by_key: dict[str, list[int]] = defaultdict(list)
    for row in sorted(sent, key=lambda each: each["sequence_number"]):
        by_key[row["partition_key"]].append(int(row["body"]))
    assert all(each == sorted(each) for each in by_key.values()), seed
