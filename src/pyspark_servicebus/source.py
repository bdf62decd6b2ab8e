"""`format("servicebus")`: what Spark asks of a data source, handed on to who does it."""

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from bendybus.columns.schema import spark_schema
from pyspark_servicebus.option_names import Given, Use
from pyspark_servicebus.options import Mode, reading_of, streaming_of, writing_of
from pyspark_servicebus.spark_version import check_spark


class DefaultSource(DataSource):
    """Queues, topics and subscriptions of a Service Bus as frames and streams (docs/spark.md).

    Spark finds it by itself, because the package is called `pyspark_…`. It imports that package
    in every process that looks for a source, so what does the work is imported when it is asked
    for.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        check_spark()
        super().__init__(options)
        self._given = Given(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "servicebus"

    def schema(self) -> str:
        """Return all columns of a message; `.schema(…)` of the user's may name fewer."""
        return spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a batch."""
        from pyspark_servicebus.batch_reading import BatchReader, FilteringBatchReader

        reading = reading_of(self._given)
        kind = FilteringBatchReader if reading.pushes_filters else BatchReader
        return kind(reading, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Read a stream."""
        from pyspark_servicebus.browsing import BrowsingReader
        from pyspark_servicebus.consuming import ConsumingReader

        streaming = streaming_of(self._given)
        kind = ConsumingReader if streaming.mode is Mode.CONSUME else BrowsingReader
        return kind(streaming, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Write a batch."""
        from pyspark_servicebus.writing import BatchWriter

        return BatchWriter(writing_of(self._given, Use.WRITE), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802, FBT001 - Spark's signature
        """Write a stream."""
        from pyspark_servicebus.writing import StreamWriter

        return StreamWriter(writing_of(self._given, Use.WRITE_STREAM), schema, overwrite=overwrite)
