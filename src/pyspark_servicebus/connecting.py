"""From options to a client of the broker's bulk door."""

from collections.abc import Sequence
from pathlib import Path

from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_values import Positions, Range
from pyspark_servicebus.options import Bus
from pyspark_servicebus.planning import Stretch


def connected(bus: Bus) -> BulkClient:
    """Return a client. It connects when it is used, and waits for a broker that restarts."""
    return BulkClient(
        bus.connection_string,
        bus.endpoint,
        authority=None if bus.authority is None else Path(bus.authority),
        patience_seconds=bus.timeout_seconds,
    )


def ranges_of(stretches: Sequence[Stretch]) -> list[Range]:
    """Return stretches of sequence numbers the way the bulk door takes them."""
    return [Range(each.fragment, each.start, each.end) for each in stretches]


def positions_of(stretches: Sequence[Stretch]) -> list[Positions]:
    """Return stretches of reserved positions the way the bulk door takes them."""
    return [Positions(each.fragment, each.start, each.end) for each in stretches]
