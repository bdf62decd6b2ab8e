"""What `stats` says of messages: exact numbers, from a table and from the broker."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bendybus.client import Client, Message
from bendybus.columns.schema import spark_schema
from bendybus.model.errors import ArgumentInvalid
from bendybus.pipelines import measures, stats
from bendybus.pipelines.measures import bucket_seconds, gini, moment
from bendybus.pipelines.progress import Progress
from tests.spark.conftest import Bus

pytestmark = pytest.mark.spec("R9.2")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=10)


def row(number: int, **given: Any) -> tuple[Any, ...]:
    """Return a message in the columns that are looked at."""
    values = {
        "fragment": 0,
        "sequence_number": number,
        "enqueued_time": NOON + timedelta(seconds=number),
        "state": "active",
        "message_id": f"m{number}",
        "session_id": None,
        "partition_key": None,
        "delivery_count": 0,
        "body": b"x" * 10,
        **given,
    }
    return tuple(values[name] for name in measures.COLUMNS)


ROWS = [
    *(row(each, partition_key="hot", body=b"x" * 100) for each in range(60)),
    *(row(each, fragment=1, partition_key=f"k{each}", delivery_count=2) for each in range(60, 80)),
    *(row(each, fragment=2, session_id=f"s{each % 4}") for each in range(80, 100)),
    row(100, fragment=2, message_id="m1", session_id="s0", state="deferred", body=b""),
    row(100, fragment=3, message_id="m1", body=None),
    row(100, fragment=3, message_id="m2", state="scheduled"),
]


def options(entity: str, bus: Bus | None = None, **given: Any) -> stats.Options:
    connection = "Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=b"
    if bus is not None:
        connection, given["flight_endpoint"] = bus.connection_string, bus.flight_endpoint
    return stats.Options(connection_string=connection, entity=entity, **given)


def run(spark: SparkSession, chosen: stats.Options) -> dict[str, Any]:
    """Run the pipeline; what it returns must be JSON, as the command prints it."""
    result = stats.run(spark, chosen, Progress(spark, lambda _: None))
    return dict(json.loads(json.dumps(result)))


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], str]:
    """What is said of the rows above, and the page."""
    folder = tmp_path_factory.mktemp("stats")
    table, page = folder / "table", folder / "report.html"
    frame = spark.createDataFrame(ROWS, spark_schema(measures.COLUMNS))
    frame.repartition(3).write.parquet(str(table))
    chosen = options("orders", table=str(table), as_of=LATER.isoformat(), top=2, report=page)
    return run(spark, chosen), page.read_text(encoding="utf-8")


def test_messages_and_their_bodies_are_counted(found: tuple[dict[str, Any], str]) -> None:
    result, _ = found
    assert (result["messages"], result["bytes"]) == (103, 6000 + 200 + 200 + 10)
    assert result["first"] == "2026-01-01T12:00:00+00:00"
    assert result["last"] == "2026-01-01T12:01:40+00:00"
    assert result["states"] == {"active": 101, "deferred": 1, "scheduled": 1}
    assert result["delivery_count_max"] == 2
    body = result["body_bytes"]
    assert (body["min"], body["p50"], body["p90"], body["max"]) == (0, 100, 100, 100)
    assert body["mean"] == pytest.approx(6410 / 103)
    assert result["sizes"] == [
        {"up_to_bytes": 1, "messages": 2},
        {"up_to_bytes": 16, "messages": 41},
        {"up_to_bytes": 128, "messages": 60},
    ]


def test_rates_and_ages_are_those_of_the_clock_that_was_given(
    found: tuple[dict[str, Any], str],
) -> None:
    result, _ = found
    rate = result["rate"]
    assert rate["bucket_seconds"] == 5
    assert len(rate["buckets"]) == 21
    assert sum(each["messages"] for each in rate["buckets"]) == 103
    assert rate["buckets"][0] == {
        "from": "2026-01-01T12:00:00+00:00",
        "messages": 5,
        "bytes": 500,
    }
    assert (rate["per_second_mean"], rate["per_second_most"]) == (pytest.approx(1.03), 1.0)
    age = result["age_seconds"]
    assert (age["min"], age["max"]) == (500.0, 600.0)
    assert age["p50"] == pytest.approx(549, abs=1)


def test_skew_hot_keys_sessions_and_duplicates_are_found(
    found: tuple[dict[str, Any], str],
) -> None:
    result, _ = found
    assert [each["messages"] for each in result["skew"]["fragments"]] == [60, 20, 21, 2]
    assert result["skew"]["most_to_mean"] == pytest.approx(60 / 25.75)
    assert result["skew"]["gini"] == pytest.approx(gini([60, 20, 21, 2]))
    assert (result["keys"]["keys"], result["keys"]["messages_with_key"]) == (25, 101)
    assert result["keys"]["hottest"] == [
        {"key": "hot", "messages": 60, "bytes": 6000, "share": pytest.approx(60 / 101)},
        {"key": "s0", "messages": 6, "bytes": 50, "share": pytest.approx(6 / 101)},
    ]
    sessions = result["sessions"]
    assert sessions["sessions"] == 4
    assert sessions["messages_per_session"] == {
        "min": 5,
        "mean": 5.25,
        "p50": 5.0,
        "p90": pytest.approx(5.7),
        "p99": pytest.approx(5.97),
        "max": 6,
    }
    assert sessions["longest"] == [
        {"session_id": "s0", "messages": 6, "seconds": 20.0},
        {"session_id": "s1", "messages": 5, "seconds": 16.0},
    ]
    assert result["duplicates"] == {
        "ids": 2,
        "extra_messages": 3,
        "most": [{"message_id": "m1", "messages": 3}, {"message_id": "m2", "messages": 2}],
    }


def test_the_page_and_the_lines_say_the_same(found: tuple[dict[str, Any], str]) -> None:
    result, page = found
    for heading in ("At a glance", "Hot keys", "Sessions", "How evenly they lie"):
        assert f"<h2>{heading}</h2>" in page
    assert page.count('<svg class="plot"') == 4
    lines = stats.as_text(result)
    assert "103 with 6,410 bytes of bodies" in lines
    assert "25 of 101 messages; hot 59%; s0 6%" in lines


def test_nothing_is_said_of_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    spark.createDataFrame([], spark_schema(measures.COLUMNS)).write.parquet(table)
    result = run(spark, options("orders", table=table, report=tmp_path / "r.html"))
    assert (result["messages"], result["rate"]["buckets"], result["skew"]["gini"]) == (0, [], None)
    assert stats.as_text(result) == f"orders in {table} holds no messages"
    assert "no messages" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_an_entity_is_looked_at_where_it_is(
    spark: SparkSession, bus: Bus, is_partitioned: bool
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    with Client.from_connection_string(bus.connection_string) as client:
        client.sender(queue).send(
            [Message(b"x" * 50, message_id=f"{at % 30}", partition_key="k") for at in range(40)]
        )
        result = run(spark, options(queue, bus))
        assert client.count(queue) == 40
    assert (result["messages"], result["bytes"], result["states"]) == (40, 2000, {"active": 40})
    # The empty fragments count: all messages have one key.
    fragments = 16 if is_partitioned else 1
    assert len(result["skew"]["fragments"]) == fragments
    assert result["skew"]["most_to_mean"] == fragments
    assert result["duplicates"]["extra_messages"] == 10


@pytest.mark.parametrize(
    ("counts", "value"),
    [([], None), ([0, 0], None), ([5, 5, 5], 0), ([0, 0, 0, 8], 0.75), ([1, 3], 0.25)],
)
def test_gini_tells_how_unevenly_something_is_shared(
    counts: list[int], value: float | None
) -> None:
    assert gini(counts) == (value if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("span", "seconds"),
    [
        (0, 1),
        (95, 1),
        (96, 5),
        (3600, 60),
        (86_000, 900),
        (86_400, 3600),
        (86_400 * 700, 14 * 86_400),
    ],
)
def test_plots_have_a_bounded_number_of_columns(span: float, seconds: int) -> None:
    assert bucket_seconds(span) == seconds
    assert span / seconds < 96


def test_times_keep_their_fraction() -> None:
    assert moment(1_500_000) == "1970-01-01T00:00:01.500000+00:00"
    assert moment(None) is None


@pytest.mark.parametrize(
    ("given", "text"), [({"top": 0}, "--top"), ({"as_of": "yesterday"}, "--as-of: 'yesterday'")]
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentInvalid, match=text):
        options("orders", **given)
