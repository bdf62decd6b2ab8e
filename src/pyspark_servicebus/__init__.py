"""The Spark data source `servicebus`: batch and stream, read and write, over Arrow Flight.

    spark.readStream.format("servicebus").option("entity", "orders").option("mode", "consume")…

Spark registers it by itself wherever this package is installed. docs/spark.md says the rest.
"""

from pyspark_servicebus.spark_version import check_spark

try:
    from pyspark_servicebus.settling import commit, settle
    from pyspark_servicebus.source import DefaultSource
except ImportError:
    # Before version 4, Spark had no sources in Python.
    check_spark()
    raise

__all__ = ["DefaultSource", "commit", "settle"]
