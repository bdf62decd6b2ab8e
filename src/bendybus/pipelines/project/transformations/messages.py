"""The messages of an entity as a table that grows with each run, and some of them sent on.

Each run takes what has come since the last one, once. The bus is found by the environment's
BENDYBUS_CONNECTION_STRING, so that no key stands in a file.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

LARGE_BYTES = 100

spark = SparkSession.active()


@dp.table(comment="Every message of the source, as it came.")
def messages() -> DataFrame:
    """Take the messages out of the queue: what is in the table is completed there."""
    return (
        spark.readStream.format("servicebus")
        .option("entity", spark.conf.get("bus.source"))
        .option("mode", "consume")
        .option("reader", "messages")
        .load()
    )


dp.create_sink("large", "servicebus", {"entity": spark.conf.get("bus.target") or ""})


@dp.append_flow(target="large")
def send_large() -> DataFrame:
    """Send messages with a long body on to another queue, each once."""
    return (
        spark.readStream.table("messages")
        .where(f.length("body") > LARGE_BYTES)
        .select("message_id", "session_id", "subject", "content_type", "body")
    )
