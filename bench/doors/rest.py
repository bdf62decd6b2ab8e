"""Messages over HTTP: sends, and receives for good, on a pool of kept connections."""

from collections.abc import Iterator

from bench.doors.load import rate_over_http
from bench.features.stage import Stage
from bench.processes import with_cpu_shares
from bench.readings import Figure, Reading
from bench.scenarios import SMALL_BODY_BYTES


def rest(stage: Stage) -> Iterator[Reading]:
    """Send, then receive as much; the queue is empty before and after each turn."""
    count = stage.size.doors.requests
    with stage.queue("rest") as side:
        side.warm_up()
        path = f"/{side.queue}"

        def send() -> float:
            return rate_over_http(side, "send", path, count, body_bytes=SMALL_BODY_BYTES)

        def take() -> float:
            return rate_over_http(side, "take", path, count)

        for _ in range(stage.size.doors.repeats):
            for figure, work in ((Figure.REST_SEND, send), (Figure.REST_RECEIVE, take)):
                rate, cpu = with_cpu_shares(side.broker.pid, work)
                yield side.reading(figure, rate, cpu=cpu)
