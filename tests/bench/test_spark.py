"""What is promised of bulk work by Spark, held against readings."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from bench.clients import Clients
from bench.features.stage import Stage
from bench.promises import judge
from bench.readings import Figure, Reading, Readings, Subject
from bench.scenarios import SMALL_BODY_BYTES
from bench.size import QUICK
from bench.spark.capturing import waits_ms
from bench.spark.lab import bulk_side
from bench.spark.promises import SPARK_PROMISES, TARGET
from bench.spark.scenarios import SPARK


def is_kept(name: str, *values: tuple[Figure, float]) -> bool:
    readings = Readings()
    for figure, value in values:
        readings.add([Reading(Subject(figure, TARGET, SMALL_BODY_BYTES), value)])
    [found] = [each for each in judge(readings, tuple(SPARK)) if each.promise.name == name]
    return found.is_kept()


@pytest.mark.parametrize(
    ("name", "figure", "other", "least"),
    [
        ("Spark read / Parquet, all columns", Figure.SPARK_READ, Figure.PARQUET_READ, 40),
        ("Spark read / Parquet, body", Figure.SPARK_READ_BODY, Figure.PARQUET_READ_BODY, 60),
        ("Spark write / Parquet", Figure.SPARK_WRITE, Figure.PARQUET_WRITE, 35),
        ("Spark write / ordinary sends", Figure.SPARK_WRITE, Figure.SEND, 300),
        ("Spark capture / Parquet to Parquet", Figure.SPARK_CAPTURE, Figure.PARQUET_STREAM, 60),
        ("sends during a capture / alone", Figure.BESIDE_CAPTURE_SEND, Figure.ALONE_SEND, 50),
    ],
)
def test_a_rate_must_not_fall_below_its_part_of_the_other(
    name: str, figure: Figure, other: Figure, least: float
) -> None:
    assert is_kept(name, (other, 100.0), (figure, least))
    assert not is_kept(name, (other, 100.0), (figure, least - 1))


@pytest.mark.parametrize(
    ("name", "figure", "most"),
    [
        ("from send to table p50, ms", Figure.SPARK_CAPTURE_P50, 1_000),
        ("memory of the broker while it is read, MB", Figure.SPARK_READ_RESIDENT, 300),
    ],
)
def test_a_cost_must_not_rise_above_what_is_promised(
    name: str, figure: Figure, most: float
) -> None:
    assert is_kept(name, (figure, most))
    assert not is_kept(name, (figure, most + 1))


@pytest.mark.parametrize(("write", "least"), [(1_000_000, 100_000), (150_000, 75_000)])
def test_a_replay_must_reach_a_rate_or_half_of_the_write_whichever_is_lower(
    write: float, least: float
) -> None:
    def kept(rate: float) -> bool:
        rates = (Figure.REPLAY_WRITE, write), (Figure.SPARK_REPLAY, rate)
        return is_kept("Spark replay / what is promised", *rates)

    assert kept(least)
    assert not kept(least - 1)


def test_every_scenario_of_spark_has_a_promise() -> None:
    assert {promise.scenario for promise in SPARK_PROMISES} == set(SPARK)


def test_the_broker_that_spark_measures_serves_bulk_data(tmp_path: Path) -> None:
    with bulk_side(Stage(Clients(tmp_path), QUICK, tmp_path, "partitioned"), "read") as side:
        assert side.broker.flight_port > 0


@pytest.mark.parametrize("is_int96", [True, False], ids=["as Spark writes times", "as Arrow does"])
def test_a_row_waits_until_the_log_of_its_table_first_has_its_file(
    tmp_path: Path, is_int96: bool
) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    taken = pa.array([datetime.fromtimestamp(1_000, UTC)] * 3, pa.timestamp("us", "UTC"))
    lines = ["v1"]
    # The last one is compacted: it has the files of those before it as well.
    for number, name in enumerate(("8", "9.compact")):
        path = tmp_path / f"part {number}.parquet"
        table = pa.table({"enqueued_time": taken.slice(number)})
        parquet.write_table(table, path, use_deprecated_int96_timestamps=is_int96)
        lines.append(json.dumps({"path": path.as_uri()}))
        (log / name).write_text("\n".join(lines))
        os.utime(log / name, (0, 1_001 + number))

    assert waits_ms(tmp_path) == [1_000.0, 1_000.0, 1_000.0, 2_000.0, 2_000.0]
