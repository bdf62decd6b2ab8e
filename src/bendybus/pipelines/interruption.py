"""Ending a pipeline in good order when somebody asks for it."""

import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Final, Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_AGAIN_SECONDS: Final = 0.5


class Interruption:
    """While it is entered, a signal ends what Spark does, and then the pipeline.

    A call into Java that is cut off leaves its answer behind, and the next call takes that for its
    own. So nothing is raised inside one: another thread makes Spark give up what it has in hand,
    and the call ends by itself. A second signal ends it at once.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._is_asked = threading.Event()
        self._is_over = threading.Event()
        self._giving_up: threading.Thread | None = None
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    @property
    def is_asked(self) -> bool:
        """Whether somebody wants the pipeline to end."""
        return self._is_asked.is_set()

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if somebody wants the pipeline to end."""
        if self.is_asked:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        self._before = {each: signal.signal(each, self._asked) for each in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._is_over.set()
        if self._giving_up is not None:
            self._giving_up.join()

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked or not _is_in_java(frame):
            self._is_asked.set()
            raise KeyboardInterrupt(number)
        self._is_asked.set()
        self._giving_up = threading.Thread(target=self._give_up, name="give-up", daemon=True)
        self._giving_up.start()

    def _give_up(self) -> None:
        with suppress(PySparkException, Py4JError, OSError):
            while not self._is_over.wait(_AGAIN_SECONDS):
                for query in self._spark.streams.active:
                    query.stop()
                self._spark.sparkContext.cancelAllJobs()


def _is_in_java(frame: FrameType | None) -> bool:
    """Whether what was interrupted waits for an answer of Java."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("py4j."):
            return True
        frame = frame.f_back
    return False
