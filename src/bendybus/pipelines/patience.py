"""Work that is done again when the broker, one of its stores or a process of Spark was away."""

import time
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from bendybus.pipelines.failure import PipelineFailed, may_pass, reason_of
from bendybus.pipelines.reading import Reading

Done = TypeVar("Done")

OUTAGE_SECONDS_MAX: Final = 300.0
PAUSE_SECONDS_MIN: Final = 1.0
PAUSE_SECONDS_MAX: Final = 15.0


class Told(Protocol):
    """Whoever is told how far the work has come."""

    @property
    def reading(self) -> Reading:
        """What was said last."""
        ...

    def stage(self, text: str) -> None:
        """Hear what is being done from now on."""
        ...


def patiently(work: Callable[[], Done], progress: Told) -> Done:
    """Do work that may be done twice, again and again until it is done.

    Raises what it raised if trying again cannot help, or if nothing went on for five minutes.
    """
    stage = progress.reading.stage
    rows, since, pause = -1, 0.0, 0.0
    while True:
        try:
            return work()
        except (PipelineFailed, PySparkException, Py4JJavaError) as error:
            if progress.reading.rows != rows:
                rows, since, pause = progress.reading.rows, time.monotonic(), PAUSE_SECONDS_MIN
            if not may_pass(error) or time.monotonic() - since > OUTAGE_SECONDS_MAX:
                raise
            progress.stage(f"waiting ({reason_of(error)})")
        time.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)
        progress.stage(stage)
