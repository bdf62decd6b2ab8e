"""From options to a client of the broker's bulk door."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_values import Place, Positions, Range
from bendybus.model.addresses import Address
from bendybus.model.ids import SubQueue
from pyspark_servicebus.options import Bus
from pyspark_servicebus.planning import Stretch

_SUB_QUEUES: Final = {
    SubQueue.DEAD_LETTER: "deadletter",
    SubQueue.TRANSFER_DEAD_LETTER: "transferdeadletter",
}


def connected(bus: Bus) -> BulkClient:
    """Return a client. It connects when it is used, and waits for a broker that restarts."""
    return BulkClient(
        bus.connection_string,
        bus.endpoint,
        authority=None if bus.authority is None else Path(bus.authority),
        patience_seconds=bus.timeout_seconds,
    )


def place_of(address: Address) -> Place:
    """Return an address the way the bulk door takes it."""
    return Place(address.path, address.subscription, _SUB_QUEUES.get(address.sub_queue))


def ranges_of(stretches: Sequence[Stretch]) -> list[Range]:
    """Return stretches of sequence numbers the way the bulk door takes them."""
    return [Range(each.fragment, each.start, each.end) for each in stretches]


def positions_of(stretches: Sequence[Stretch]) -> list[Positions]:
    """Return stretches of reserved positions the way the bulk door takes them."""
    return [Positions(each.fragment, each.start, each.end) for each in stretches]
