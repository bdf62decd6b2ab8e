"""A batch is in a table once, however often it is written."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.tables import Batch, Table, TableFormat, local_folder, table_at

COLUMNS = "n INT, day STRING, kinds MAP<STRING, STRUCT<type: STRING, value: STRING>>"


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An Iceberg catalog. Where catalogs are is read once, when the package is imported."""
    folder = tmp_path_factory.mktemp("catalog")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYICEBERG_CATALOG__TESTS__URI", f"sqlite:///{folder}/catalog.db")
        environment.setenv("PYICEBERG_CATALOG__TESTS__WAREHOUSE", f"file://{folder}")
        pytest.importorskip("pyiceberg.catalog")
        yield "tests.bus"


@pytest.fixture(params=list(TableFormat))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, TableFormat]:
    table_format: TableFormat = request.param
    if table_format is TableFormat.DELTA:
        pytest.importorskip("deltalake")
    if table_format is TableFormat.ICEBERG:
        return f"{request.getfixturevalue('catalog')}.{tmp_path.name}", table_format
    return str(tmp_path / "rows"), table_format


def rows_of(spark: SparkSession, *numbers: int, day: str = "monday") -> DataFrame:
    kinds = {"colour": ("string", "red")}
    return spark.createDataFrame([(number, day, kinds) for number in numbers], COLUMNS)


def numbers_in(table: Table, spark: SparkSession) -> list[int]:
    return sorted(row["n"] for row in table.read(spark).collect())


@pytest.mark.spec("R9.2")
def test_a_batch_that_is_written_again_is_there_once(
    spark: SparkSession, place: tuple[str, TableFormat]
) -> None:
    table = table_at(*place, partition_by=("day",))
    table.write(rows_of(spark, 1, 2), Batch("stream", 0))
    table.write(rows_of(spark, 3), Batch("stream", 1))
    table.write(rows_of(spark, 3), Batch("stream", 1))

    assert numbers_in(table_at(*place), spark) == [1, 2, 3]


@pytest.mark.spec("R9.2")
def test_batches_of_two_streams_are_told_apart(
    spark: SparkSession, place: tuple[str, TableFormat]
) -> None:
    table = table_at(*place, partition_by=("day",))
    table.write(rows_of(spark, 1), Batch("one", 0))
    table.write(rows_of(spark, 2), Batch("other", 0))

    assert numbers_in(table, spark) == [1, 2]


def test_a_table_gives_back_columns_as_they_were(
    spark: SparkSession, place: tuple[str, TableFormat]
) -> None:
    table = table_at(*place, partition_by=("day",))
    table.write(rows_of(spark, 1, day="2026-11-16x"), Batch("stream", 0))

    [row] = table.read(spark).select("n", "day", "kinds").collect()
    assert (row["n"], row["day"]) == (1, "2026-11-16x")
    assert row["kinds"]["colour"].asDict() == {"type": "string", "value": "red"}


@pytest.mark.spec("R9.3")
def test_a_batch_that_was_half_written_is_made_whole(spark: SparkSession, tmp_path: Path) -> None:
    table = table_at(str(tmp_path), TableFormat.PARQUET, ("day",))
    both = rows_of(spark, 1, day="monday").union(rows_of(spark, 2, day="tuesday"))
    table.write(both, Batch("stream", 0))
    # As if it had been killed after the first folder.
    [moved] = tmp_path.glob("day=tuesday/batch=*")
    for path in moved.iterdir():
        path.unlink()
    moved.rmdir()
    assert numbers_in(table, spark) == [1]

    table.write(both, Batch("stream", 0))
    assert numbers_in(table, spark) == [1, 2]


def test_what_killed_writers_left_is_dropped_when_it_is_old(
    spark: SparkSession, tmp_path: Path
) -> None:
    old, new = tmp_path / ".spark-staging-1", tmp_path / ".spark-staging-2"
    for folder in (old, new):
        (folder / "day=monday").mkdir(parents=True)
    os.utime(old, (0, 0))
    table_at(str(tmp_path), TableFormat.PARQUET).write(rows_of(spark, 1), Batch("stream", 0))
    assert (old.exists(), new.exists()) == (False, True)


def test_a_table_that_is_not_there_is_refused_by_its_name(
    spark: SparkSession, place: tuple[str, TableFormat]
) -> None:
    with pytest.raises(PipelineFailed, match=r"no .*table"):
        table_at(*place).read(spark)


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("/data/orders", Path("/data/orders")),
        ("data/orders", Path("data/orders")),
        ("file:///data/my%20orders", Path("/data/my orders")),
        ("s3a://bucket/orders", None),
        ("hdfs://host/orders", None),
    ],
)
def test_only_places_of_this_machine_are_folders(place: str, folder: Path | None) -> None:
    assert local_folder(place) == folder
