"""What one task reads."""

from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from pyspark_servicebus.planning import Stretch


class Slice(InputPartition):
    """Stretches of some fragments, and for a consuming reader the token that reads them."""

    def __init__(self, stretches: Sequence[Stretch], token: str | None = None) -> None:
        super().__init__(tuple(stretches))
        self.stretches = tuple(stretches)
        self.token = token
