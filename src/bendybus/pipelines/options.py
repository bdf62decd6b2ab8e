"""What every pipeline can be told of the bus, and how one declares what else it can be told.

A field of a pipeline's `Options` is an argument of its command if it has no default, else an
option; what it is for stands beside its type:

    @dataclass(frozen=True, kw_only=True)
    class Options(BusOptions):
        entity: Annotated[str, "A queue or a topic."]
        rate: Annotated[int | None, "At most so many a second."] = None

Its type may be str, int, float, bool, Path, an enumeration of texts, any of them or None, or a
tuple of texts, which is an option that may repeat.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class BusOptions:
    """Where the bus is. The command line has these options for every pipeline."""

    connection_string: str
    flight_endpoint: str | None = None
    authority: Path | None = None

    def bus(
        self, entity: str, subscription: str | None = None, sub_queue: str | None = None
    ) -> dict[str, str]:
        """Return the options of the data source `servicebus` for an entity."""
        given = {
            "connectionString": self.connection_string,
            "flightEndpoint": self.flight_endpoint,
            "authority": None if self.authority is None else str(self.authority),
            "entity": entity,
            "subscription": subscription,
            "subQueue": sub_queue,
        }
        return {name: value for name, value in given.items() if value is not None}
