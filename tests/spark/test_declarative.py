"""The project that `bendybus pipeline init` makes, run by Spark's own runner."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bendybus.client import Client, Message
from tests.cli.command import SECONDS_MAX, environment, run
from tests.spark.conftest import Bus

SMALL, LARGE = b"small", b"large" * 40


def send(bus: Bus, queue: str, count: int) -> None:
    """Send messages, every second of them with a long body."""
    bodies = [LARGE if number % 2 else SMALL for number in range(count)]
    messages = [Message(body, subject=f"s{len(body) > 100:d}") for body in bodies]
    with Client.from_connection_string(bus.connection_string) as client:
        client.sender(queue).send(messages)


def run_project(bus: Bus, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bendybus", "pipeline", "run", folder],
        env=environment(
            BENDYBUS_CONNECTION_STRING=bus.connection_string,
            BENDYBUS_FLIGHT_ENDPOINT=bus.flight_endpoint,
        ),
        capture_output=True,
        text=True,
        timeout=5 * SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.prove
@pytest.mark.spec("R9.2")
def test_every_run_of_a_project_takes_what_is_new_and_sends_some_of_it_on_once(
    bus: Bus, spark: SparkSession, tmp_path: Path, is_partitioned: bool
) -> None:
    source, target = (bus.queue(is_partitioned=is_partitioned) for _ in range(2))
    folder = tmp_path / "tables"
    assert run("pipeline", "init", folder).returncode == 0
    specification = folder / "spark-pipeline.yml"
    text = specification.read_text().replace("source: orders\n", f"source: {source}\n")
    specification.write_text(text.replace("target: orders-large\n", f"target: {target}\n"))
    for number in (1, 2):
        send(bus, source, 20)
        run_project(bus, folder)
        tables = folder / "spark-warehouse"
        assert spark.read.parquet(str(tables / "messages")).count() == 20 * number
        counted = {
            row.subject: row.messages
            for row in spark.read.parquet(str(tables / "per_subject")).collect()
        }
        assert counted == {"s0": 10 * number, "s1": 10 * number}
        with Client.from_connection_string(bus.connection_string) as client:
            assert client.count(target) == 10 * number
