"""A Spark driver of its own, to be killed: writes numbered rows to an entity, as one transaction.

writing_driver.py ENTITY COUNT
"""

import sys

from bendybus.pipelines.session import spark_session
from tests.spark.conftest import MASTER

TASKS = 8


def main(entity: str, count: int) -> None:
    """Write all rows, unless an earlier run has; say when Spark is there."""
    with spark_session("writing", MASTER) as spark:
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        rows = spark.range(0, count, numPartitions=TASKS).selectExpr(
            "binary(string(id)) AS body", "concat('k', id % 100) AS partition_key"
        )
        writer = rows.write.format("servicebus").options(entity=entity, transactionId="all")
        writer.mode("append").save()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
