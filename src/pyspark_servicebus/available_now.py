"""The mark of a stream reader that ends by itself, where Spark knows one (from 4.2 on).

Spark 4.1 takes one batch of any source for `Trigger.AvailableNow`.
"""

from typing import Final

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # pragma: no cover - Spark 4.1

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]  # the same name, where it lacks
        """Nothing that Spark looks for."""


TAKES_ALL: Final = SupportsTriggerAvailableNow.__module__ != __name__
"""Whether Spark goes on until all is taken that was there."""

__all__ = ["TAKES_ALL", "SupportsTriggerAvailableNow"]
