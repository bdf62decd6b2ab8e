"""Which processor a worker keeps to."""

import pytest

from bendybus.assemble.processors import processor_of


@pytest.mark.parametrize(
    ("workers", "usable", "kept_to"),
    [
        (1, {0}, [0]),
        (2, {0, 1}, [0, 1]),
        (2, {7, 3}, [3, 7]),
        (5, {0, 2}, [0, 2, 0, 2, 0]),
        (1, {0, 1}, [None]),
        (3, {0, 1, 2, 3}, [None, None, None]),
    ],
)
def test_workers_keep_to_processors_that_are_not_more_than_they(
    workers: int, usable: set[int], kept_to: list[int | None]
) -> None:
    assert [processor_of(each, workers, usable) for each in range(workers)] == kept_to
