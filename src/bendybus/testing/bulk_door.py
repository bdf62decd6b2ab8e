"""A local broker that is read and written in bulk, for tests in its own loop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bendybus.doors.door import Door
from bendybus.flight.calls import Calls
from bendybus.flight.door import OpenBulkDoor, open_bulk_door
from bendybus.model.access import AccessRule
from bendybus.testing.local_broker import ROOT_RULE, LocalBroker, hosts_of


@asynccontextmanager
async def serving_flight(
    broker: LocalBroker,
    rules: tuple[AccessRule, ...] = (ROOT_RULE,),
    calls: Calls | None = None,
) -> AsyncIterator[OpenBulkDoor]:
    """Serve Arrow Flight on a free port of this machine.

    The client blocks, so it must run in another thread than the broker's loop.
    """
    broker.catalog.access.rules = rules
    doors = [Door("flight", "127.0.0.1", 0)]
    door = await open_bulk_door(doors, hosts=hosts_of(broker), clock=broker.clock, calls=calls)
    try:
        yield door
    finally:
        await door.close()
