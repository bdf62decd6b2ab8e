"""The mark of a stream reader that ends by itself, where Spark knows one (from 4.2 on).

Spark 4.1 takes one batch of any source for `Trigger.AvailableNow`.
"""

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # pragma: no cover - Spark 4.1

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]  # the same name, where it lacks
        """Nothing that Spark looks for."""


__all__ = ["SupportsTriggerAvailableNow"]
