"""A pipeline on a real cluster: a master, two workers, and executors that are killed."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster import standalone_cluster
from tests.spark.conftest import Bus
from tests.spark.driver import driver
from tests.spark.kills import wait_for_more
from tests.spark.piping import batches_in, left, numbered, numbers, send

COUNT, BATCH, KILLS = 10_000, 500, 2


@pytest.mark.spec("R9.2")
@pytest.mark.spec("R9.3")
@pytest.mark.prove
@pytest.mark.timeout(600)
def test_a_capture_on_a_cluster_whose_executors_are_killed_has_every_message_once(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue, table = bus.queue(is_partitioned=True), tmp_path / "table"
    send(bus, queue, numbered(COUNT, keys=100))
    command = ("capture", queue, str(table), "--batch-messages", str(BATCH), "--until-empty")
    with (
        standalone_cluster(tmp_path) as cluster,
        driver(bus, *command, master=cluster.url) as running,
    ):
        for _ in range(KILLS):
            wait_for_more(running, lambda: batches_in(table), 1)
            running.wait_for(cluster.kill_executor)
        running.result()

    captured = spark.read.parquet(str(table)).select("body").collect()
    assert numbers(captured) == list(range(COUNT))
    assert left(bus, queue) == 0
