"""How much still waits, from what Spark says of its sources."""

import json

import pytest
from pyspark.sql.streaming.listener import SourceProgress

from bendybus.pipelines.progress import lag_of


def source(end: object, latest: object) -> SourceProgress:
    return SourceProgress(
        description="servicebus",
        startOffset="{}",
        endOffset=json.dumps(end),
        latestOffset=json.dumps(latest),
        numInputRows=0,
        inputRowsPerSecond=0.0,
        processedRowsPerSecond=0.0,
        metrics={},
    )


@pytest.mark.parametrize(
    ("end", "latest", "lag"),
    [
        ({"0": 5, "1": 7}, {"0": 9, "1": 7}, 4),
        ({"0": 5}, {"0": 9, "1": 3}, 7),
        ({"reader": "t", "0": 1}, {"reader": "t", "0": 1, "lag": {"0": 30, "1": 12}}, 42),
        ({"0": 5}, None, None),
        (None, {"0": 5}, None),
    ],
    ids=["offsets", "a new fragment", "the source says it", "nothing latest", "nothing yet"],
)
def test_the_lag_is_what_the_source_says_or_the_way_between_its_offsets(
    end: object, latest: object, lag: int | None
) -> None:
    assert lag_of([source(end, latest)]) == lag


def test_the_lag_of_several_sources_is_known_if_each_is() -> None:
    known, unknown = source({"0": 1}, {"0": 3}), source({"0": 1}, None)
    assert lag_of([known, known]) == 4
    assert lag_of([known, unknown]) is None
