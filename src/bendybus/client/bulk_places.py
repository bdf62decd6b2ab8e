"""Addresses the way the bulk door takes them."""

from typing import Final

from bendybus.client.bulk_values import Place
from bendybus.model.addresses import Address
from bendybus.model.ids import SubQueue

_SUB_QUEUES: Final = {
    SubQueue.DEAD_LETTER: "deadletter",
    SubQueue.TRANSFER_DEAD_LETTER: "transferdeadletter",
}


def place_of(address: Address) -> Place:
    """Return what an address names."""
    return Place(address.path, address.subscription, _SUB_QUEUES.get(address.sub_queue))
