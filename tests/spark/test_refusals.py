"""What cannot be is refused at once, with what would be right; nothing changes then."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.conftest import Bus
from tests.spark.traffic import count_of

pytestmark = pytest.mark.spec("R9.1")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"entty": "x"}, "no option entty; did you mean entity"),
        ({"entity": "ordrs"}, "ordrs' could not be found"),
        ({"flightEndpoint": "http://localhost"}, "must be like grpc://"),
    ],
)
def test_wrong_options_of_a_read_are_refused(
    spark: SparkSession, bus: Bus, options: dict[str, str], why: str
) -> None:
    given = bus.source(bus.queue()) | {"timeoutSeconds": "1"} | options
    with pytest.raises(PySparkException, match=why):
        spark.read.format("servicebus").options(**given).load().collect()


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("boddy BINARY", "no column 'boddy'; did you mean body"),
        ("body STRING", "body is binary, not string"),
    ],
)
def test_wrong_columns_of_a_read_are_refused(
    spark: SparkSession, bus: Bus, schema: str, why: str
) -> None:
    reader = spark.read.format("servicebus").options(**bus.source(bus.queue()))
    with pytest.raises(PySparkException, match=why):
        reader.schema(schema).load().collect()


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT 'x' AS body, 'y' AS sesion_id", "did you mean session_id"),
        ("SELECT 1 AS body", "body must be binary or string, not int"),
    ],
)
def test_wrong_columns_of_a_write_are_refused(
    spark: SparkSession, bus: Bus, query: str, why: str
) -> None:
    queue = bus.queue()
    writer = spark.sql(query).write.format("servicebus").options(**bus.source(queue))
    with pytest.raises(PySparkException, match=why):
        writer.mode("append").save()
    assert count_of(bus, queue) == 0


def test_a_session_queue_is_not_written_without_sessions(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue(requires_session=True)
    writer = spark.sql("SELECT 'x' AS body").write.format("servicebus")
    with pytest.raises(PySparkException, match="requires sessions, and the rows have no column"):
        writer.options(**bus.source(queue)).mode("append").save()


def test_messages_are_not_overwritten(spark: SparkSession, bus: Bus) -> None:
    writer = spark.sql("SELECT 'x' AS body").write.format("servicebus")
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writer.options(**bus.source(bus.queue())).mode("overwrite").save()
