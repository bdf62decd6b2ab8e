"""The scenarios of Spark by name. They play on partitioned entities: 16 fragments."""

from collections.abc import Mapping
from typing import Final

from bench.features.scenarios import PARTITIONED, Feature
from bench.spark.capturing import beside, capturing, latency
from bench.spark.reading import memory, reading
from bench.spark.writing import replaying, writing

SPARK: Final[Mapping[str, Feature]] = {
    "spark-read": Feature(PARTITIONED, (reading,)),
    "spark-write": Feature(PARTITIONED, (writing,)),
    "spark-capture": Feature(PARTITIONED, (capturing, latency, beside)),
    "spark-replay": Feature(PARTITIONED, (replaying,)),
    "spark-memory": Feature(PARTITIONED, (memory,)),
}
