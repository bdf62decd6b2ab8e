"""The management API: an entity shown, with its counts, in a namespace that has many."""

from collections.abc import Iterator
from typing import Final

from bench.doors.load import rate_over_http
from bench.features.stage import Stage
from bench.processes import with_cpu_shares
from bench.readings import Figure, Reading

ENTITIES: Final = 1_000
# A namespace may not have more partitioned ones, so the others are all conventional.
OTHERS: Final = {
    f"other-{number:03}": {"EnablePartitioning": False} for number in range(ENTITIES - 1)
}


def management(stage: Stage) -> Iterator[Reading]:
    """Get the same entity again and again, over the pool of kept connections."""
    with stage.queues("management", OTHERS) as side:
        path = f"/{side.queue}?api-version=2021-05"

        def get() -> float:
            return rate_over_http(side, "get", path, stage.size.doors.requests)

        for _ in range(stage.size.doors.repeats):
            rate, cpu = with_cpu_shares(side.broker.pid, get)
            yield side.reading(Figure.MANAGEMENT_GET, rate, cpu=cpu)
