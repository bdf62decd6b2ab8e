"""How much still waits, from what Spark says of its sources."""

import json

import pytest
from pyspark.sql.streaming.listener import SourceProgress

from bendybus.pipelines.progress import lag_of


def source(latest: object) -> SourceProgress:
    return SourceProgress(
        description="servicebus",
        startOffset="{}",
        endOffset='{"0": 1}',
        latestOffset=json.dumps(latest),
        numInputRows=0,
        inputRowsPerSecond=0.0,
        processedRowsPerSecond=0.0,
        metrics={},
    )


@pytest.mark.parametrize(
    ("latest", "lag"),
    [
        ({"reader": "t", "0": 1, "lag": {"0": 30, "1": 12}}, 42),
        ({"reader": "t", "0": 1}, None),
        (None, None),
    ],
    ids=["the source says it", "Spark 4.1 does not ask it", "nothing yet"],
)
def test_the_lag_is_what_the_source_says(latest: object, lag: int | None) -> None:
    assert lag_of([source(latest)]) == lag


def test_the_lag_of_several_sources_is_known_if_each_is() -> None:
    known, unknown = source({"lag": {"0": 2}}), source(None)
    assert lag_of([known, known]) == 4
    assert lag_of([known, unknown]) is None
