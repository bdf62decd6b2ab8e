"""What the project promises of bulk work by Spark, most of it beside Parquet in the same run."""

from typing import Final

from bench.promise import Measured, Promise, ratio
from bench.readings import Figure, Readings
from bench.scenarios import SMALL_BODY_BYTES

TARGET: Final = "bendybus partitioned"
READ_RATIO_MIN: Final = 0.4
READ_BODY_RATIO_MIN: Final = 0.6
WRITE_RATIO_MIN: Final = 0.35
WRITE_TO_SEND_RATIO_MIN: Final = 3.0
CAPTURE_RATIO_MIN: Final = 0.6
CAPTURE_P50_MS_MAX: Final = 1_000.0
SEND_BESIDE_RATIO_MIN: Final = 0.5
REPLAYED_PER_SECOND_MIN: Final = 100_000.0
REPLAY_RATIO_MIN: Final = 0.5
READ_RESIDENT_MB_MAX: Final = 300.0


def value_of(readings: Readings, figure: Figure) -> float | None:
    """A figure of the partitioned queue."""
    return readings.median(figure, TARGET, SMALL_BODY_BYTES)


def plain(figure: Figure) -> Measured:
    """The figure itself."""
    return lambda readings: value_of(readings, figure)


def over(figure: Figure, other: Figure) -> Measured:
    """One figure over another."""
    return lambda readings: ratio(value_of(readings, figure), value_of(readings, other))


def replayed(readings: Readings) -> float | None:
    """The rate over what it must reach: a fixed rate, or a part of the batch write, if lower."""
    write = value_of(readings, Figure.REPLAY_WRITE)
    if write is None:
        return None
    wanted = min(REPLAYED_PER_SECOND_MIN, REPLAY_RATIO_MIN * write)
    return ratio(value_of(readings, Figure.SPARK_REPLAY), wanted)


SPARK_PROMISES: Final = (
    Promise(
        "Spark read / Parquet, all columns",
        "spark-read",
        over(Figure.SPARK_READ, Figure.PARQUET_READ),
        READ_RATIO_MIN,
    ),
    Promise(
        "Spark read / Parquet, body",
        "spark-read",
        over(Figure.SPARK_READ_BODY, Figure.PARQUET_READ_BODY),
        READ_BODY_RATIO_MIN,
    ),
    Promise(
        "Spark write / Parquet",
        "spark-write",
        over(Figure.SPARK_WRITE, Figure.PARQUET_WRITE),
        WRITE_RATIO_MIN,
    ),
    Promise(
        "Spark write / ordinary sends",
        "spark-write",
        over(Figure.SPARK_WRITE, Figure.SEND),
        WRITE_TO_SEND_RATIO_MIN,
    ),
    Promise(
        "Spark capture / Parquet to Parquet",
        "spark-capture",
        over(Figure.SPARK_CAPTURE, Figure.PARQUET_STREAM),
        CAPTURE_RATIO_MIN,
    ),
    Promise(
        "from send to table p50, ms",
        "spark-capture",
        plain(Figure.SPARK_CAPTURE_P50),
        at_most=CAPTURE_P50_MS_MAX,
    ),
    Promise(
        "sends during a capture / alone",
        "spark-capture",
        over(Figure.BESIDE_CAPTURE_SEND, Figure.ALONE_SEND),
        SEND_BESIDE_RATIO_MIN,
    ),
    Promise("Spark replay / what is promised", "spark-replay", replayed, 1.0),
    Promise(
        "memory of the broker while it is read, MB",
        "spark-memory",
        plain(Figure.SPARK_READ_RESIDENT),
        at_most=READ_RESIDENT_MB_MAX,
    ),
)
