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
        ({"numTasks": "many"}, "numTasks is 'many'"),
        ({"entity": "ordrs"}, "'ordrs' could not be found"),
        ({"subscription": "none"}, "none"),
        ({"reader": "x"}, "reader is for spark.readStream"),
        ({"startingOffsets": '{"99": 1}'}, "no fragment 99"),
        ({"flightEndpoint": "http://localhost"}, "must be like grpc://"),
        ({"connectionString": "Endpoint=sb://x"}, "needs SharedAccessKeyName"),
    ],
)
def test_wrong_options_of_a_read_are_refused(
    spark: SparkSession, bus: Bus, options: dict[str, str], why: str
) -> None:
    given = bus.source(bus.queue()) | {"timeoutSeconds": "1"} | options
    with pytest.raises(PySparkException, match=why):
        spark.read.format("servicebus").options(**given).load().collect()


def test_a_wrong_key_is_refused(spark: SparkSession, bus: Bus) -> None:
    wrong = bus.connection_string.replace("SAS_KEY_VALUE", "wrong")
    given = bus.source(bus.queue(), connectionString=wrong)
    with pytest.raises(PySparkException, match=r"(?i)unauthor|signature|token|key") as caught:
        spark.read.format("servicebus").options(**given).load().collect()
    assert "SharedAccessKey=wrong" not in str(caught.value)


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
        ("SELECT 'x' AS body, 5 AS time_to_live", "time_to_live must be bigint, not int"),
        ("SELECT 1L AS sequence_number", "nothing to write"),
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


def test_nobody_at_the_door_is_said_with_its_address(spark: SparkSession, bus: Bus) -> None:
    given = bus.source(bus.queue(), flightEndpoint="grpc://localhost:1", timeoutSeconds=1)
    with pytest.raises(PySparkException, match="no broker answers at grpc://localhost:1"):
        spark.read.format("servicebus").options(**given).load().collect()
